"""Methods that change something. Apart from `methods`, for those who only read."""

from collections.abc import Callable
from typing import Any, Concatenate

from octostore.client.methods import Method, P, Steps
from octostore.core.commands import Command, R_co


def command_method(make: Callable[Concatenate[Any, P], Command[R_co]]) -> Method[P, Command[R_co], R_co]:
    return Method(make, lambda port, command: port.execute(command), lambda port, command: port.execute(command))


def execute(command: Command[R_co]) -> Steps[R_co]:
    reply: R_co = yield lambda port: port.execute(command)
    return reply
