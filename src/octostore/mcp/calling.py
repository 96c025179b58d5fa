"""One tool call: arguments in, a result or a failure out, as text."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from octostore.core.errors import OctoStoreError
from octostore.core.visible import visible_json
from octostore.mcp import arguments, texts
from octostore.mcp.own import Caller, Report
from octostore.mcp.tools import Tool, ToolContext
from octostore.wire.failures import Failure

DOCUMENTS = frozenset({"metadata", "payload", "checkpoint", "result", "context"})
"""Documents callers wrote: these stay as they are, nulls included."""


class Called(NamedTuple):
    """The first text is the result, a JSON document; each of the others is a notice the agent did not ask for."""

    texts: list[str]
    is_error: bool


async def call_tool(
    tool: Tool,
    caller: Caller,
    given: dict[str, Any],
    notify_progress: Callable[[float, float, str], Awaitable[None]],
    report: Report,
) -> Called:
    """Never raises: a failure is a result too."""
    is_error = True
    try:
        asked = arguments.read(tool.takes, given)
        result = await tool.call(ToolContext(await caller.store(), caller, notify_progress), asked)
    except OctoStoreError as error:
        said = text_of(texts.failure_result(error))
    except Exception as fault:  # noqa: BLE001  # the last chance to report it in words
        report(f"internal error in {tool.name}: {type(fault).__name__}: {fault}")
        said = text_of(
            Failure(error=f"{type(fault).__name__} in {tool.name}", code="internal_error", details=texts.INTERNAL_ERROR)
        )
    else:
        is_error, said = False, text_of(result, texts.next_of(result))
    return Called([said, *caller.notices()], is_error)


def text_of(result: msgspec.Struct, then: str = "") -> str:
    """The document as text, with what to do `next` in front. Nothing is said twice, and nulls are left out."""
    document = {"next": then} if then else {}
    document |= _short(msgspec.json.decode(msgspec.json.encode(result)))
    return visible_json(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def _short(value: Any) -> Any:
    match value:
        case dict():
            present = {name: it for name, it in value.items() if it is not None}
            return {name: it if name in DOCUMENTS else _short(it) for name, it in present.items()}
        case list():
            return [_short(item) for item in value]
        case _:
            return value
