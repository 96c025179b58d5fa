"""The `with` blocks of `hold()` and of sessions, and their heartbeater, with a store whose faults the test sets."""

import asyncio
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

import octostore
from octostore.client.authority import Authority
from octostore.client.embedded import EmbeddedPort
from octostore.client.heartbeater import RETRY_SECONDS, Heartbeater
from octostore.client.hold import Granted, HeldClaim, heartbeat_for, refresh_command
from octostore.client.lateness import SAFETY, Lateness
from octostore.core.commands import AnyCommand, ClaimJob, ClaimTask, Command, Enqueue, HeartbeatJob, ReleaseJob
from octostore.core.errors import LeaseLost, Unreachable
from octostore.core.moments import to_datetime
from octostore.core.replies import ClaimReply, HeartbeatReply
from octostore.stores.clock import boottime
from octostore.stores.memory import MemoryBackend, MemoryRows
from octostore.stores.owners import owners
from octostore.stores.store import LocalStore
from tests.support.processes import PATIENCE_SECONDS, until

LONG = 86_400


class Port(EmbeddedPort):
    """A store in memory that first raises the test's faults, before it does anything."""

    def __init__(self) -> None:
        super().__init__(LocalStore(MemoryBackend))
        self.faults: list[Unreachable] = []
        self.asked: list[Command[Any]] = []

    def execute(self, command: Command[Any], wait: float = 0) -> Any:
        self.asked.append(command)
        if self.faults:
            raise self.faults.pop(0)
        return super().execute(command, wait)

    def execute_all(self, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:
        if self.faults and commands:
            return [self.faults.pop(0)] * len(commands)
        return super().execute_all(commands, atomic=atomic)


@pytest.fixture
def port() -> Iterator[Port]:
    port = Port()
    yield port
    port.faults.clear()
    port.close()


def hold_job(port: Port, job_id: str = "job", ttl: float = LONG) -> HeldClaim:
    asked_at = boottime()
    reply = EmbeddedPort.execute(port, ClaimJob(job_id=job_id, owner="ann", ttl=ttl))
    return HeldClaim(port, Granted(reply, asked_at, reply.remaining_ms or 0))


def unreachable(reason: str = "io") -> Unreachable:
    return Unreachable("it is unreachable", reason=reason)


def events_of(port: Port) -> list[str]:
    return [event.type for event in octostore.OctoStore(port).events()]


def always_refresh(granted: Granted) -> Command[Any]:
    """As if the claim had been waited for."""
    return heartbeat_for(granted.reply, granted.reply.lease_id or "")


# A claim


def test_after_its_block_a_claim_is_no_longer_ours(port: Port) -> None:
    with hold_job(port) as claim:
        assert claim.remaining() > 0
    assert claim.remaining() == 0
    with pytest.raises(LeaseLost, match="its block has ended"):
        claim.check()
    with pytest.raises(LeaseLost):
        claim.checkpoint({"step": 1})
    assert events_of(port) == ["claimed", "released"]


@pytest.mark.parametrize("fault", [None, "io"])
def test_a_claim_is_not_ours_while_its_release_awaits_the_reply(
    port: Port, monkeypatch: pytest.MonkeyPatch, fault: str | None
) -> None:
    """The next owner may have the job long before."""
    remaining: list[float] = []

    def lose_the_reply(commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:
        replies = EmbeddedPort.execute_all(port, commands, atomic=atomic)
        assert EmbeddedPort.execute(port, ClaimJob(job_id="job", owner="bob", ttl=LONG)).status == "claimed"
        remaining.append(claim.remaining())
        return replies if fault is None else [unreachable(fault)]

    monkeypatch.setattr(port, "execute_all", lose_the_reply)
    with hold_job(port) as claim:
        port.faults = [unreachable()]
    assert remaining == [0]
    assert port.faults == [] or fault is None, "the release is retried all the same"


def test_a_claim_whose_block_has_ended_is_garbage_collected(port: Port) -> None:
    """Even though its next heartbeat would have been due much later."""
    with hold_job(port) as claim:
        kept = weakref.ref(claim)
    del claim
    assert kept() is None


def test_progress_renews_the_lease(port: Port) -> None:
    with hold_job(port) as claim:
        before = claim._authority.ends_at
        time.sleep(0.01)
        claim.progress("on it")
        assert claim._authority.ends_at > before


@pytest.mark.parametrize("write", ["progress", "checkpoint"])
def test_an_owner_that_lost_its_lease_writes_nothing(port: Port, write: str) -> None:
    with hold_job(port) as claim:
        claim.lost.set()
        assert claim.remaining() == 0
        with pytest.raises(LeaseLost):
            getattr(claim, write)("late")
        assert port.asked == []


@pytest.mark.parametrize("write", ["progress", "checkpoint"])
def test_an_owner_whose_write_was_refused_has_lost_its_lease(port: Port, write: str) -> None:
    """Its next heartbeat would say so, too, but only later."""
    called: list[object] = []
    with hold_job(port) as claim:
        claim.let_expire()
        claim.watch(lambda _: None, lambda: called.append("lost"))
        owners.remove("job", claim._heartbeater.beat_now)  # it gets no hint if another process takes the job away
        octostore.OctoStore(port).force_release("job")
        with pytest.raises(LeaseLost, match="force-released"):
            getattr(claim, write)("late")
        assert (claim.lost.is_set(), claim.remaining()) == (True, 0)
        with pytest.raises(LeaseLost, match="force-released"):
            claim.check()
        until(lambda: bool(called))
    assert called == ["lost"]


def test_a_fault_at_the_release_is_retried(port: Port) -> None:
    with hold_job(port):
        port.faults = [unreachable(), unreachable()]
    assert events_of(port) == ["claimed", "released"]


@pytest.mark.parametrize("reason", ["read_only", "closed", "corrupt"])
def test_a_lasting_fault_is_raised_at_once(port: Port, reason: str) -> None:
    with hold_job(port) as claim:
        port.faults = [unreachable(reason)] * 5
        with pytest.raises(Unreachable):
            claim.checkpoint({"step": 1})
        assert len(port.asked) == 1
        port.faults.clear()


def test_a_passing_fault_is_retried(port: Port) -> None:
    with hold_job(port) as claim:
        port.faults = [unreachable("network"), unreachable("busy")]
        claim.checkpoint({"step": 1})
        assert len(port.asked) == 3


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ValueError("no"), "failed"), (KeyboardInterrupt(), "released"), (SystemExit(3), "released")],
    ids=["error", "ctrl-c", "exit"],
)
def test_what_a_block_raises_decides_how_its_claim_ends(port: Port, error: BaseException, outcome: str) -> None:
    with pytest.raises(type(error)), hold_job(port):
        raise error
    assert octostore.OctoStore(port).get_job("job").last_outcome == outcome


def test_an_exception_in_a_block_takes_precedence_over_a_failing_release(port: Port) -> None:
    def fail() -> None:
        with hold_job(port):
            port.faults = [unreachable("closed")] * 3
            raise ValueError("the work failed")

    with pytest.raises(ValueError, match="the work failed"):
        fail()


def test_a_failing_release_is_raised_if_nothing_else_went_wrong(port: Port) -> None:
    def end() -> None:
        with hold_job(port):
            port.faults = [unreachable("closed")] * 3

    with pytest.raises(Unreachable):
        end()


def test_a_claim_can_be_left_to_expire(port: Port) -> None:
    with hold_job(port) as claim:
        claim.let_expire()
    assert events_of(port) == ["claimed"]


@pytest.mark.parametrize(("waited_share", "is_refreshed"), [(0.0, False), (0.2, False), (0.3, True), (2.0, True)])
def test_a_claim_that_was_waited_for_is_renewed_first(port: Port, waited_share: float, is_refreshed: bool) -> None:
    """Its lease is counted from before the wait, and would seem to have expired."""
    reply: ClaimReply = port.execute(ClaimJob(job_id="job", owner="ann", ttl=100))
    refresh = refresh_command(Granted(reply, boottime() - waited_share * 100, 100_000))
    assert isinstance(refresh, HeartbeatJob) == is_refreshed


def test_an_interrupted_hold_does_not_keep_the_claim_that_it_waited_for(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = port.execute

    def interrupt(command: Command[Any], wait: float = 0) -> Any:
        if isinstance(command, HeartbeatJob):
            raise KeyboardInterrupt
        return execute(command, wait)

    monkeypatch.setattr("octostore.client.hold.refresh_command", always_refresh)
    monkeypatch.setattr(port, "execute", interrupt)
    with pytest.raises(KeyboardInterrupt), octostore.OctoStore(port).hold("job"):
        pytest.fail("it began")
    until(lambda: events_of(port) == ["claimed", "released"])


def test_a_cancelled_hold_does_not_keep_the_claim_that_it_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with await octostore.connect_async("memory:") as store:
            execute, is_refreshing = store._port.execute, asyncio.Event()

            async def get_stuck(command: Command[Any], wait: float = 0) -> Any:
                if isinstance(command, HeartbeatJob):
                    is_refreshing.set()
                    await asyncio.Event().wait()
                return await execute(command, wait)

            monkeypatch.setattr("octostore.client.async_hold.refresh_command", always_refresh)
            monkeypatch.setattr(store._port, "execute", get_stuck)
            holding = asyncio.ensure_future(store.hold("job").__aenter__())
            await is_refreshing.wait()
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)
            assert holding.cancelled()
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (await store.get_job("job")).status != "free":
                    pass

    asyncio.run(run())


def test_a_task_that_was_handed_over_is_not_touched_by_the_end_of_its_block(port: Port) -> None:
    port.execute(Enqueue(job_id="task", kind="build", queue="ci"))
    asked_at = boottime()
    reply: ClaimReply = port.execute(ClaimTask(session_id="s", owner="ann", queues=("ci",), ttl=LONG))
    with HeldClaim(port, Granted(reply, asked_at, reply.remaining_ms or 0)) as claim:
        claim.hand_over("bob")
        assert claim.remaining() == 0
        assert claim._heartbeater._beat is None, "and it gets no more heartbeats"
        with pytest.raises(LeaseLost, match="handed over to 'bob'"):
            claim.check()
        before = len(events_of(port))
    assert len(events_of(port)) == before
    assert octostore.OctoStore(port).get_job("task").owner == "bob"


def test_a_claim_is_not_released_by_a_forked_child(port: Port) -> None:
    claim = hold_job(port)
    with claim:
        claim._pid += 1  # as if the child left the block
    assert events_of(port) == ["claimed"]
    port.execute(ReleaseJob(job_id="job", lease_id=claim.lease_id))


# A block


def test_a_block_that_is_never_entered_is_warned_about(port: Port) -> None:
    store = octostore.OctoStore(port)
    with pytest.warns(RuntimeWarning, match=r"hold\('job'\) was never entered, so nothing was claimed"):
        store.hold("job")
    with pytest.warns(RuntimeWarning, match=r"keep\(\) was never entered, so nothing keeps the claim alive"):
        store.keep(store.claim_job("other"))
    assert events_of(port) == ["claimed"]


def test_a_block_of_asyncio_that_is_never_entered_is_warned_about() -> None:
    async def run() -> None:
        async with await octostore.connect_async("memory:") as store:
            store.hold("job")

    with pytest.warns(RuntimeWarning, match=r"hold\('job'\) was never entered, .*`async with`"):
        asyncio.run(run())


def test_bad_arguments_of_hold_are_refused_before_its_block(port: Port) -> None:
    with pytest.raises(octostore.InvalidInput, match="ttl"):
        octostore.OctoStore(port).hold("job", ttl=0)


def test_a_block_is_entered_once(port: Port) -> None:
    block = octostore.OctoStore(port).hold("job")
    with block:
        pass
    with (
        pytest.raises(octostore.InvalidInput, match=r"hold\('job'\) has already been entered; for another, call "),
        block,
    ):
        pass
    assert events_of(port) == ["claimed", "released"]


def test_a_hold_decorates_a_function_that_is_called_many_times(port: Port) -> None:
    @octostore.OctoStore(port).hold("job")
    def report() -> str:
        return octostore.OctoStore(port).get_job("job").status

    assert (report(), report()) == ("claimed", "claimed")
    assert events_of(port) == ["claimed", "released"] * 2


async def _coroutine() -> None:
    """Runs only if awaited."""


async def _async_generator() -> AsyncIterator[int]:
    yield 1


def _generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize("function", [_coroutine, _async_generator, _generator])
def test_a_hold_does_not_decorate_a_function_that_would_run_after_its_block(
    port: Port, function: Callable[[], Any]
) -> None:
    with pytest.raises(octostore.InvalidInput, match=r"hold\('job'\) would end before _\w+ runs"):
        octostore.OctoStore(port).hold("job")(function)
    assert events_of(port) == []


class Breaking:
    """Spans that cannot start `process`, or that Ctrl-C interrupts."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def start_work(self, _reply: ClaimReply) -> None:
        raise self._error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a broken span processor")])
def test_a_block_that_cannot_begin_does_not_keep_its_claim(port: Port, error: BaseException) -> None:
    claim = hold_job(port)
    port.spans = Breaking(error)  # type: ignore[assignment]
    with pytest.raises(type(error)), claim:
        pytest.fail("it began")
    assert events_of(port) == ["claimed", "released"]
    assert claim.remaining() == 0


def test_a_block_of_asyncio_that_cannot_begin_does_not_keep_its_claim() -> None:
    async def run() -> str:
        async with await octostore.connect_async("memory:") as store:
            store._port.blocking.spans = Breaking(RuntimeError("a broken span processor"))  # type: ignore[assignment]
            with pytest.raises(RuntimeError, match="broken"):
                async with store.hold("job"):
                    pytest.fail("it began")
            return (await store.get_job("job")).status

    assert asyncio.run(run()) == "free"


# A call


class Interrupted(LocalStore):
    """A signal arrives while the caller waits for the first reply; the store already has the command."""

    is_first = True
    error: type[BaseException] = KeyboardInterrupt
    reply_delay_seconds: float | None = None
    """None: at once."""

    def submit(self, commands: Sequence[AnyCommand]) -> "Future[list[Any]]":
        replies = super().submit(commands)
        if self.is_first:
            self.is_first = False
            waited_for: Future[Any] = _Interrupting(self.error)
            later = threading.Timer(self.reply_delay_seconds or 0, lambda: waited_for.set_result(replies.result()))
            later.start() if self.reply_delay_seconds else replies.add_done_callback(lambda _: later.function())
            return waited_for
        return replies


class _Interrupting(Future[Any]):
    is_interrupted = False

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self._error = error

    def result(self, timeout: float | None = None) -> Any:
        if not self.is_interrupted:
            self.is_interrupted = True
            raise self._error
        return super().result(timeout)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, TimeoutError])
def test_a_claim_of_an_interrupted_call_is_undone(error: type[BaseException]) -> None:
    """Signal handlers raise what they like."""
    interrupted = Interrupted(MemoryBackend)
    interrupted.error = error
    port = EmbeddedPort(interrupted)
    with pytest.raises(error):
        port.execute(ClaimJob(job_id="job", owner="ann", ttl=LONG))
    store = octostore.OctoStore(port)
    until(lambda: [event.type for event in store.events()][:1] == ["claimed"])
    until(lambda: store.get_job_owner("job") is None)
    port.close()


def test_a_claim_of_an_interrupted_call_is_undone_even_if_the_store_is_closed_at_once() -> None:
    """A command that is stopped with Ctrl-C closes its store at once."""
    rows = MemoryRows()
    store = Interrupted(lambda: MemoryBackend(rows))
    store.reply_delay_seconds = 0.2
    port = EmbeddedPort(store)
    with pytest.raises(KeyboardInterrupt):
        port.execute(ClaimJob(job_id="job", owner="ann", ttl=LONG))
    port.close()
    again = octostore.OctoStore(EmbeddedPort(LocalStore(lambda: MemoryBackend(rows))))
    assert [event.type for event in again.events()] == ["claimed", "undone"]
    again.close()


# A session


def test_a_closed_or_handed_over_session_is_no_longer_ours(port: Port) -> None:
    store = octostore.OctoStore(port)
    for end in ("close", "hand_over"):
        with store.open_session("ann", session_id=end, ttl=LONG) as session:
            assert session.remaining() > 0
            session.close() if end == "close" else session.hand_over("bob")
            assert session.remaining() == 0
            assert session._heartbeater._beat is None, "and it gets no more heartbeats"
            if end == "close":
                session._is_handed_over = True  # so that leaving the block does not close it again
    assert store.get_session("hand_over").status == "open"


def interrupt_after(call: Callable[[], None]) -> Callable[[], None]:
    def interrupted() -> None:
        call()
        raise KeyboardInterrupt

    return interrupted


def test_a_session_whose_block_cannot_begin_is_closed(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    store = octostore.OctoStore(port)
    session = store.open_session("ann", session_id="s", ttl=LONG)
    monkeypatch.setattr(session._heartbeater, "start", interrupt_after(session._heartbeater.start))
    with pytest.raises(KeyboardInterrupt), session:
        pytest.fail("it began")
    assert store.get_session("s").status == "closed"
    assert session._heartbeater._beat is None, "and it gets no more heartbeats"


def test_a_session_of_asyncio_whose_block_cannot_begin_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> str:
        async with await octostore.connect_async("memory:") as store:
            session = await store.open_session("ann", session_id="s")
            monkeypatch.setattr(session._heartbeater, "start", interrupt_after(session._heartbeater.start))
            with pytest.raises(KeyboardInterrupt):
                await session.__aenter__()
            return (await store.get_session("s")).status

    assert asyncio.run(run()) == "closed"


def test_keepalive_renews_a_session(port: Port) -> None:
    session = octostore.OctoStore(port).open_session("ann", ttl=LONG)
    before = session._authority.ends_at
    time.sleep(0.01)
    session.keepalive()
    assert session._authority.ends_at > before


@pytest.mark.parametrize("write", ["keepalive", "save", "hand_over"])
def test_a_session_whose_write_was_refused_is_lost(port: Port, write: str) -> None:
    store = octostore.OctoStore(port)
    session = store.open_session("ann", session_id="s", ttl=LONG)
    store.close_session("s")
    with pytest.raises(LeaseLost):
        getattr(session, write)(*[] if write == "keepalive" else ["bob"])
    assert (session.lost.is_set(), session.remaining()) == (True, 0)


def test_a_session_remembers_what_it_saved(port: Port) -> None:
    session = octostore.OctoStore(port).open_session("ann", session_id="s")
    session.save({"turn": 4}, phase="planning")
    assert (session.context, session.phase) == ({"turn": 4}, "planning")


def test_what_happened_since_a_session_was_saved(port: Port) -> None:
    store = octostore.OctoStore(port)
    first = store.open_session("ann", session_id="s")
    assert [event.type for event in first.since()] == ["session_opened"], "all events if nothing was saved"
    store.claim_job("before", session_id="s")
    first.save({"turn": 1})
    store.claim_job("after", session_id="s")
    store.claim_job("elsewhere")
    first.close()
    resumed = store.open_session("ann", session_id="s")
    seen = [(event.type, event.job_id) for event in resumed.since()]
    assert ("claimed", "after") in seen
    assert ("claimed", "before") not in seen
    assert ("claimed", "elsewhere") not in seen


# A heartbeater, with the clock and every reply set by the test


class Bench:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, ttl: float = 30) -> None:
        self.now = 100.0
        self.due: list[float] = []
        self.heartbeats: list[Future[HeartbeatReply]] = []
        self.lost: list[object] = []
        self.on_lost_called = threading.Event()
        self.lateness = Lateness()
        pulse = SimpleNamespace(schedule=lambda _heartbeater, due_at: self.due.append(due_at))
        monkeypatch.setattr("octostore.client.heartbeater._heartbeat_thread", pulse)
        self.authority = Authority(lambda: self.now, self.lateness)
        self.authority.renew(self.now, round(ttl * 1_000))
        self.heartbeater = Heartbeater(self.heartbeat, self.authority, ttl, self.on_lost)
        self.heartbeater.start()

    def heartbeat(self) -> "Future[HeartbeatReply]":
        self.heartbeats.append(Future())
        return self.heartbeats[-1]

    def on_lost(self, why: object) -> None:
        self.lost.append(why)
        self.on_lost_called.set()

    def go_to_due(self) -> None:
        self.now = self.due[-1]
        self.heartbeater.step()

    def reply(self, remaining_ms: int = 30_000) -> None:
        self.heartbeats[-1].set_result(
            HeartbeatReply(job_id="job", expires_at=to_datetime(0), remaining_ms=remaining_ms, renew_after_ms=0)
        )


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_a_stopped_heartbeater_sends_no_more_heartbeats(bench: Bench) -> None:
    bench.heartbeater.stop()
    bench.go_to_due()
    bench.now = bench.authority.ends_at + 1
    bench.heartbeater.step()
    assert (bench.heartbeats, bench.lost) == ([], [])


def test_it_does_nothing_before_it_is_due(bench: Bench) -> None:
    bench.now = bench.due[-1] - 0.001
    bench.heartbeater.step()
    assert bench.heartbeats == []


def test_no_heartbeat_starts_while_another_one_awaits_its_reply(bench: Bench) -> None:
    """Not even if the lease was renewed in another way meanwhile, for example by reporting progress."""
    bench.go_to_due()
    assert bench.due[-1] == bench.authority.ends_at
    bench.authority.renew(bench.now, 60_000)
    bench.go_to_due()
    assert len(bench.heartbeats) == 1
    assert bench.due[-1] == bench.authority.ends_at
    before = bench.authority.ends_at
    bench.reply(600_000)
    bench.go_to_due()
    assert bench.authority.ends_at > before, "the reply still counts when it arrives"


def test_on_lost_is_called_once_and_no_later_than_the_authority_ends(bench: Bench) -> None:
    bench.go_to_due()
    assert bench.due[-1] == bench.authority.ends_at, "no reply is needed to notice it"
    bench.go_to_due()
    assert bench.on_lost_called.wait(30)
    bench.heartbeater.step()
    assert bench.lost == [None]


def test_on_a_busy_machine_it_gives_up_earlier(bench: Bench) -> None:
    bench.go_to_due()
    assert bench.heartbeater.give_up_sooner() == bench.authority.ends_at
    bench.lateness.note(bench.now - 1, bench.now)
    assert bench.heartbeater.give_up_sooner() == bench.authority.ends_at - SAFETY
    bench.now = bench.authority.ends_at - SAFETY
    bench.lateness.note(bench.now - 1, bench.now)
    bench.heartbeater.step()
    assert bench.on_lost_called.wait(30)


def test_a_heartbeat_is_never_due_after_the_authority_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, ttl=30)
    bench.go_to_due()
    bench.reply(1_000)  # someone has shortened the lease
    bench.authority._ends_at = bench.now + 0.5
    bench.go_to_due()
    assert bench.due[-1] <= bench.authority.ends_at


def test_after_a_fault_it_retries_soon(bench: Bench) -> None:
    bench.go_to_due()
    bench.heartbeats[-1].set_exception(unreachable())
    bench.go_to_due()
    assert 0 < bench.due[-1] - bench.now <= 1.5 * RETRY_SECONDS
    bench.go_to_due()
    assert len(bench.heartbeats) == 2


def test_a_heartbeat_that_cannot_even_start_is_a_fault_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)
    begun: list[float] = []

    def raise_first() -> "Future[HeartbeatReply]":
        begun.append(bench.now)
        if len(begun) == 1:
            raise RuntimeError("no thread")
        return bench.heartbeat()

    bench.heartbeater._beat = raise_first
    bench.go_to_due()
    bench.go_to_due()
    bench.go_to_due()
    assert (len(begun), len(bench.heartbeats), bench.lost) == (2, 1, [])


def test_one_broken_heartbeater_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    sent = threading.Event()
    wrong = threading.Event()

    class Wrong(Heartbeater):
        def step(self) -> None:
            wrong.set()
            raise RuntimeError("a bug")

    def heartbeat() -> "Future[HeartbeatReply]":
        sent.set()
        return Future()

    heartbeaters = []
    for kind in (Wrong, Heartbeater):
        authority = Authority()
        authority.renew(authority.now(), 10_000)
        heartbeaters.append(kind(heartbeat, authority, 0.03, lambda _why: None))
    heartbeaters[0].start()
    assert wrong.wait(30)
    heartbeaters[1].start()
    assert sent.wait(30)
    heartbeaters[1].stop()
    assert "a heartbeat failed" in caplog.text
