"""Methods that send a command. Separate from `methods`, because processes that only read do not need commands."""

from collections.abc import Callable
from typing import Any, Concatenate

from octostore.client.methods import Awaited, P, Steps, port_method, reply_type, returning
from octostore.core.commands import Command, R_co


def command_method(build: Callable[Concatenate[Any, P], Command[R_co]]) -> Awaited[P, Command[R_co], R_co]:
    build = returning(reply_type(build.__annotations__["return"]), build)
    return port_method(build, lambda port, command: port.execute(command), lambda port, command: port.execute(command))


def execute(command: Command[R_co]) -> Steps[R_co]:
    reply: R_co = yield lambda port: port.execute(command)
    return reply
