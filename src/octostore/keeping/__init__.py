"""Claims that outlive the command that made them: `--keep`, for agents whose every step is a new shell.

`leases` are the user's lease files, `keeper` is the detached process that sends heartbeats for one of them, and `rules`
says when it releases a claim.
"""
