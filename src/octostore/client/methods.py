"""Methods that are written once: they block in an `OctoStore` and are awaited in an `AsyncOctoStore`.

Each keeps its signature and docstring in both, so `help()` and editors show the same text.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from functools import wraps
from typing import Any, Concatenate, ForwardRef, Generic, ParamSpec, TypeAlias, TypeVar, get_args, overload

from octostore.core.errors import InvalidInput
from octostore.core.paging import rest_of
from octostore.core.questions import A_co, Question

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M")
W = TypeVar("W")
S = TypeVar("S")
A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])


class Blocking:
    """Its methods return the reply."""


class Awaiting:
    """Its methods are awaited."""


class Building:
    """Its methods return the command or question, and do not send it."""


class Method(Generic[P, M, S, A]):
    """A method with one form for each kind of class: returns `S`, or `A`, or `M`."""

    def __init__(
        self,
        blocking: Callable[Concatenate[Any, P], S],
        awaiting: Callable[Concatenate[Any, P], A],
        build: Callable[Concatenate[Any, P], M],
    ) -> None:
        self._forms: Any = ((Blocking, blocking), (Awaiting, awaiting), (Building, build))

    @overload
    def __get__(self, instance: Blocking, kind: type) -> Callable[P, S]: ...
    @overload
    def __get__(self, instance: Awaiting, kind: type) -> Callable[P, A]: ...
    @overload
    def __get__(self, instance: Building, kind: type) -> Callable[P, M]: ...
    @overload
    def __get__(self, instance: None, kind: type) -> Callable[..., Any]: ...
    def __get__(self, instance: Any, kind: type) -> Any:
        for form, function in self._forms:
            if issubclass(kind, form):
                return function.__get__(instance, kind)
        raise TypeError(f"{kind.__name__} is neither Blocking nor Awaiting")


Awaited: TypeAlias = Method[P, M, T, Coroutine[Any, Any, T]]


def port_method(
    build: Callable[Concatenate[Any, P], M], run: Callable[[Any, M], S], run_async: Callable[[Any, M], Awaitable[T]]
) -> Method[P, M, S, Coroutine[Any, Any, T]]:
    """Run what `build` returns with the store's port."""

    @wraps(build)
    def blocking(store: Any, /, *args: P.args, **options: P.kwargs) -> S:
        return run(store._port, build(store, *args, **options))  # noqa: SLF001  # it becomes a method of the store

    @wraps(build)
    async def awaiting(store: Any, /, *args: P.args, **options: P.kwargs) -> T:
        return await run_async(store._port, build(store, *args, **options))  # noqa: SLF001

    return Method(blocking, awaiting, build)


def iterator_method(
    build: Callable[Concatenate[Any, P], M], iterate: Callable[[Any, M], S], iterate_async: Callable[[Any, M], A]
) -> Method[P, M, S, A]:
    """Like `port_method`, for what is used with `for` or `async for` and not awaited."""

    @wraps(build)
    def blocking(store: Any, /, *args: P.args, **options: P.kwargs) -> S:
        return iterate(store._port, build(store, *args, **options))  # noqa: SLF001

    @wraps(build)
    def awaiting(store: Any, /, *args: P.args, **options: P.kwargs) -> A:
        return iterate_async(store._port, build(store, *args, **options))  # noqa: SLF001

    return Method(blocking, awaiting, build)


def thread_method(function: Callable[Concatenate[Any, P], T]) -> Awaited[P, T, T]:
    """Run `function`, which blocks; an `Awaiting` class runs it in a thread."""

    @wraps(function)
    async def awaiting(instance: Any, /, *args: P.args, **options: P.kwargs) -> T:
        from octostore.client.threads import in_thread  # noqa: PLC0415  # asyncio takes long to import

        return await in_thread(function, instance, *args, **options)

    return Method(function, awaiting, function)


def port_thread_method(build: Callable[Concatenate[Any, P], M], run: Callable[[Any, M], T]) -> Awaited[P, M, T]:
    """Like `port_method`, for a `run` that only blocks; an `Awaiting` store runs it in a thread."""

    async def run_async(port: Any, built: M) -> T:
        from octostore.client.threads import in_thread  # noqa: PLC0415  # asyncio takes long to import

        return await in_thread(run, port.blocking, built)

    return port_method(build, run, run_async)


def returning(kind: Any, build: F) -> F:
    """Show `kind` as what the method returns, in `help()` and in the reference."""
    build.__annotations__["return"] = kind
    return build


def reply_type(message: Any) -> Any:
    """The `R` of a class derived from `Command[R]` or `Question[R]`."""
    for base in getattr(message, "__orig_bases__", ()):
        for argument in get_args(base):
            if isinstance(argument, type | ForwardRef):
                return argument
    return reply_type(message.__bases__[0])


def as_tuple(field: str, words: Iterable[W]) -> tuple[W, ...]:
    if isinstance(words, str):
        # It would pass for a list of one-letter words, and the worker would wait forever.
        raise InvalidInput(field, f"must be a list of {field}, for example [{words!r}]")
    return tuple(words)


def question_method(build: Callable[Concatenate[Any, P], Question[A_co]]) -> Awaited[P, Question[A_co], A_co]:
    build = returning(reply_type(build.__annotations__["return"]), build)
    return port_method(build, lambda port, question: port.ask(question), lambda port, question: port.ask(question))


Steps: TypeAlias = Generator[Callable[[Any], Any], Any, T]
"""For calls that take several steps: yields what to do with the port, is sent the reply, and returns the result."""


def steps_method(build: Callable[Concatenate[Any, P], Steps[T]]) -> Awaited[P, Steps[T], T]:
    build = returning(get_args(build.__annotations__["return"])[2], build)
    return port_method(build, _run_steps, _run_steps_async)


def ask(question: Question[A_co]) -> Steps[A_co]:
    reply: A_co = yield lambda port: port.ask(question)
    return reply


def ask_all(question: Question[A_co]) -> Steps[list[A_co]]:
    """All pages."""
    found: list[A_co] = []
    rest: Question[A_co] | None = question
    while rest is not None:
        found.append((yield from ask(rest)))
        rest = rest_of(rest, found[-1])
    return found


def _run_steps(port: Any, steps: Steps[T]) -> T:
    reply: Any = None
    try:
        while True:
            reply = steps.send(reply)(port)
    except StopIteration as end:
        result: T = end.value
        return result


async def _run_steps_async(port: Any, steps: Steps[T]) -> T:
    reply: Any = None
    try:
        while True:
            reply = await steps.send(reply)(port)
    except StopIteration as end:
        result: T = end.value
        return result
