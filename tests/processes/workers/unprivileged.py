"""Uses a store as a user to whom file permissions apply: root ignores them."""

import os
import sys

import octostore.stores.sqlite  # noqa: F401  # now: without privileges it may not be readable, nor may Python itself
from octostore import Unreachable, connect
from tests.processes.workers.talk import say

NOBODY = 65_534


def drop_privileges() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def attempt(what: str, call: object) -> None:
    assert callable(call)
    try:
        call()
    except Unreachable as fault:
        say({what: fault.reason, "text": str(fault)})
    else:
        say({what: "works"})


if __name__ == "__main__":
    drop_privileges()
    url = f"sqlite:///{sys.argv[1]}"
    attempt("open", lambda: connect(url).close())
    attempt("read", lambda: connect(url).get_job("job"))
    attempt("write", lambda: connect(url).claim_job("job"))
