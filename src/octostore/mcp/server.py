"""The tools as a server of the protocol: arguments in, answers and failures out."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
from mcp import MCPError, types
from mcp.server import Server, ServerRequestContext

from octostore._version import __version__
from octostore.core.errors import OctoStoreError
from octostore.core.visible import visible_json
from octostore.mcp import arguments, schemas, texts
from octostore.mcp.claims import Tell
from octostore.mcp.own import Caller
from octostore.mcp.tools import Desk, Tool
from octostore.wire.failures import Failure

Context: TypeAlias = ServerRequestContext[Any]


class ToolServer:
    """Answers each call for the agent behind it, which `caller_of` finds."""

    def __init__(self, tools: Sequence[Tool], caller_of: Callable[[Context], Caller], tell: Tell) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._caller_of = caller_of
        self._tell = tell

    def protocol_server(self) -> Server[Any]:
        return Server(
            "octostore",
            title="OctoStore",
            version=__version__,
            instructions=texts.INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def _list(self, _context: Context, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in self._tools.values()])

    async def _call(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            problem = f"there is no tool {params.name!r}; there are {', '.join(self._tools)}"
            raise MCPError(code=types.INVALID_PARAMS, message=problem)
        caller = self._caller_of(context)
        result = await self._answer(tool, caller, context, params.arguments or {})
        result.content += map(_text, caller.claims.notices())
        return result

    async def _answer(
        self, tool: Tool, caller: Caller, context: Context, given: dict[str, Any]
    ) -> types.CallToolResult:
        try:
            asked = arguments.read(tool.takes, given)
            desk = Desk(await caller.store(), caller.claims, caller.owner, context.session.report_progress)
            answer = await tool.call(desk, asked)
        except OctoStoreError as error:
            failure = texts.failure_answer(error)
        except Exception as fault:  # noqa: BLE001  # the last one who can say so in words
            self._tell(f"this is a fault of ours, in {tool.name}: {type(fault).__name__}: {fault}")
            failure = Failure(
                error=f"{type(fault).__name__} in {tool.name}", code="internal_error", details=texts.OUR_FAULT
            )
        else:
            return _result(answer, texts.sentence_of(answer))
        return _result(failure, texts.failure_text(failure), is_error=True)


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schemas.input_schema(tool.takes),
        output_schema=schemas.output_schema(tool.answers),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.is_reading,
            idempotent_hint=tool.is_idempotent,
            destructive_hint=tool.is_destructive,
            open_world_hint=False,
        ),
    )


def _result(answer: msgspec.Struct, sentence: str, *, is_error: bool = False) -> types.CallToolResult:
    """In words, as text for clients that show nothing else, and as a document with the schema of the tool."""
    document = msgspec.json.encode(answer)
    return types.CallToolResult(
        content=[_text(sentence), _text(visible_json(document.decode()))],
        structured_content=msgspec.json.decode(document),
        is_error=is_error,
    )


def _text(text: str) -> types.TextContent:
    return types.TextContent(text=text)
