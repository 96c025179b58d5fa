"""Batches: several commands in one call."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from octostore.core.commands import AnyCommand, Batch
from octostore.core.errors import InvalidInput, OctoStoreError
from octostore.server.calls import Call, admit, handle_error, respond
from octostore.server.examples import NOW
from octostore.server.http import ClientDisconnected, Response
from octostore.server.refusals import Refusal, too_fast, wrong_shape
from octostore.server.router import Route
from octostore.wire import bodies
from octostore.wire.batches import BatchResponse, CommandResponse, check_batch_size, decode_command, find_endpoint
from octostore.wire.shapes import shape_problem

TAG = "batches"


class _Prepared(NamedTuple):
    call: Call
    command: AnyCommand | Exception
    """The command, or the error that prevents it."""


async def batch(call: Call) -> Response:
    body: bodies.BatchBody = call.body
    check_batch_size(body.commands)
    # The request itself has already been counted as one.
    pause_ms = call.services.rates.take(call.principal.name, len(body.commands), taken=1)
    if pause_ms:
        raise too_fast(pause_ms)
    prepared = [_prepare(call, document) for document in body.commands]
    commands = [one.command for one in prepared if not isinstance(one.command, Exception)]
    replies = await _execute(call, commands, body.atomic)
    rest = iter(replies)
    try:
        return Response(BatchResponse(answers=[_respond(one, rest) for one in prepared]))
    except ClientDisconnected:
        for command, reply in zip(commands, replies, strict=True):
            call.services.waiting.undo(command, reply)
        raise


def _prepare(call: Call, document: dict[str, Any]) -> _Prepared:
    """An error in one command does not stop the others."""
    one = call
    try:
        endpoint = find_endpoint(document)
        route = call.services.routes[endpoint.operation]
        one = Call(route, {}, call.request, call.principal, call.services)
        one.params, one.body = decode_command(document, endpoint)
        admit(call.principal, route)
        return _Prepared(one, route.prepare(one))
    except msgspec.ValidationError as error:
        return _Prepared(one, wrong_shape(shape_problem(error, endpoint.body)))
    except UnicodeEncodeError:
        return _Prepared(one, InvalidInput("command", "is not valid Unicode text (it has a lone surrogate)"))
    except (OctoStoreError, Refusal) as refusal:
        return _Prepared(one, refusal)


async def _execute(call: Call, commands: Sequence[AnyCommand], atomic: bool) -> list[Any]:
    steps = Batch(commands, atomic).steps
    outcomes = await asyncio.gather(*map(call.services.store.submit, steps), return_exceptions=not atomic)
    return [
        reply
        for some, outcome in zip(steps, outcomes, strict=True)
        for reply in ([outcome] * len(some) if isinstance(outcome, BaseException) else outcome)
    ]


def _respond(one: _Prepared, replies: Iterator[Any]) -> CommandResponse:
    call, command = one
    if isinstance(command, Exception):
        return _respond_with_error(call, command)
    try:
        response = respond(call, command, next(replies))
    except ClientDisconnected:
        raise
    except Exception as error:  # noqa: BLE001  # goes into this command's response, and into the log if it is a bug
        return _respond_with_error(call, error)
    return CommandResponse(status=response.status, body=response.content)


def _respond_with_error(call: Call, error: Exception) -> CommandResponse:
    refusal = handle_error(call.services, call.request, call.route, error)
    return CommandResponse(status=refusal.status, body=refusal.failure)


ENQUEUED = {
    "job_id": "build-3f1c2aa",
    "created": True,
    "status": "queued",
    "queue": "default",
    "kind": "build",
    "priority": 5,
    "max_attempts": 5,
    "available_at": NOW,
}
ROUTES = [
    Route.for_operation(
        "batch",
        handler=batch,
        summary="Run several commands in one call",
        description=(
            "Up to 1,000 commands, in order. `answers` has the `status` and `body` that each single call would return. "
            "A refused command changes nothing, and does not stop the others. All commands run in one transaction "
            "unless `atomic` is false."
        ),
        responses={200: BatchResponse},
        example={
            "body": {
                "commands": [
                    {"command": "enqueue", "kind": "build", "job_id": "build-3f1c2aa"},
                    {"command": "claim_next", "queue": "default", "owner": "agent-3"},
                ]
            },
            "response": {"answers": [{"status": 201, "body": ENQUEUED}]},
        },
    ),
]
