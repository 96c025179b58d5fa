"""How a guarded resource refuses a writer whose claim is over.

A process that was paused past its lease cannot know it in time, and its late write looks like any other. So each claim
has a fencing token, higher than that of every claim before it, and the resource that is written to remembers the
highest one it has seen and refuses lower ones. `fenced_update()` does that in a row of PostgreSQL or SQLite,
`FenceGuard` in the memory of one process.

A fence refuses what is older than the newest claim *it has seen*. So an owner that reads, thinks and then writes shows
its token first (`fenced_update` without values, or the whole of it in `FenceGuard.entering`): from then on nobody older
can change what it is about to read.
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
