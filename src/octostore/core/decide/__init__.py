"""`decide` handles one command: it changes rows and appends events in the working set, or raises and changes nothing.

(One exception to "nothing": an expiry found along the way is a fact, and stays recorded.)
"""

from octostore.core.commands import Command, R_co
from octostore.core.decide import (  # noqa: F401  # each registers the commands it decides
    claim,
    enqueue,
    expiry,
    handover,
    lease,
    matching,
    operate,
    release,
    sessions,
    tasks,
    tokens,
    undo,
)
from octostore.core.decide.rules import RULES
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet


def decide(ws: WorkingSet, command: Command[R_co], sources: Sources) -> R_co:
    reply: R_co = RULES[type(command)].decide(ws, command, sources)
    return reply
