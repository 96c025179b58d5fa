"""Methods of the library, each made of the call that says what it takes and asks (`Calls`)."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from octostore.client.batching import carry_out, carry_out_async
from octostore.client.claiming import ClaimCall, HoldCall, claim, claim_async
from octostore.client.hold import HeldClaim, ask_for
from octostore.core.commands import Batch, Command
from octostore.core.replies import Reply

P = ParamSpec("P")
R = TypeVar("R", bound=Reply)
T = TypeVar("T")
_Awaited: TypeAlias = Coroutine[Any, Any, T]


def executed(make: Callable[Concatenate[Any, P], Command[R]]) -> Callable[Concatenate[Any, P], R]:
    @wraps(make)
    def method(self: Any, /, *args: P.args, **options: P.kwargs) -> R:
        reply: R = self._port.execute(make(self, *args, **options))
        return reply

    return method


def executed_async(make: Callable[Concatenate[Any, P], Command[R]]) -> Callable[Concatenate[Any, P], _Awaited[R]]:
    @wraps(make)
    async def method(self: Any, /, *args: P.args, **options: P.kwargs) -> R:
        reply: R = await self._port.execute(make(self, *args, **options))
        return reply

    return method


def claimed(make: Callable[Concatenate[Any, P], ClaimCall[R]]) -> Callable[Concatenate[Any, P], R]:
    @wraps(make)
    def method(self: Any, /, *args: P.args, **options: P.kwargs) -> R:
        return claim(self._port, *make(self, *args, **options))

    return method


def claimed_async(make: Callable[Concatenate[Any, P], ClaimCall[R]]) -> Callable[Concatenate[Any, P], _Awaited[R]]:
    @wraps(make)
    async def method(self: Any, /, *args: P.args, **options: P.kwargs) -> R:
        return await claim_async(self._port, *make(self, *args, **options))

    return method


def held(
    make: Callable[Concatenate[Any, P], HoldCall],
) -> Callable[Concatenate[Any, P], AbstractContextManager[HeldClaim]]:
    @wraps(make)
    @contextmanager
    def method(self: Any, /, *args: P.args, **options: P.kwargs) -> Iterator[HeldClaim]:
        call, outcome, on_lost = make(self, *args, **options)
        claim = HeldClaim(self._port, ask_for(self._port, *call), on_lost=on_lost)
        claim.end_as(outcome)
        with claim:
            yield claim

    return method


def together(make: Callable[Concatenate[Any, P], Batch]) -> Callable[Concatenate[Any, P], list[Any]]:
    @wraps(make)
    def method(self: Any, /, *args: P.args, **options: P.kwargs) -> list[Any]:
        return carry_out(self._port, make(self, *args, **options))

    return method


def together_async(make: Callable[Concatenate[Any, P], Batch]) -> Callable[Concatenate[Any, P], _Awaited[list[Any]]]:
    @wraps(make)
    async def method(self: Any, /, *args: P.args, **options: P.kwargs) -> list[Any]:
        return await carry_out_async(self._port, make(self, *args, **options))

    return method
