"""The async library with the interface of the sync one, so that one suite can test both."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from octostore import AsyncHeldClaim, AsyncOctoStore, AsyncSession

T = TypeVar("T")


class Loop:
    """An event loop in its own thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.start(coroutine).result(timeout=60)

    def start(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start it; the caller waits or cancels."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def soon(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(callback)

    def stop(self) -> None:
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Adapted:
    """Calls a coroutine method and waits for its result; everything else passes through."""

    def __init__(self, loop: Loop, inner: Any) -> None:
        self._loop = loop
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not asyncio.iscoroutinefunction(value):
            return value
        return lambda *args, **options: self._adapt(self._loop.run(value(*args, **options)))

    def _adapt(self, value: Any) -> Any:
        return _SessionAsSync(self._loop, value) if isinstance(value, AsyncSession) else value


class _SessionAsSync(_Adapted):
    def __enter__(self) -> Any:
        self._loop.run(self._inner.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.run(self._inner.__aexit__(*error))


class StoreAsSync(_Adapted):
    def __init__(self, loop: Loop, store: AsyncOctoStore) -> None:
        super().__init__(loop, store)

    def hold(self, *args: Any, **options: Any) -> Any:
        return self._block(self._inner.hold(*args, **options))

    def keep(self, *args: Any, **options: Any) -> Any:
        return self._block(self._inner.keep(*args, **options))

    @contextmanager
    def _block(self, entered: Any) -> Iterator[Any]:
        claim: AsyncHeldClaim = self._loop.run(entered.__aenter__())
        try:
            yield _Adapted(self._loop, claim)
        except BaseException as error:
            if not self._loop.run(entered.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self._loop.run(entered.__aexit__(None, None, None))

    def events(self, *args: Any, **options: Any) -> Iterator[Any]:
        events: AsyncIterator[Any] = self._inner.events(*args, **options)
        try:
            while True:
                try:
                    yield self._loop.run(_next(events))
                except StopAsyncIteration:
                    return
        finally:
            self._loop.run(events.aclose())  # type: ignore[attr-defined]  # they are generators

    def work(self, queue: str, handler: Any, **options: Any) -> Any:
        return self._loop.run(self._inner.work(queue, self._awaited(handler), **options))

    def work_session(self, session_id: str, handler: Any, **options: Any) -> Any:
        return self._loop.run(self._inner.work_session(session_id, self._awaited(handler), **options))

    def _awaited(self, handler: Any) -> Any:
        if isinstance(handler, dict):
            return {kind: self._awaited(one) for kind, one in handler.items()}
        if not callable(handler):
            return handler

        async def awaited(claim: AsyncHeldClaim) -> Any:
            return await asyncio.to_thread(handler, _Adapted(self._loop, claim))

        return awaited


async def _next(events: AsyncIterator[Any]) -> Any:
    return await anext(events)
