"""The log, a page at a time."""

from collections.abc import AsyncIterator, Iterator

import msgspec

from octostore.client.port import AsyncPort, Port
from octostore.core.events import Event
from octostore.core.questions import ListEvents


def past_events(port: Port, question: ListEvents) -> Iterator[Event]:
    """All that `question` asks for, up to now."""
    looked_to = -1
    while question.after != looked_to:
        looked_to = question.after
        page = port.ask(question)
        yield from page.events
        question = msgspec.structs.replace(question, after=page.after)


async def past_events_async(port: AsyncPort, question: ListEvents) -> AsyncIterator[Event]:
    """The same, awaited."""
    looked_to = -1
    while question.after != looked_to:
        looked_to = question.after
        page = await port.ask(question)
        for event in page.events:
            yield event
        question = msgspec.structs.replace(question, after=page.after)
