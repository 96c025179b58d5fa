"""Spans for what is done with jobs, by OpenTelemetry's conventions for messaging. The only module that knows its API.

    enqueue   send      PRODUCER   in the caller's trace; its context is stored with the job
    claim     receive   CLIENT     the root of the attempt's own trace, linked to the enqueue and the last attempt
    work      process   CONSUMER   below `receive`, with the same links; current while the block or handler runs
    release   settle    CLIENT     below `process`, or `receive` if nothing was held

A claim that is not granted leaves no span: its `receive` is started, because its context is sent with the claim, and
never ended. Spans carry names and numbers of jobs; never a lease id, a document, or the text of an error.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple, Protocol, Self

import msgspec
from opentelemetry import trace
from opentelemetry.context import Context, attach, get_current
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TraceFlags

from octostore._version import __version__
from octostore.core.commands import ClaimTerms, Command, Enqueue, ReleaseJob
from octostore.core.errors import OctoStoreError, Unreachable
from octostore.core.model import LOSSES
from octostore.core.replies import AttemptView, ClaimReply, ReleaseReply

SCHEMA_URL = "https://opentelemetry.io/schemas/1.37.0"
ATTEMPTS_KEPT = 10_000
"""How many attempts are remembered, so that a job is settled in the trace of its attempt."""

_Attributes = dict[str, Any]


class _Attempt(NamedTuple):
    """The parent, attributes and links that the spans of an attempt share."""

    context: SpanContext
    attributes: _Attributes
    links: list[Link]


class Spans:
    """The spans of one store. Safe to use from many threads."""

    def __init__(self, provider: Any = None) -> None:
        self._tracer = trace.get_tracer("octostore", __version__, provider, SCHEMA_URL)
        self._attempts: OrderedDict[str, _Attempt] = OrderedDict()

    def start_call(self, commands: Sequence[Command[Any]]) -> "CallSpans | None":
        """The spans of one call, or None if it makes none: heartbeats, progress and checkpoints do not."""
        if not any(isinstance(command, Enqueue | ClaimTerms | ReleaseJob) for command in commands):
            return None
        return CallSpans(self, commands)

    def start_work(self, reply: ClaimReply) -> "WorkSpan":
        """The `process` span of the attempt that `reply` grants."""
        lease_id = reply.lease_id or ""
        attempt = self.find(lease_id) or _attempt_of(reply, _context_of(reply.attempt_traceparent))
        span = self.start("process", SpanKind.CONSUMER, _below(attempt.context), attempt.attributes, attempt.links)
        # The span that settles the job belongs below this one.
        self.remember(lease_id, attempt._replace(context=span.get_span_context()))
        return WorkSpan(span)

    def start(
        self,
        operation: str,
        kind: SpanKind,
        context: Context | None,
        attributes: Mapping[str, Any],
        links: Iterable[Link] = (),
    ) -> Span:
        attributes = {
            "messaging.system": "octostore",
            "messaging.operation.type": operation,
            "messaging.operation.name": operation,
            **attributes,
        }
        return self._tracer.start_span(_name(operation, attributes), context, kind, attributes, list(links))

    def remember(self, lease_id: str, attempt: _Attempt) -> None:
        self._attempts[lease_id] = attempt
        if len(self._attempts) > ATTEMPTS_KEPT:
            self._attempts.popitem(last=False)

    def find(self, lease_id: str) -> _Attempt | None:
        return self._attempts.get(lease_id)

    def forget(self, lease_id: str) -> None:
        self._attempts.pop(lease_id, None)


class CallSpans(AbstractContextManager["CallSpans"]):
    """The spans of one call, which may carry several commands: those that enqueue share one.

    Execute `commands`, which have the contexts for the store, in its block, and pass the replies to `end`. If the block
    raises, the spans end with that error.
    """

    def __init__(self, spans: Spans, commands: Sequence[Command[Any]]) -> None:
        self.commands = list(commands)
        self._parts: list[tuple[_Part, list[int]]] = []
        enqueued = {number: command for number, command in enumerate(commands) if isinstance(command, Enqueue)}
        if enqueued:
            self._add(_Send(spans, list(enqueued.values())), list(enqueued))
        for number, command in enumerate(commands):
            if isinstance(command, ClaimTerms):
                self._add(_Receive(spans, command), [number])
            elif isinstance(command, ReleaseJob):
                self._add(_Settle(spans, command), [number])
        self._current = ExitStack()

    def _add(self, part: "_Part", numbers: list[int]) -> None:
        for number, command in zip(numbers, part.commands, strict=True):
            self.commands[number] = command
        self._parts.append((part, numbers))

    def __enter__(self) -> Self:
        if len(self._parts) == 1:
            # An instrumented HTTP client makes its span below this one, and sends the context of that.
            part, _ = self._parts[0]
            self._current.enter_context(
                trace.use_span(part.span, record_exception=False, set_status_on_exception=False)
            )
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._current.close()
        if error is not None:
            self.end([error] * len(self.commands))

    def end(self, replies: Sequence[Any]) -> None:
        """`replies` are those to `commands`, with errors in place of some."""
        for part, numbers in self._parts:
            part.end([replies[number] for number in numbers])


class _Part(Protocol):
    """One span, and the commands it covers."""

    @property
    def span(self) -> Span: ...

    @property
    def commands(self) -> Sequence[Command[Any]]: ...

    def end(self, replies: Sequence[Any]) -> None: ...


class _Send:
    def __init__(self, spans: Spans, commands: Sequence[Enqueue]) -> None:
        given = dict.fromkeys(command.traceparent for command in commands if command.traceparent)
        contexts = [_context_of(traceparent) for traceparent in given]
        # A context that the caller passed explicitly stays as it is.
        parent = _below(contexts[0]) if len(contexts) == 1 and not _is_in_span() else None
        attributes: _Attributes = {"messaging.destination.name": _same(command.queue for command in commands)}
        if len(commands) == 1:
            attributes["messaging.message.id"] = commands[0].job_id
        else:
            attributes["messaging.batch.message_count"] = len(commands)
        links = [] if parent else [_link(context, "caller") for context in contexts]
        self.span = spans.start("send", SpanKind.PRODUCER, parent, _known(attributes), links)
        ours = traceparent_of(self.span.get_span_context())
        self.commands = [_with_traceparent(command, ours) for command in commands]

    def end(self, replies: Sequence[Any]) -> None:
        _end(self.span, next((reply for reply in replies if isinstance(reply, BaseException)), None))


class _Receive:
    def __init__(self, spans: Spans, command: ClaimTerms) -> None:
        self._spans = spans
        caller = trace.get_current_span().get_span_context()
        given = command.traceparent is not None
        parent = _below(_context_of(command.traceparent)) if given else Context()
        attributes = {
            "messaging.destination.name": getattr(command, "queue", None),
            "messaging.message.id": getattr(command, "job_id", None),
            "messaging.client.id": command.owner,
        }
        links = [_link(caller, "caller")] if caller.is_valid else []
        self.span = spans.start("receive", SpanKind.CLIENT, parent, _known(attributes), links)
        self.commands = [_with_traceparent(command, traceparent_of(self.span.get_span_context()))]

    def end(self, replies: Sequence[Any]) -> None:
        (reply,) = replies
        if isinstance(reply, OctoStoreError):
            _end(self.span, reply)
        if not isinstance(reply, ClaimReply) or reply.status != "claimed":
            return
        context = self.span.get_span_context()
        stored = _context_of(reply.attempt_traceparent)
        # The trace, not the span: a proxy or an instrumented HTTP client in between may have added its own span.
        is_ours = not stored.is_valid or stored.trace_id == context.trace_id
        attempt = _attempt_of(reply, context if is_ours else stored)
        self._spans.remember(reply.lease_id or "", attempt)
        if is_ours:  # or it was received before: this is a repeated call, or the claim was handed over
            self.span.set_attributes(attempt.attributes)
            self.span.update_name(_name("receive", attempt.attributes))
            for link in attempt.links:
                self.span.add_link(link.context, link.attributes)
            _end(self.span)


class _Settle:
    def __init__(self, spans: Spans, command: ReleaseJob) -> None:
        self._spans = spans
        self.commands = [command]
        self._attempt = spans.find(command.lease_id)
        attributes = {
            "messaging.message.id": command.job_id,
            "octostore.fencing_token": command.fencing_token,
            **(self._attempt.attributes if self._attempt else {}),
            "octostore.outcome": command.outcome,
        }
        parent = _below(self._attempt.context) if self._attempt else None
        self.span = spans.start("settle", SpanKind.CLIENT, parent, _known(attributes))
        self._lease_id = command.lease_id

    def end(self, replies: Sequence[Any]) -> None:
        (reply,) = replies
        if isinstance(reply, ReleaseReply):
            self.span.set_attribute("octostore.attempt", reply.attempt)
            self.span.set_attribute("octostore.fencing_token", reply.fencing_token)
            attempt = _context_of(reply.traceparent)
            if self._attempt is None and attempt.is_valid:
                self.span.add_link(attempt, {"octostore.link": "attempt"})
        if not isinstance(reply, Unreachable):  # it will be retried
            self._spans.forget(self._lease_id)
        _end(self.span, reply if isinstance(reply, BaseException) else None)


class WorkSpan:
    """The `process` span of an attempt, current until `leave`."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._before = get_current()
        self._is_over = False
        self.traceparent = traceparent_of(span.get_span_context())
        attach(trace.set_span_in_context(span))

    def leave(self) -> None:
        """Restore the previous span; does nothing in a thread or task where this span was never current."""
        if trace.get_current_span() is self._span:
            attach(self._before)

    def end(self, outcome: str | None, error: BaseException | str | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        if outcome is not None:
            self._span.set_attribute("octostore.outcome", outcome)
        _end(self._span, error)


def traceparent_of(context: SpanContext) -> str | None:
    if not context.is_valid:
        return None  # there is no SDK
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _context_of(traceparent: str | None) -> SpanContext:
    if traceparent is None:
        return trace.INVALID_SPAN_CONTEXT
    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))


def _below(context: SpanContext) -> Context:
    """The parent context for a child of `context`, or for a root span if that is not valid."""
    return trace.set_span_in_context(NonRecordingSpan(context), Context()) if context.is_valid else Context()


def _is_in_span() -> bool:
    return trace.get_current_span().get_span_context().is_valid


def _attempt_of(reply: ClaimReply, context: SpanContext) -> _Attempt:
    before = next((attempt for attempt in reply.previous if attempt.how != "undone"), None)
    attributes = {
        "messaging.destination.name": reply.queue,
        "messaging.message.id": reply.job_id,
        "messaging.client.id": reply.owner,
        "octostore.attempt": reply.attempt,
        "octostore.fencing_token": reply.fencing_token,
        "octostore.takeover.reason": before.how if before is not None and before.how in LOSSES else None,
    }
    return _Attempt(context, _known(attributes), list(_links_of(reply, before)))


def _links_of(reply: ClaimReply, before: AttemptView | None) -> Iterable[Link]:
    if reply.traceparent is not None:
        yield _link(_context_of(reply.traceparent), "enqueue")
    if before is not None and before.traceparent is not None:
        yield _link(_context_of(before.traceparent), "previous_attempt")


def _link(context: SpanContext, to: str) -> Link:
    return Link(context, {"octostore.link": to})


def _with_traceparent(command: Any, traceparent: str | None) -> Any:
    if command.traceparent is not None or traceparent is None:
        return command
    return msgspec.structs.replace(command, traceparent=traceparent)


def _name(operation: str, attributes: Mapping[str, Any]) -> str:
    destination = attributes.get("messaging.destination.name")
    return operation if destination is None else f"{operation} {destination}"


def _same(values: Iterable[str]) -> str | None:
    different = set(values)
    return different.pop() if len(different) == 1 else None


def _known(attributes: Mapping[str, Any]) -> _Attributes:
    return {name: value for name, value in attributes.items() if value is not None}


def _end(span: Span, error: BaseException | str | None = None) -> None:
    """Record only the type of an error, because its text may quote a payload."""
    if error is not None:
        span.set_status(StatusCode.ERROR)
        span.set_attribute("error.type", error if isinstance(error, str) else type(error).__qualname__)
    span.end()
