"""Commands and questions as HTTP calls, and responses as replies."""

from collections.abc import Callable
from datetime import datetime
from functools import cache, partial
from typing import Any, NamedTuple

import msgspec

from octostore.core.commands import Batch, CloseSession
from octostore.core.errors import OctoStoreError
from octostore.core.events import Event
from octostore.core.questions import ListEvents
from octostore.core.replies import ClosedReply, EventPage
from octostore.core.session_keys import id_of, key_in
from octostore.wire.batches import encode_batch
from octostore.wire.endpoints import BY_KIND, BY_OPERATION
from octostore.wire.failures import Failure, error_from_failure

OK = range(200, 300)


class HttpCall(NamedTuple):
    method: str
    path: str
    body: bytes | None
    read: Callable[[bytes], Any]
    is_repeatable: bool = True
    """Whether doing it twice has the same effect as doing it once, even if others have done something in between."""
    traceparent: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.traceparent is None else {"traceparent": self.traceparent}


def call_of(asked: Any, wait: float = 0) -> HttpCall:
    """Raises `TypeError` for what only the server itself may ask."""
    if isinstance(asked, Batch):
        return _batch(asked)
    endpoint = BY_KIND.get(type(asked))
    if endpoint is None:
        raise TypeError(f"a {type(asked).__name__} cannot be sent to a server")
    body = endpoint.body_for(asked, wait)
    traceparent = _take_traceparent(body)
    encoded = None if body is None else msgspec.json.encode(body)
    target, can_repeat = endpoint.target_for(asked), endpoint.can_repeat(asked)
    return HttpCall(endpoint.method, target, encoded, reader_of(asked), can_repeat, traceparent)


def _take_traceparent(body: Any) -> str | None:
    """It goes into a header, where everything between here and the server looks for it, and not in the body."""
    traceparent: str | None = getattr(body, "traceparent", None)
    if traceparent is not None:
        body.traceparent = None
    return traceparent


def reader_of(asked: Any) -> Callable[[bytes], Any]:
    if isinstance(asked, CloseSession):
        return partial(_read_closed, id_of(key_in(asked)))
    if isinstance(asked, ListEvents):
        return _read_events
    return _reader(BY_KIND[type(asked)].reply)


@cache
def _reader(kind: Any) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(kind).decode


def _read_closed(session_id: str, nothing: bytes) -> ClosedReply:
    if nothing not in {b"", b"null"}:
        raise ValueError("not a response from an OctoStore server")
    return ClosedReply(session_id=session_id)


# Several at once


class _CommandResponse(msgspec.Struct):
    status: int
    body: msgspec.Raw


class _BatchResponse(msgspec.Struct):
    answers: list[_CommandResponse]


def _batch(asked: Batch) -> HttpCall:
    endpoint = BY_OPERATION["batch"]
    is_repeatable = all(BY_KIND[type(command)].can_repeat(command) for command in asked.commands)
    return HttpCall(endpoint.method, endpoint.path, encode_batch(asked), partial(_read_batch, asked), is_repeatable)


def _read_batch(asked: Batch, body: bytes) -> list[Any]:
    responses = _reader(_BatchResponse)(body).answers
    return [_read_one(command, response) for command, response in zip(asked.commands, responses, strict=True)]


def _read_one(command: Any, response: _CommandResponse) -> Any:
    body = bytes(response.body)
    if response.status in OK:
        return reader_of(command)(body)
    failure: Failure = _reader(Failure)(body)
    error: OctoStoreError = error_from_failure(failure)
    return error


# The log


class _Page(msgspec.Struct):
    events: list[Event]
    after: int


def _read_events(body: bytes) -> EventPage:
    page: _Page = _reader(_Page)(body)
    return EventPage(events=[_with_moments(event) for event in page.events], after=page.after)


def event_from(data: bytes) -> Event:
    return _with_moments(_reader(Event)(data))


def _with_moments(event: Event) -> Event:
    """The moments among an event's details, as moments again."""
    for name, value in event.data.items():
        if name.endswith("_at") and isinstance(value, str):
            event.data[name] = msgspec.convert(value, datetime)
    return event
