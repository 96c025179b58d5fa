"""The rules by command, each with what must be loaded for it."""

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
    """The decorated function decides commands of this type, for which `needs` must be loaded."""

    def note(decide: Decide) -> Decide:
        RULES[kind] = Rule(decide, needs)
        return decide

    return note


def needs_of(commands: Sequence[AnyCommand]) -> Needs:
    """What must be loaded for a batch."""
    needs = Needs()
    for command in commands:
        for add in RULES[type(command)].needs:
            add(needs, command)
        if command.permit is not None:
            needs.tokens.add(command.permit.token_id)
    for line in needs.lines.values():
        # A command that names a job it does not hold may take it from the front of the line before others look.
        line.count += len(needs.documents_of)
    if needs.lists:
        # As above; and other commands with a list may change the same jobs first.
        needs.lists = dict.fromkeys(needs.lists, sum(needs.lists.values()) + len(needs.documents_of))
    return needs
