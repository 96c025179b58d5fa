"""Read page after page, to the end."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import msgspec

from octostore.core.questions import A_co, ListEvents, Question
from octostore.core.replies import Reply

Q = TypeVar("Q", bound=Question[Any])


def pages(ask: Callable[[Question[A_co]], A_co], question: Question[A_co]) -> Iterator[A_co]:
    """The page `question` asks for, and all that follow."""
    asked: Question[A_co] | None = question
    while asked is not None:
        page = ask(asked)
        yield page
        asked = rest_of(asked, page)


async def pages_async(
    ask: Callable[[Question[A_co]], Awaitable[A_co]], question: Question[A_co]
) -> AsyncIterator[A_co]:
    asked: Question[A_co] | None = question
    while asked is not None:
        page = await ask(asked)
        yield page
        asked = rest_of(asked, page)


def rest_of(question: Q, page: Reply) -> Q | None:
    """The question for the rest; None if `page` is the last. The log has ended if its cursor stands still."""
    place = "after" if isinstance(question, ListEvents) else "cursor"
    reached = getattr(page, place)
    if reached in {None, getattr(question, place)}:
        return None
    return msgspec.structs.replace(question, **{place: reached})
