"""Claims that outlive the command that made them: `--keep`, for agents whose every step is a new shell.

`leases` are the files with the leases of this user, `keeper` is the detached process that heartbeats for one of them,
and `rules` says when it gives a claim back.
"""
