"""The blocks of `hold()` and of sessions, and the heart inside them, against a store that answers as the test says."""

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
from octostore.client.hold import Granted, HeldClaim, refresh_command
from octostore.client.lateness import SAFETY, Lateness
from octostore.core.commands import AnyCommand, ClaimJob, ClaimTask, Command, Enqueue, HeartbeatJob, ReleaseJob
from octostore.core.errors import LeaseLost, Unreachable
from octostore.core.moments import to_datetime
from octostore.core.replies import ClaimReply, HeartbeatReply
from octostore.stores.clock import boottime
from octostore.stores.memory import MemoryBackend, MemoryRows
from octostore.stores.store import LocalStore
from tests.support.processes import until

LONG = 86_400


class Port(EmbeddedPort):
    """A store in memory that fails as often as it is told to, before it does anything."""

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


def held(port: Port, job_id: str = "job", ttl: float = LONG) -> HeldClaim:
    asked_at = boottime()
    reply = EmbeddedPort.execute(port, ClaimJob(job_id=job_id, owner="ann", ttl=ttl))
    return HeldClaim(port, Granted(reply, asked_at, reply.remaining_ms or 0))


def away(reason: str = "io") -> Unreachable:
    return Unreachable("it is away", reason=reason)


def events_of(port: Port) -> list[str]:
    return [event.type for event in octostore.OctoStore(port).events()]


# A claim


def test_after_its_block_a_claim_is_not_ours_any_more(port: Port) -> None:
    with held(port) as claim:
        assert claim.remaining() > 0
    assert claim.remaining() == 0
    with pytest.raises(LeaseLost, match="its block has ended"):
        claim.check()
    with pytest.raises(LeaseLost):
        claim.checkpoint({"step": 1})
    assert events_of(port) == ["claimed", "released"]


def test_a_claim_whose_block_has_ended_is_kept_by_nobody(port: Port) -> None:
    """Its next heartbeat would have been due only much later."""
    with held(port) as claim:
        kept = weakref.ref(claim)
    del claim
    assert kept() is None


def test_progress_makes_it_last_longer(port: Port) -> None:
    with held(port) as claim:
        before = claim._authority.ends_at
        time.sleep(0.01)
        claim.progress("on it")
        assert claim._authority.ends_at > before


@pytest.mark.parametrize("write", ["progress", "checkpoint"])
def test_who_has_lost_it_writes_nothing_any_more(port: Port, write: str) -> None:
    with held(port) as claim:
        claim.lost.set()
        assert claim.remaining() == 0
        with pytest.raises(LeaseLost):
            getattr(claim, write)("late")
        assert port.asked == []


def test_a_fault_at_the_end_is_tried_again(port: Port) -> None:
    with held(port):
        port.faults = [away(), away()]
    assert events_of(port) == ["claimed", "released"]


@pytest.mark.parametrize("reason", ["read_only", "closed", "corrupt"])
def test_a_fault_that_lasts_is_told_at_once(port: Port, reason: str) -> None:
    with held(port) as claim:
        port.faults = [away(reason)] * 5
        with pytest.raises(Unreachable):
            claim.checkpoint({"step": 1})
        assert len(port.asked) == 1
        port.faults.clear()


def test_a_fault_that_passes_is_not_told(port: Port) -> None:
    with held(port) as claim:
        port.faults = [away("network"), away("busy")]
        claim.checkpoint({"step": 1})
        assert len(port.asked) == 3


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ValueError("no"), "failed"), (KeyboardInterrupt(), "released"), (SystemExit(3), "released")],
    ids=["error", "ctrl-c", "exit"],
)
def test_what_a_block_raises_decides_how_its_claim_ends(port: Port, error: BaseException, outcome: str) -> None:
    with pytest.raises(type(error)), held(port):
        raise error
    assert octostore.OctoStore(port).get_job("job").last_outcome == outcome


def test_what_a_block_raises_matters_more_than_a_release_that_fails(port: Port) -> None:
    def fail() -> None:
        with held(port):
            port.faults = [away("closed")] * 3
            raise ValueError("the work failed")

    with pytest.raises(ValueError, match="the work failed"):
        fail()


def test_a_release_that_fails_is_told_where_nothing_else_went_wrong(port: Port) -> None:
    def end() -> None:
        with held(port):
            port.faults = [away("closed")] * 3

    with pytest.raises(Unreachable):
        end()


def test_how_it_ends_can_be_left_to_time(port: Port) -> None:
    with held(port) as claim:
        claim.let_expire()
    assert events_of(port) == ["claimed"]


@pytest.mark.parametrize(("waited_share", "is_refreshed"), [(0.0, False), (0.2, False), (0.3, True), (2.0, True)])
def test_a_claim_that_was_waited_for_is_renewed_first(port: Port, waited_share: float, is_refreshed: bool) -> None:
    """It is counted from before the wait, and would seem to be over."""
    reply: ClaimReply = port.execute(ClaimJob(job_id="job", owner="ann", ttl=100))
    refresh = refresh_command(Granted(reply, boottime() - waited_share * 100, 100_000))
    assert isinstance(refresh, HeartbeatJob) == is_refreshed


def test_a_task_that_was_handed_over_is_not_touched_by_the_end_of_its_block(port: Port) -> None:
    port.execute(Enqueue(job_id="task", kind="build", queue="ci"))
    asked_at = boottime()
    reply: ClaimReply = port.execute(ClaimTask(session_id="s", owner="ann", queues=("ci",), ttl=LONG))
    with HeldClaim(port, Granted(reply, asked_at, reply.remaining_ms or 0)) as claim:
        claim.hand_over("bob")
        assert claim.remaining() == 0
        assert claim._heartbeater._beat is None, "and nobody heartbeats for it"
        with pytest.raises(LeaseLost, match="handed over to 'bob'"):
            claim.check()
        before = len(events_of(port))
    assert len(events_of(port)) == before
    assert octostore.OctoStore(port).get_job("task").owner == "bob"


def test_a_claim_is_not_released_by_a_forked_child(port: Port) -> None:
    claim = held(port)
    with claim:
        claim._pid += 1  # as if it were the child that leaves the block
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


def test_what_is_wrong_with_a_hold_is_said_before_its_block(port: Port) -> None:
    with pytest.raises(octostore.InvalidInput, match="ttl"):
        octostore.OctoStore(port).hold("job", ttl=0)


def test_a_block_is_entered_once(port: Port) -> None:
    block = octostore.OctoStore(port).hold("job")
    with block:
        pass
    with pytest.raises(octostore.InvalidInput, match=r"hold\('job'\) was entered before; call it again"), block:
        pass
    assert events_of(port) == ["claimed", "released"]


def test_a_hold_decorates_a_function_that_is_called_many_times(port: Port) -> None:
    @octostore.OctoStore(port).hold("job")
    def report() -> str:
        return octostore.OctoStore(port).get_job("job").status

    assert (report(), report()) == ("claimed", "claimed")
    assert events_of(port) == ["claimed", "released"] * 2


async def _coroutine() -> None:
    """Runs when it is awaited."""


async def _async_generator() -> AsyncIterator[int]:
    yield 1


def _generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize("function", [_coroutine, _async_generator, _generator])
def test_a_hold_does_not_decorate_what_runs_after_its_block(port: Port, function: Callable[[], Any]) -> None:
    with pytest.raises(octostore.InvalidInput, match=r"hold\('job'\) would end before _\w+ runs"):
        octostore.OctoStore(port).hold("job")(function)
    assert events_of(port) == []


class Breaking:
    """Spans whose `process` cannot begin, or during which Ctrl-C arrives."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def start_work(self, _reply: ClaimReply) -> None:
        raise self._error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a broken span processor")])
def test_a_block_that_cannot_begin_does_not_keep_its_claim(port: Port, error: BaseException) -> None:
    claim = held(port)
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
    """Ctrl-C comes while the first answer is waited for; the store has the command by then."""

    is_first = True
    answered_after: float | None = None
    """Seconds, if the answer is to come late."""

    def submit(self, commands: Sequence[AnyCommand]) -> "Future[list[Any]]":
        answers = super().submit(commands)
        if self.is_first:
            self.is_first = False
            waited_for: Future[Any] = _Interrupting()
            later = threading.Timer(self.answered_after or 0, lambda: waited_for.set_result(answers.result()))
            later.start() if self.answered_after else answers.add_done_callback(lambda _: later.function())
            return waited_for
        return answers


class _Interrupting(Future[Any]):
    is_interrupted = False

    def result(self, timeout: float | None = None) -> Any:
        if not self.is_interrupted:
            self.is_interrupted = True
            raise KeyboardInterrupt
        return super().result(timeout)


def test_what_an_interrupted_call_claimed_is_given_back() -> None:
    port = EmbeddedPort(Interrupted(MemoryBackend))
    with pytest.raises(KeyboardInterrupt):
        port.execute(ClaimJob(job_id="job", owner="ann", ttl=LONG))
    store = octostore.OctoStore(port)
    until(lambda: [event.type for event in store.events()][:1] == ["claimed"])
    until(lambda: store.get_job_owner("job") is None)
    port.close()


def test_an_interrupted_call_is_given_back_also_if_the_store_is_closed_right_away() -> None:
    """As a command does that is stopped with Ctrl-C."""
    rows = MemoryRows()
    store = Interrupted(lambda: MemoryBackend(rows))
    store.answered_after = 0.2
    port = EmbeddedPort(store)
    with pytest.raises(KeyboardInterrupt):
        port.execute(ClaimJob(job_id="job", owner="ann", ttl=LONG))
    port.close()
    again = octostore.OctoStore(EmbeddedPort(LocalStore(lambda: MemoryBackend(rows))))
    assert [event.type for event in again.events()] == ["claimed", "undone"]
    again.close()


# A session


def test_a_session_that_was_closed_or_handed_over_lives_no_longer_here(port: Port) -> None:
    store = octostore.OctoStore(port)
    for end in ("close", "hand_over"):
        with store.open_session("ann", session_id=end, ttl=LONG) as session:
            assert session.remaining() > 0
            session.close() if end == "close" else session.hand_over("bob")
            assert session.remaining() == 0
            assert session._heartbeater._beat is None, "and nobody heartbeats for it"
            if end == "close":
                session._is_handed_over = True  # nothing is left to close
    assert store.get_session("hand_over").status == "open"


def test_keeping_a_session_alive_makes_it_last_longer(port: Port) -> None:
    session = octostore.OctoStore(port).open_session("ann", ttl=LONG)
    before = session._authority.ends_at
    time.sleep(0.01)
    session.keepalive()
    assert session._authority.ends_at > before


def test_a_session_knows_what_it_saved(port: Port) -> None:
    session = octostore.OctoStore(port).open_session("ann", session_id="s")
    session.save({"turn": 4}, phase="planning")
    assert (session.context, session.phase) == ({"turn": 4}, "planning")


def test_what_happened_since_a_session_was_saved(port: Port) -> None:
    store = octostore.OctoStore(port)
    first = store.open_session("ann", session_id="s")
    assert [event.type for event in first.since()] == ["session_opened"], "with nothing saved, everything"
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


# A heart, with time and every answer in the test's hands


class Body:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, ttl: float = 30) -> None:
        self.now = 100.0
        self.due: list[float] = []
        self.beats: list[Future[HeartbeatReply]] = []
        self.lost: list[object] = []
        self.is_told = threading.Event()
        self.lateness = Lateness()
        pulse = SimpleNamespace(schedule=lambda _heart, due_at: self.due.append(due_at))
        monkeypatch.setattr("octostore.client.heartbeater._heartbeat_thread", pulse)
        self.authority = Authority(lambda: self.now, self.lateness)
        self.authority.renew(self.now, round(ttl * 1_000))
        self.heart = Heartbeater(self.beat, self.authority, ttl, self.on_lost)
        self.heart.start()

    def beat(self) -> "Future[HeartbeatReply]":
        self.beats.append(Future())
        return self.beats[-1]

    def on_lost(self, why: object) -> None:
        self.lost.append(why)
        self.is_told.set()

    def until_due(self) -> None:
        self.now = self.due[-1]
        self.heart.step()

    def answer(self, remaining_ms: int = 30_000) -> None:
        self.beats[-1].set_result(
            HeartbeatReply(job_id="job", expires_at=to_datetime(0), remaining_ms=remaining_ms, renew_after_ms=0)
        )


@pytest.fixture
def body(monkeypatch: pytest.MonkeyPatch) -> Body:
    return Body(monkeypatch)


def test_a_heart_that_was_stopped_beats_no_more(body: Body) -> None:
    body.heart.stop()
    body.until_due()
    body.now = body.authority.ends_at + 1
    body.heart.step()
    assert (body.beats, body.lost) == ([], [])


def test_it_does_nothing_before_it_is_due(body: Body) -> None:
    body.now = body.due[-1] - 0.001
    body.heart.step()
    assert body.beats == []


def test_while_an_answer_is_awaited_no_second_beat_begins(body: Body) -> None:
    """Also when the claim was renewed in another way meanwhile, such as by reporting progress."""
    body.until_due()
    assert body.due[-1] == body.authority.ends_at
    body.authority.renew(body.now, 60_000)
    body.until_due()
    assert len(body.beats) == 1
    assert body.due[-1] == body.authority.ends_at
    before = body.authority.ends_at
    body.answer(600_000)
    body.until_due()
    assert body.authority.ends_at > before, "it is still taken when it comes"


def test_it_is_told_once_and_no_later_than_its_authority_ends(body: Body) -> None:
    body.until_due()
    assert body.due[-1] == body.authority.ends_at, "nobody needs to answer for it to be known"
    body.until_due()
    assert body.is_told.wait(30)
    body.heart.step()
    assert body.lost == [None]


def test_on_a_machine_that_has_become_busy_it_gives_up_earlier(body: Body) -> None:
    body.until_due()
    assert body.heart.give_up_sooner() == body.authority.ends_at
    body.lateness.note(body.now - 1, body.now)
    assert body.heart.give_up_sooner() == body.authority.ends_at - SAFETY
    body.now = body.authority.ends_at - SAFETY
    body.lateness.note(body.now - 1, body.now)
    body.heart.step()
    assert body.is_told.wait(30)


def test_a_beat_is_never_due_after_the_authority_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    body = Body(monkeypatch, ttl=30)
    body.until_due()
    body.answer(1_000)  # somebody has made the claim shorter
    body.authority._ends_at = body.now + 0.5
    body.until_due()
    assert body.due[-1] <= body.authority.ends_at


def test_after_a_fault_it_beats_again_soon(body: Body) -> None:
    body.until_due()
    body.beats[-1].set_exception(away())
    body.until_due()
    assert 0 < body.due[-1] - body.now <= 1.5 * RETRY_SECONDS
    body.until_due()
    assert len(body.beats) == 2


def test_a_beat_that_cannot_even_begin_is_a_fault_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    body = Body(monkeypatch)
    begun: list[float] = []

    def raise_first() -> "Future[HeartbeatReply]":
        begun.append(body.now)
        if len(begun) == 1:
            raise RuntimeError("no thread")
        return body.beat()

    body.heart._beat = raise_first
    body.until_due()
    body.until_due()
    body.until_due()
    assert (len(begun), len(body.beats), body.lost) == (2, 1, [])


def test_one_heart_that_goes_wrong_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    beaten = threading.Event()
    wrong = threading.Event()

    class Wrong(Heartbeater):
        def step(self) -> None:
            wrong.set()
            raise RuntimeError("a bug")

    def beat() -> "Future[HeartbeatReply]":
        beaten.set()
        return Future()

    hearts = []
    for kind in (Wrong, Heartbeater):
        authority = Authority()
        authority.renew(authority.now(), 10_000)
        hearts.append(kind(beat, authority, 0.03, lambda _why: None))
    hearts[0].start()
    assert wrong.wait(30)
    hearts[1].start()
    assert beaten.wait(30)
    hearts[1].stop()
    assert "a heartbeat failed" in caplog.text
