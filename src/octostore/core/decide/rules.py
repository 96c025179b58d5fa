"""The rules by the commands that they decide, each with what has to be loaded for it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from octostore.core.commands import AnyCommand, Command
from octostore.core.decide.needs import Need
from octostore.core.needs import Needs
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet

Decide = TypeVar("Decide", bound=Callable[[WorkingSet, Any, Sources], Any])


class Rule(NamedTuple):
    decide: Callable[[WorkingSet, Any, Sources], Any]
    needs: tuple[Need, ...]


RULES: dict[type[Command[Any]], Rule] = {}


def decides(kind: type[Command[Any]], *needs: Need) -> Callable[[Decide], Decide]:
    """The function below decides commands of this kind, for which `needs` have to be loaded."""

    def note(decide: Decide) -> Decide:
        RULES[kind] = Rule(decide, needs)
        return decide

    return note


def needs_of(commands: Sequence[AnyCommand]) -> Needs:
    """What has to be loaded for a batch."""
    needs = Needs()
    for command in commands:
        for add in RULES[type(command)].needs:
            add(needs, command)
        if command.permit is not None:
            needs.tokens.add(command.permit.token_id)
    for line in needs.lines.values():
        # A command that names a job, and does not hold it, may take it from the front of the line before others look.
        line.count += len(needs.documents_of)
    if needs.lists:
        # As above; and others with a list may change the same jobs before.
        needs.lists = dict.fromkeys(needs.lists, sum(needs.lists.values()) + len(needs.documents_of))
    return needs
