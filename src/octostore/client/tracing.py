"""Whether calls create spans. OpenTelemetry is imported only if they do."""

import os
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from octostore.core.errors import InvalidInput

if TYPE_CHECKING:
    from octostore.client.spans import Spans

TRACING_VARIABLE = "OCTOSTORE_TRACING"
_SETTINGS = {"1": True, "0": False, "": False}
P = TypeVar("P")


class TracerProvider(Protocol):
    """OpenTelemetry's tracer provider, from its API or SDK."""

    def get_tracer(self, *names: Any, **options: Any) -> Any: ...


Tracing: TypeAlias = bool | TracerProvider | None
"""True for the global provider, False for no spans; None to follow `OCTOSTORE_TRACING`."""


def choose_spans(tracing: Tracing) -> "Spans | None":
    """Raise `InvalidInput` if tracing is not available."""
    if tracing is None:
        setting = os.environ.get(TRACING_VARIABLE, "")
        if setting not in _SETTINGS:
            raise InvalidInput(TRACING_VARIABLE, f"is {setting!r}; it must be 1 or 0")
        tracing = _SETTINGS[setting]
    if tracing is False:
        return None
    if tracing is not True and not hasattr(tracing, "get_tracer"):
        kind = type(tracing).__name__
        raise InvalidInput("tracing", f"must be True, False or a tracer provider, not {kind}")
    try:
        from octostore.client.spans import Spans  # noqa: PLC0415  # only those who trace have it installed
    except ImportError:
        from octostore.extras import how_to_add  # noqa: PLC0415

        problem = f"needs the OpenTelemetry API; to install it: {how_to_add('otel')}"
        raise InvalidInput("tracing", problem) from None
    return Spans(None if tracing is True else tracing)


def with_spans(port: P, spans: "Spans | None") -> P:
    """`port`, or one that makes spans for its calls."""
    if spans is None:
        return port
    from octostore.client.traced_port import AsyncTracedPort, TracedPort  # noqa: PLC0415

    wrapped: Any = AsyncTracedPort if hasattr(port, "blocking") else TracedPort
    traced: P = wrapped(port, spans)
    return traced
