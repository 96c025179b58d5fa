"""How a guarded resource refuses a writer whose claim has ended.

A process that was paused past the end of its lease does not notice this in time, and its late write looks like any
other. So each claim has a fencing token, higher than every token before it. The resource remembers the highest token
it has seen, and refuses lower ones. `fenced_update()` does this in a PostgreSQL or SQLite row, and `FenceGuard` in the
memory of one process.

A fence refuses claims older than the newest one *it has seen*. So an owner that reads before it writes must show its
token first (`fenced_update` without values), or read and write inside `FenceGuard.entering`. After that, no older claim
can change what it reads.
"""

from octostore.fencing.errors import MissingRow, StaleToken
from octostore.fencing.guard import FenceGuard
from octostore.fencing.statement import FencedUpdate, ParamStyle, Statement, build_fenced_update
from octostore.fencing.update import Connection, fenced_update

__all__ = [
    "Connection",
    "FenceGuard",
    "FencedUpdate",
    "MissingRow",
    "ParamStyle",
    "StaleToken",
    "Statement",
    "build_fenced_update",
    "fenced_update",
]
