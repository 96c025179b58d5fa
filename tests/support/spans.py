"""Spans as an exporter gets them, as plain values."""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

Span: TypeAlias = dict[str, Any]


class _Exporter(SpanExporter):
    def __init__(self, on_span: Callable[[Span], object]) -> None:
        self._on_span = on_span

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            self._on_span(json.loads(span.to_json()))
        return SpanExportResult.SUCCESS


def provider_for(on_span: Callable[[Span], object]) -> TracerProvider:
    """Calls `on_span` with each span that ends."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(_Exporter(on_span)))
    return provider


class Spans(list[Span]):
    """The recorded spans, in the order in which they ended."""

    def __init__(self) -> None:
        super().__init__()
        self.provider = provider_for(self.append)
        self.tracer = self.provider.get_tracer("test")

    @property
    def names(self) -> list[str]:
        return [span["name"] for span in self]

    def named(self, name: str) -> Span:
        (span,) = [span for span in self if span["name"] == name]
        return span

    @property
    def traces(self) -> list[list[str]]:
        """The names of the spans of each trace, in the order in which the traces began."""
        by_trace: dict[str, list[str]] = {}
        for span in sorted(self, key=lambda span: str(span["start_time"])):
            by_trace.setdefault(trace_of(span), []).append(span["name"])
        return list(by_trace.values())


def trace_of(span: Span) -> str:
    trace_id: str = span["context"]["trace_id"]
    return trace_id


def place_of(span: Span) -> tuple[str, str]:
    return span["context"]["trace_id"], span["context"]["span_id"]


def links_of(span: Span) -> dict[str, tuple[str, str]]:
    """The linked spans, by what they are."""
    return {link["attributes"]["octostore.link"]: place_of(link) for link in span["links"]}


def place_in(traceparent: str | None) -> tuple[str, str]:
    assert traceparent is not None
    _version, trace_id, span_id, _flags = traceparent.split("-")
    return f"0x{trace_id}", f"0x{span_id}"


def assert_contains_none_of(secrets: Sequence[str], spans: Sequence[Span]) -> None:
    text = json.dumps(list(spans))
    for secret in secrets:
        assert secret
        assert secret not in text
