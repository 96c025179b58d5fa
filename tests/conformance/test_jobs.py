"""Claim, heartbeat, inspect, release, recover: the five calls, as in contract.md."""

import os
from datetime import UTC
from typing import Any

import pytest

from octostore import AlreadyDone, Conflict, Held, InvalidInput, LeaseLost, NotFound, OctoStore
from octostore.core.replies import ClaimReply
from tests.conformance.conftest import System


def lease(reply: ClaimReply) -> str:
    assert reply.lease_id is not None, reply
    return reply.lease_id


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_a_job_has_one_owner_and_everybody_can_see_it(system: System) -> None:
    store, other = system.store, system.other
    mine = store.claim_job("github-issue-1842", owner="agent-3", metadata={"branch": "fix-1842"}, ttl=120)
    assert mine.status == "claimed"
    theirs = other.claim_job("github-issue-1842", owner="agent-4")
    assert (theirs.status, theirs.owner, theirs.metadata) == ("held", "agent-3", {"branch": "fix-1842"})
    assert theirs.retry_after_ms == 120_000
    owner = other.get_job_owner("github-issue-1842")
    assert owner is not None
    assert (owner.owner, owner.metadata, owner.fencing_token) == ("agent-3", {"branch": "fix-1842"}, mine.fencing_token)
    assert owner.expires_at == mine.expires_at
    assert owner.expires_at.tzinfo is UTC
    assert [claim.job_id for claim in other.list_claimed_jobs(prefix="github-issue-")] == ["github-issue-1842"]
    assert other.list_claimed_jobs(prefix="gitlab-") == []
    store.release_job("github-issue-1842", lease(mine))
    assert store.get_job_owner("github-issue-1842") is None
    assert other.claim_job("github-issue-1842", owner="agent-4").status == "claimed"


def test_a_claim_can_be_made_for_another_process(system: System) -> None:
    system.store.enqueue("build", job_id="build")
    system.store.claim_job("job", pid=4_711)
    assert system.store.claim_next(pid=4_712).job_id == "build"
    assert [claim.pid for claim in system.other.list_claimed_jobs()] == [4_712, 4_711]


def test_everybody_can_see_which_process_owns_a_job(system: System) -> None:
    store, other = system.store, system.other
    here = (os.uname().nodename, os.getpid())
    store.enqueue("build", job_id="build")
    store.claim_job("job", owner="a name that says nothing")
    assert store.claim_next().job_id == "build"
    (many,) = store.claim_many(["many"])
    (batched,) = store.batch([{"command": "claim_job", "job_id": "batched"}])
    with store.hold("held"):
        assert [(claim.host, claim.pid) for claim in other.list_claimed_jobs()] == [here] * 5
    assert (many.status, batched.status) == ("claimed", "claimed")
    held = other.claim_job("job")
    assert (held.host, held.pid) == here
    claimed = [event.data for event in store.events() if event.type == "claimed"]
    assert [(data["host"], data["pid"]) for data in claimed] == [here] * 5


def test_every_reply_says_to_heartbeat_after_a_third_of_the_ttl(system: System) -> None:
    store = system.store
    claim = store.claim_job("job", ttl=30)
    session = store.open_session("agent", ttl=90)
    bound = store.claim_job("bound", session_id=session.session_id)
    store.enqueue("kind")
    taken = store.claim_next(ttl=60)
    assert [reply.renew_after_ms for reply in (claim, taken)] == [10_000, 20_000]
    assert [reply.renew_after_ms for reply in (session.reply, bound)] == [30_000, 30_000]
    system.advance(15)
    assert store.heartbeat_job("job", lease(claim)).renew_after_ms == 10_000
    assert session.keepalive().renew_after_ms == 30_000


def test_heartbeats_keep_the_claim_and_show_progress(system: System) -> None:
    store = system.store
    claim = store.claim_job("job", ttl=30)
    for _ in range(4):
        system.advance(20)
        heartbeat = store.heartbeat_job("job", lease(claim), progress="running tests", percent=40)
        assert heartbeat.remaining_ms == 30_000
    owner = store.get_job_owner("job")
    assert owner is not None
    assert owner.progress is not None
    assert (owner.progress.note, owner.progress.percent) == ("running tests", 40)
    system.advance(30)
    with pytest.raises(LeaseLost):
        store.heartbeat_job("job", lease(claim))


def test_a_successor_gets_what_an_owner_left_that_disappeared(system: System) -> None:
    store, other = system.store, system.other
    dead = store.claim_job("job", owner="agent-1", ttl=30)
    store.checkpoint_job("job", lease(dead), {"step": 3})
    assert store.get_job("job").checkpoint == {"step": 3}
    store.heartbeat_job("job", lease(dead), progress="step 3 of 5")
    system.advance(30)
    assert other.get_job_owner("job") is None
    successor = other.claim_job("job", owner="agent-2")
    assert (successor.status, successor.checkpoint, successor.note) == ("claimed", {"step": 3}, "step 3 of 5")
    assert [(attempt.owner, attempt.how) for attempt in successor.previous] == [("agent-1", "expired")]
    assert (successor.fencing_token or 0) > (dead.fencing_token or 0)
    with pytest.raises(LeaseLost) as caught:
        store.release_job("job", lease(dead), outcome="done")
    assert caught.value.holder is not None
    assert caught.value.holder.owner == "agent-2"
    assert caught.value.ended is not None
    assert caught.value.ended.how == "expired"


def test_a_retry_gets_the_same_claim(system: System) -> None:
    first = system.store.claim_job("job", request_id="abc")
    again = system.other.claim_job("job", request_id="abc")
    assert (again.lease_id, again.replayed, first.replayed) == (first.lease_id, True, False)


def test_a_second_claim_by_the_same_owner_gets_held(store: OctoStore) -> None:
    assert store.claim_job("job", owner="same").status == "claimed"
    assert store.claim_job("job", owner="same").status == "held"


def test_finished_work_is_not_done_again(system: System) -> None:
    store = system.store
    claim = store.claim_job("report")
    done = store.release_job("report", lease(claim), outcome="done", result={"rows": 7})
    assert done.status == "done"
    assert store.release_job("report", lease(claim), outcome="done", result={"rows": 7}) == done
    later = system.other.claim_job("report")
    assert (later.status, later.result) == ("done", {"rows": 7})
    assert store.claim_job("report", again=True).status == "claimed"


def test_a_repeated_release_is_one_event(store: OctoStore) -> None:
    claim = store.claim_job("job")
    replies = [store.release_job("job", lease(claim)) for _ in range(3)]
    assert replies[0] == replies[1] == replies[2]
    assert [event.type for event in store.events(job_id="job")] == ["claimed", "released"]


def test_a_lock_delay_keeps_the_job_unclaimable_for_a_while(system: System) -> None:
    claim = system.store.claim_job("job", lock_delay=10)
    system.store.release_job("job", lease(claim))
    assert system.other.claim_job("job").status == "delayed"
    system.advance(10)
    assert system.other.claim_job("job").status == "claimed"


@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("job_id", lambda store: store.claim_job("no spaces")),
        ("ttl", lambda store: store.claim_job("job", ttl=0)),
        ("metadata", lambda store: store.claim_job("job", metadata="x" * 1_023)),
        ("metadata", lambda store: store.claim_job("job", metadata={"x": float("nan")})),
        ("metadata", lambda store: store.claim_job("job", metadata={1, 2})),
        ("metadata", lambda store: store.claim_job("job", metadata=nested(65))),
        ("metadata", lambda store: store.claim_job("job", metadata=nested(100_000))),
        ("request_id", lambda store: store.claim_job("job", request_id="")),
        ("wait", lambda store: store.claim_job("job", wait=-1)),
        ("payload", lambda store: store.enqueue("kind", "x" * 262_143)),
        ("run_at", lambda store: store.enqueue("kind", run_at="tomorrow")),
        ("kind", lambda store: store.enqueue("no/slash")),
        ("kinds", lambda store: store.claim_next(kinds="build")),
        ("lease_id", lambda store: store.heartbeat_job("job", None)),
        ("agent", lambda store: store.open_session("two\nlines")),
        ("status", lambda store: store.list_jobs(status="busy")),
        ("status", lambda store: store.list_sessions(status="claimed")),
        ("prefix", lambda store: store.list_claimed_jobs("a b")),
    ],
)
def test_bad_input_names_the_field_and_changes_nothing(store: OctoStore, field: str, call: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        call(store)  # type: ignore[operator]
    assert caught.value.field == field
    assert list(store.events()) == []


def test_metadata_and_results_are_any_json(store: OctoStore) -> None:
    for number, value in enumerate([0, "", [], {}, {"a": [1, 2.5, None, True, "ü\u0000"]}, "x" * 1_022, nested(64)]):
        reply = store.claim_job(f"job-{number}", metadata=value)
        assert reply.metadata == value
        store.release_job(f"job-{number}", lease(reply), outcome="done", result=value)
        assert store.get_job(f"job-{number}").result == value


def test_a_name_never_seen_is_a_free_job(store: OctoStore) -> None:
    assert store.get_job("unseen").status == "free"
    assert store.get_job_owner("unseen") is None


def test_calls_of_operators(system: System) -> None:
    store = system.store
    claim = store.claim_job("job")
    assert system.other.force_release("job", reason="stuck").status == "free"
    with pytest.raises(LeaseLost, match="stuck") as caught:
        store.heartbeat_job("job", lease(claim))
    assert caught.value.ended is not None
    assert caught.value.ended.reason == "stuck"
    with pytest.raises(NotFound):
        store.requeue("unknown")
    with pytest.raises(Conflict):
        store.cancel("job")


def test_jobs_are_listed_page_by_page_in_the_order_of_names(store: OctoStore) -> None:
    names = sorted([f"team/{number:02}" for number in range(25)] + ["teal", "tebm"])
    for name in reversed(names):
        store.claim_job(name)
    pages, cursor = [], None
    while True:
        page = store.list_jobs("te", limit=10, cursor=cursor)
        pages.append([job.job_id for job in page.jobs])
        cursor = page.cursor
        if cursor is None:
            break
    assert [len(page) for page in pages] == [10, 10, 7]
    assert [name for page in pages for name in page] == names
    assert len(store.list_claimed_jobs("team/")) == 25


def test_jobs_are_filtered_by_status_queue_owner_and_kind(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="queued", queue="ci")
    store.enqueue("build", job_id="elsewhere")
    store.enqueue("build", job_id="running", queue="ci")
    store.claim_job("running", ttl=10)
    store.release_job("finished", lease(store.claim_job("finished")), outcome="done")

    def names(**which: str) -> list[str]:
        return [job.job_id for job in store.list_jobs(**which).jobs]  # type: ignore[arg-type]

    assert names() == ["elsewhere", "finished", "queued", "running"]
    assert names(status="queued") == ["elsewhere", "queued"]
    assert names(status="queued", queue="ci") == ["queued"]
    assert names(queue="ci") == ["queued", "running"]
    assert names(status="done") == ["finished"]
    store.claim_job("elsewhere", owner="bob", ttl=10)
    assert names(owner="bob") == names(kind="build", owner="bob") == ["elsewhere"]
    assert names(owner="bob", status="queued") == names(owner="bob", queue="ci") == names(kind="test") == []
    assert names(kind="build", queue="ci", order="run") == ["queued", "running"]
    system.advance(10)
    assert names(status="claimed") == []
    assert names(status="queued", queue="ci") == ["queued", "running"]


def test_recover_reports_expired_claims_with_the_evidence(system: System) -> None:
    claim = system.store.claim_job("job", owner="agent-1", ttl=10)
    system.advance(12)
    (recovery,) = system.other.recover()
    assert (recovery.job_id, recovery.owner, recovery.late_ms) == ("job", "agent-1", 2_000)
    assert recovery.expired_at == claim.expires_at
    assert system.store.recover() == []


def test_after_a_mass_expiry_lists_are_current_and_everything_is_recovered(system: System) -> None:
    store = system.store
    session = store.open_session(ttl=10)
    for number in range(120):
        store.enqueue("build", job_id=f"job-{number:03}", queue="ci", max_attempts=1 + number % 2)
        bound = session.session_id if number % 3 == 0 else None
        store.claim_job(f"job-{number:03}", ttl=10, session_id=bound)
    system.advance(10)
    store.claim_job("bystander", ttl=60)
    assert [job.job_id for job in store.list_jobs(status="claimed").jobs] == ["bystander"]
    for queue in (None, "ci"):
        dead = [job.job_id for job in store.list_jobs(status="dead", limit=1_000, queue=queue).jobs]
        assert dead == [f"job-{number:03}" for number in range(0, 120, 2)]
        assert len(store.list_jobs(status="queued", limit=1_000, queue=queue).jobs) == 60
    in_order = store.list_jobs(queue="ci", order="run", limit=1_000).jobs
    assert [job.status for job in in_order] == ["queued"] * 60 + ["dead"] * 60
    first = store.list_jobs(queue="ci", order="run", limit=7)
    second = store.list_jobs(queue="ci", order="run", limit=1_000, cursor=first.cursor)
    assert [job.job_id for job in [*first.jobs, *second.jobs]] == [job.job_id for job in in_order]
    assert store.list_jobs(queue="ci", order="run", status="claimed", limit=7).jobs == []
    status = store.queue_status("ci")
    assert (status.later, status.dead, status.claimed) == (60, 60, 0)
    store.recover()
    expired = [event for event in store.events() if event.type == "expired"]
    assert len({event.job_id for event in expired}) == len(expired) == 120
    assert store.recover() == []


def test_hold_releases_at_the_end(system: System) -> None:
    store = system.store
    with store.hold("job", owner="me", ttl=60) as claim:
        claim.progress("half way", percent=50)
        claim.checkpoint({"step": 1})
        claim.check()
        assert 50 < claim.remaining() <= 60
        assert claim.fencing_token == 1
        with pytest.raises(Held) as caught, system.other.hold("job"):
            pass
        assert (caught.value.owner, caught.value.progress is not None) == ("me", True)
    assert store.get_job("job").status == "free"
    assert store.claim_job("job").checkpoint == {"step": 1}


def test_a_claim_is_over_after_its_block(store: OctoStore) -> None:
    with store.hold("job") as claim:
        pass
    assert store.claim_job("job", owner="other").status == "claimed"
    assert claim.remaining() == 0
    with pytest.raises(LeaseLost):
        claim.check()
    with pytest.raises(LeaseLost):
        claim.checkpoint({"too": "late"})


def test_hold_can_end_with_an_outcome(store: OctoStore) -> None:
    with store.hold("job", outcome="done"):
        pass
    with pytest.raises(AlreadyDone), store.hold("job"):
        pass
    with store.hold("job", again=True) as claim:
        claim.end_as("done", result={"answer": 42})
    with pytest.raises(AlreadyDone) as caught, store.hold("job"):
        pass
    assert caught.value.result == {"answer": 42}


def test_hold_records_the_error_if_the_block_raises(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="task")
    for job_id, status in (("lock", "free"), ("task", "queued")):
        with pytest.raises(ZeroDivisionError), store.hold(job_id):
            raise ZeroDivisionError("by zero")
        job = store.get_job(job_id)
        assert (job.status, job.last_outcome, job.error) == (status, "failed", "ZeroDivisionError: by zero")
    with pytest.raises(Conflict) as caught, store.hold("task"):
        pass
    assert caught.value.status == "delayed"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error", [ValueError("bad \udcff text"), ValueError("nul \0"), ValueError("é" * 5_000), Unspeakable()]
)
def test_whatever_the_block_raises_the_claim_ends(store: OctoStore, error: Exception) -> None:
    with pytest.raises(type(error)), store.hold("job"):
        raise error
    job = store.get_job("job")
    assert (job.status, job.last_outcome) == ("free", "failed")
    assert (job.error or "").startswith(type(error).__name__)


def test_hold_raises_at_the_end_if_it_lost_its_lease(system: System) -> None:
    def lose_the_lease() -> None:
        with system.store.hold("job", ttl=60):
            system.other.force_release("job")
            system.other.claim_job("job", owner="successor")

    with pytest.raises(LeaseLost):
        lose_the_lease()
    owner = system.store.get_job_owner("job")
    assert owner is not None
    assert owner.owner == "successor"


def test_an_existing_claim_can_be_kept(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="task")
    reply = store.claim_next(owner="me", ttl=60)
    with store.keep(reply) as claim:
        claim.checkpoint({"step": 1})
        assert (claim.job_id, claim.lease_id, claim.attempt) == ("task", lease(reply), 1)
        assert 50 < claim.remaining() <= 60
        claim.end_as("deferred", retry_after=0)
    again = store.claim_job("task", ttl=60)
    assert (again.status, again.checkpoint) == ("claimed", {"step": 1})


def test_a_reply_without_a_live_claim_cannot_be_kept(system: System) -> None:
    store = system.store
    ended = store.claim_job("job", owner="first")
    store.release_job("job", lease(ended))
    with pytest.raises(LeaseLost), store.keep(ended):
        pass
    store.claim_job("job", owner="second")
    with pytest.raises(Held) as caught, store.keep(store.claim_job("job", owner="third")):
        pass
    assert caught.value.owner == "second"


def test_keeping_a_reply_from_an_empty_queue_says_that_there_is_no_job(system: System) -> None:
    with pytest.raises(Conflict) as caught, system.store.keep(system.store.claim_next("mistyped")):
        pass
    assert caught.value.status == "empty"
    assert str(caught.value) == "there are no jobs in queue mistyped, not even finished ones; check its name"
