"""Methods that are written once: they block in an `OctoStore`, and are awaited in an `AsyncOctoStore`."""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, overload

from octostore.core.errors import InvalidInput
from octostore.core.paging import rest_of
from octostore.core.questions import A_co, Question

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M")
W = TypeVar("W")


class Blocking:
    """Its methods return the answer."""


class Awaiting:
    """Its methods are awaited."""


class Building:
    """Its methods return what the others carry out."""


class Method(Generic[P, M, T]):
    """What `make` returns is carried out with the port of the store."""

    def __init__(
        self,
        make: Callable[Concatenate[Any, P], M],
        run: Callable[[Any, M], T],
        run_async: Callable[[Any, M], Awaitable[T]],
    ) -> None:
        @wraps(make)
        def blocking(store: Any, /, *args: P.args, **options: P.kwargs) -> T:
            return run(store._port, make(store, *args, **options))  # noqa: SLF001  # it is a method of it

        @wraps(make)
        async def awaiting(store: Any, /, *args: P.args, **options: P.kwargs) -> T:
            return await run_async(store._port, make(store, *args, **options))  # noqa: SLF001

        self._forms: Any = ((Blocking, blocking), (Awaiting, awaiting), (Building, make))

    @overload
    def __get__(self, store: Blocking, kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, store: Awaiting, kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, store: Building, kind: type) -> Callable[P, M]: ...
    @overload
    def __get__(self, store: None, kind: type) -> Callable[..., Any]: ...
    def __get__(self, store: Any, kind: type) -> Any:
        for form, function in self._forms:
            if issubclass(kind, form):
                return function.__get__(store, kind)
        raise TypeError(f"{kind.__name__} says neither that it blocks nor that it is awaited")


def as_tuple(field: str, words: Iterable[W]) -> tuple[W, ...]:
    if isinstance(words, str):
        # It would pass for a list of one-letter words, and the worker would wait for ever.
        raise InvalidInput(field, f"must be a list of {field}, such as [{words!r}]")
    return tuple(words)


def question_method(make: Callable[Concatenate[Any, P], Question[A_co]]) -> Method[P, Question[A_co], A_co]:
    return Method(make, lambda port, question: port.ask(question), lambda port, question: port.ask(question))


Steps: TypeAlias = Generator[Callable[[Any], Any], Any, T]
"""For what takes several: yields what to do with the port, is sent the answer, and returns the result."""


def steps_method(make: Callable[Concatenate[Any, P], Steps[T]]) -> Method[P, Steps[T], T]:
    return Method(make, _run_steps, _run_steps_async)


def ask(question: Question[A_co]) -> Steps[A_co]:
    answer: A_co = yield lambda port: port.ask(question)
    return answer


def ask_all(question: Question[A_co]) -> Steps[list[A_co]]:
    """All pages."""
    found: list[A_co] = []
    rest: Question[A_co] | None = question
    while rest is not None:
        found.append((yield from ask(rest)))
        rest = rest_of(rest, found[-1])
    return found


def _run_steps(port: Any, steps: Steps[T]) -> T:
    answer: Any = None
    try:
        while True:
            answer = steps.send(answer)(port)
    except StopIteration as end:
        result: T = end.value
        return result


async def _run_steps_async(port: Any, steps: Steps[T]) -> T:
    answer: Any = None
    try:
        while True:
            answer = await steps.send(answer)(port)
    except StopIteration as end:
        result: T = end.value
        return result
