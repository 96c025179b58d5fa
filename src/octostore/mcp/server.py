"""The tools as a server of the protocol: arguments in, answers and failures out."""

from typing import Any, TypeAlias

import msgspec
from mcp import MCPError, types
from mcp.server import Server, ServerRequestContext

from octostore._version import __version__
from octostore.core.errors import OctoStoreError
from octostore.core.visible import visible_json
from octostore.mcp import arguments, schemas, texts
from octostore.mcp.claims import Claims, Tell
from octostore.mcp.connection import Connection
from octostore.mcp.tools import BY_NAME, TOOLS, Desk, Tool
from octostore.wire.failures import Failure

Context: TypeAlias = ServerRequestContext[Any]


class ToolServer:
    """Answers for one agent, or for several that share this process."""

    def __init__(self, connection: Connection, claims: Claims, owner: str | None, tell: Tell) -> None:
        self._connection = connection
        self._claims = claims
        self._owner = owner
        self._tell = tell
        self._tools = [_described(tool) for tool in TOOLS]

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
        return types.ListToolsResult(tools=self._tools)

    async def _call(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = BY_NAME.get(params.name)
        if tool is None:
            problem = f"there is no tool {params.name!r}; there are {', '.join(BY_NAME)}"
            raise MCPError(code=types.INVALID_PARAMS, message=problem)
        result = await self._answer(tool, context, params.arguments or {})
        # An agent that is deep in its work may not call about that job for long.
        result.content += [_text(texts.loss_text(kept.job_id)) for kept in self._claims.untold_losses()]
        result.content += [
            _text(texts.stop_text(kept.job_id, kept.stop_reason)) for kept in self._claims.untold_stops()
        ]
        return result

    async def _answer(self, tool: Tool, context: Context, given: dict[str, Any]) -> types.CallToolResult:
        try:
            asked = arguments.read(tool.takes, given)
            store = await self._connection.store()
            desk = Desk(store, self._claims, self._owner, context.session.report_progress)
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
