"""The store as a request's token may use it: with the same checks, limits and omissions as the routes."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import msgspec

from octostore.client.http.calls import reader_of
from octostore.client.port import Port
from octostore.core.commands import Command, R_co
from octostore.core.errors import OctoStoreError, Unreachable
from octostore.core.events import Event
from octostore.core.limits import check_range
from octostore.core.questions import ListEvents, Question
from octostore.core.undo import undo_of
from octostore.server.calls import Call, admit, note_error, respond, wait_and_respond
from octostore.server.http import ClientDisconnected, Response, encode
from octostore.server.refusals import Refusal
from octostore.wire.bodies import Shape
from octostore.wire.endpoints import BY_KIND
from octostore.wire.failures import error_from_failure
from octostore.wire.fields import WAIT_MAX_SECONDS

OF_A_PROCESS = ("host", "pid")
"""Fields in which the library describes its own process, which is the server and not the agent."""


class ServedPort:
    """For one request. Remembers what it claimed, to undo it if nobody receives the reply."""

    def __init__(self, request: Call) -> None:
        self._request = request
        self._undoable: list[tuple[Command[Any], Any]] = []

    async def execute(self, command: Command[R_co], wait: float = 0) -> R_co:
        check_range("wait", wait, 0, WAIT_MAX_SECONDS, " seconds")
        if not wait:
            (reply,) = await self.execute_all([command])
            if isinstance(reply, Exception):
                raise reply
            return cast("R_co", reply)
        with self._translating_errors():
            return cast("R_co", self._reply(command, await wait_and_respond(self._call_for(command, wait), wait)))

    async def execute_all(self, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:  # noqa: ARG002
        """Always in one transaction: they are few."""
        with self._translating_errors():
            calls = [self._call_for(command) for command in commands]
            prepared = [call.route.prepare(call) for call in calls]
            outcomes = await self._request.services.store.submit(prepared)
        replies: list[Any] = []
        for call, command, asked, outcome in zip(calls, commands, prepared, outcomes, strict=True):
            try:
                with self._translating_errors():
                    replies.append(self._reply(command, respond(call, asked, outcome)))
            except OctoStoreError as error:
                replies.append(error)
        return replies

    async def ask(self, question: Question[R_co]) -> R_co:
        with self._translating_errors():
            call = self._call_for(question)
            reply = await self._request.services.store.ask(call.route.prepare(call))
            return cast("R_co", self._reply(question, call.route.respond(call, reply)))

    def undo(self) -> None:
        """Undo everything that was claimed: nobody will learn of it."""
        for command, reply in self._undoable:
            self._request.services.waiting.undo(command, reply)

    def _call_for(self, asked: Any, wait: float = 0) -> Call:
        endpoint = BY_KIND[type(asked)]
        one = self._request
        route = one.services.routes[endpoint.operation]
        call = Call(
            route, {name: getattr(asked, name) for name in endpoint.params}, one.request, one.principal, one.services
        )
        if endpoint.body is not None:
            call.body = _sent(endpoint.body_for(asked, wait), endpoint.body)
            for name in OF_A_PROCESS:
                if hasattr(call.body, name):
                    setattr(call.body, name, None)
        if endpoint.query is not None:
            call.query = _sent(endpoint.query.of(asked), endpoint.query)
        admit(one.principal, route)
        return call

    def _reply(self, asked: Any, response: Response) -> Any:
        reply = reader_of(asked)(encode(response.content))
        if undo_of(reply) is not None:
            self._undoable.append((msgspec.structs.replace(asked, principal=self._request.principal.name), reply))
        return reply

    @contextmanager
    def _translating_errors(self) -> Iterator[None]:
        try:
            yield
        except ClientDisconnected:
            raise Unreachable("the client has gone", reason="closed") from None
        except Refusal as refusal:
            raise error_from_failure(refusal.failure) from None
        except OctoStoreError as error:
            note_error(self._request.services, self._request.principal.name, error)
            raise

    # Only for long-lived clients

    @property
    def blocking(self) -> Port:
        raise NotImplementedError

    def undo_claims(self, replies: Sequence[Any]) -> None:
        """Done by `undo`."""

    def follow(self, question: ListEvents) -> AsyncIterator[Event]:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing to close: the store is the server's."""


def _sent(shape: Shape | None, kind: type[Shape]) -> Any:
    """In the form in which it would arrive."""
    return msgspec.json.decode(msgspec.json.encode(shape), type=kind)
