"""The claims of the last minutes: who had what, how it ended, who took over, and what is most urgent."""

from datetime import timedelta
from typing import Any

import pytest

from octostore import ClaimsPage, InvalidInput, OctoStore
from tests.conformance.conftest import System


def attention(page: ClaimsPage) -> dict[str, str | None]:
    """Return why each job needs attention, in the order listed."""
    return {row.job_id: row.attention for row in page.rows}


def lease(store: OctoStore, job_id: str, **options: Any) -> str:
    return store.claim_job(job_id, **options).lease_id or ""


def test_a_takeover_is_two_claims_and_the_reason(system: System) -> None:
    store = system.store
    first = store.claim_job("job", owner="ann", ttl=10)
    system.advance(3)
    store.heartbeat_job("job", first.lease_id or "", progress="testing", percent=40)
    system.advance(12)
    second = system.other.claim_job("job", owner="bob", ttl=60)
    page = system.other.list_claims()
    (row,) = page.rows
    assert (row.job_id, row.status, row.attention, row.more) == ("job", "claimed", None, False)
    lost, live = row.claims
    assert (lost.owner, lost.fencing_token, lost.attempt, lost.how) == ("ann", first.fencing_token, 1, "expired")
    assert (lost.claimed_at, lost.ended_at, lost.expires_at) == (
        first.claimed_at,
        live.claimed_at - timedelta(seconds=2),
        None,
    )
    assert lost.heartbeat_at == lost.claimed_at + timedelta(seconds=3)
    assert (lost.reason, lost.note, lost.ttl) == ("no heartbeat for 12 s, TTL 10 s", "testing", 10)
    assert (live.owner, live.took_over_from, live.attempt, live.ttl) == ("bob", "ann", 2, 60)
    assert (live.expires_at, live.ended_at, live.how) == (second.expires_at, None, None)
    owner = store.get_job_owner("job")
    assert owner is not None
    assert (live.principal, live.host, live.pid) == (owner.principal, owner.host, owner.pid)
    assert page.seq == store.figures().seq == live.fencing_token
    assert (page.at, page.at - page.since, page.last_claim_at) == (live.claimed_at, timedelta(seconds=900), page.at)
    assert page.more is False


def test_an_expired_claim_has_ended_even_before_that_is_recorded(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="task", max_attempts=1)
    store.claim_job("task", owner="ann", ttl=10)
    store.claim_job("lock", owner="ann", ttl=10)
    system.advance(11)
    page = store.list_claims()
    assert page.seq == 3, "that is not recorded yet"
    assert attention(page) == {"lock": "lost", "task": "dead"}
    assert [claim.reason for row in page.rows for claim in row.claims] == ["no heartbeat for 11 s, TTL 10 s"] * 2
    store.recover()
    again = store.list_claims()
    assert (again.rows, again.seq) == (page.rows, 5)


def test_the_most_urgent_come_first(system: System) -> None:
    store = system.store
    store.claim_job("lost", ttl=50)
    store.claim_job("taken", ttl=500)
    store.claim_job("late", ttl=120)
    store.claim_job("stuck", ttl=500, max_silence=30)
    store.claim_job("stopping", ttl=500)
    store.claim_job("live", ttl=500)
    store.claim_job("taken-over", ttl=1, owner="ann")
    store.request_stop("stopping", reason="enough")
    system.advance(5)
    store.claim_job("taken-over", ttl=500, owner="bob")
    store.claim_job("new", ttl=500)
    system.advance(85)
    store.force_release("taken", reason="wrong branch")
    ends: list[tuple[str, Any]] = [("failed", "failed"), ("dead", "failed"), ("deferred", "deferred"), ("done", "done")]
    for name, outcome in ends:
        store.enqueue("build", job_id=name, max_attempts=1 if name == "dead" else 3)
        store.release_job(name, lease(store, name, owner=name), outcome=outcome)
        system.advance(1)
    store.enqueue("build", job_id="nobody-had-it")
    store.cancel("nobody-had-it")
    page = store.list_claims()
    assert list(attention(page).items()) == [
        ("taken", "lost"),
        ("lost", "lost"),
        ("stuck", "stuck"),
        ("late", "late"),
        ("stopping", "stopping"),
        ("taken-over", None),
        ("new", None),
        ("live", None),
        ("failed", "failed"),
        ("dead", "dead"),
        ("done", None),
        ("deferred", None),
    ]
    by_name = {row.job_id: row for row in page.rows}
    assert by_name["taken"].claims[0].reason == "wrong branch"
    assert (by_name["late"].claims[0].late, by_name["late"].claims[0].stuck) == (True, False)
    assert (by_name["stuck"].claims[0].late, by_name["stuck"].claims[0].stuck) == (False, True)
    stop = by_name["stopping"].claims[0].stop_requested
    assert stop is not None
    assert stop.reason == "enough"
    first = store.list_claims(limit=3)
    assert (list(attention(first)), first.more, page.more) == (["taken", "lost", "stuck"], True, False)
    assert list(attention(store.list_claims(lost=True))) == ["taken", "lost", "taken-over"]
    assert list(attention(store.list_claims(limit=6)))[5:] == ["taken-over"]


def test_a_window_has_the_claims_that_were_live_in_it(system: System) -> None:
    store = system.store
    store.release_job("before", lease(store, "before"))
    early = store.claim_job("long", owner="ann", ttl=1_000)
    store.claim_job("still", owner="ann", ttl=1_000)
    system.advance(200)
    store.release_job("long", early.lease_id or "")
    store.claim_job("long", owner="bob", ttl=1_000)
    system.advance(50)
    page = store.list_claims(60)
    assert list(attention(page)) == ["long", "still"]
    assert [(claim.how, claim.claimed_at) for claim in page.rows[0].claims] == [
        ("released", early.claimed_at),
        (None, page.at - timedelta(seconds=50)),
    ]
    assert [claim.owner for row in store.list_claims(10).rows for claim in row.claims] == ["bob", "ann"]
    assert set(attention(store.list_claims(251))) == {"before", "long", "still"}
    # A claim that expired long ago is outside the window, even if that is recorded only now.
    system.advance(3_600)
    store.recover()
    late = store.list_claims(900)
    assert (late.rows, late.last_claim_at) == ([], page.rows[0].claims[1].claimed_at)


def test_claims_are_filtered_by_name_queue_owner_and_status(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="team/task", queue="ci")
    store.enqueue("build", job_id="team/later", queue="ci")
    store.release_job("team/task", lease(store, "team/task", owner="ann"))
    store.claim_job("team/task", owner="bob")
    store.claim_job("team/lock", owner="ann")
    store.claim_job("other", owner="bob")

    def names(**which: Any) -> set[str]:
        return set(attention(store.list_claims(**which)))

    assert names() == {"team/task", "team/lock", "other"}
    assert names(prefix="team/") == names(owner="ann") == {"team/task", "team/lock"}
    assert names(owner="bob") == {"team/task", "other"}
    assert names(queue="ci") == names(owner="ann", queue="ci", status="claimed") == {"team/task"}
    assert names(status="queued") == names(owner="eve") == names(prefix="x") == names(lost=True) == set()
    store.force_release("team/task")
    assert names(status="queued") == names(lost=True) == names(lost=True, owner="bob") == {"team/task"}
    assert names(lost=True, owner="ann") == set()


def test_a_job_that_changes_hands_all_the_time_shows_its_last_claims(system: System) -> None:
    store = system.store
    for _ in range(60):
        store.release_job("busy", lease(store, "busy"))
    (row,) = store.list_claims().rows
    tokens = [event.seq for event in store.events(types=["claimed"])]
    assert ([claim.fencing_token for claim in row.claims], row.more) == (tokens[-50:], True)
    lease(store, "busy")
    (row,) = store.list_claims().rows
    assert (len(row.claims), row.claims[-1].ended_at, row.more) == (50, None, True)


def test_a_bound_claim_lives_and_dies_with_its_session(system: System) -> None:
    store = system.store
    session = store.open_session(agent="ann", ttl=30, session_id="main")
    store.claim_job("job", owner="ann", session_id="main")
    system.advance(15)
    session.keepalive()
    system.advance(15)
    (row,) = store.list_claims().rows
    assert (row.attention, row.claims[0].session_id, row.claims[0].late) == (None, "main", False)
    assert row.claims[0].heartbeat_at == row.claims[0].claimed_at + timedelta(seconds=15)
    system.advance(10)
    assert attention(store.list_claims()) == {"job": "late"}
    system.advance(10)
    (row,) = store.list_claims().rows
    assert (row.attention, row.claims[0].how, row.claims[0].ttl) == ("lost", "expired", 30)


def test_an_owner_that_reports_while_its_session_is_silent_is_late(system: System) -> None:
    store = system.store
    store.open_session(agent="ann", ttl=60, session_id="main")
    lease_id = lease(store, "job", owner="ann", session_id="main")
    system.advance(39)
    store.heartbeat_job("job", lease_id, progress="testing")
    assert attention(store.list_claims()) == {"job": None}
    system.advance(1)
    (row,) = store.list_claims().rows
    (heartbeat,) = store.list_heartbeats(["job"]).claims
    assert (row.attention, row.claims[0].late, heartbeat.late, store.figures().late) == ("late", True, True, 1)
    assert row.claims[0].late_at == heartbeat.late_at == heartbeat.expires_at - timedelta(seconds=20)


def test_a_hand_over_is_two_claims(system: System) -> None:
    session = system.store.open_session(agent="ann", session_id="main")
    system.store.claim_job("job", owner="ann", session_id="main")
    session.hand_over("bob", note="half of it is uploaded")
    (row,) = system.other.list_claims().rows
    before, after = row.claims
    assert (before.how, before.reason, before.note) == ("released", "handed over to 'bob'", "half of it is uploaded")
    assert (after.owner, after.handed_over_by, after.took_over_from) == ("bob", "ann", None)


def test_a_question_beyond_its_limits_is_refused(system: System) -> None:
    wrong: list[dict[str, Any]] = [{"window": 0.5}, {"window": 604_801}, {"limit": 0}, {"limit": 201}]
    for which in [*wrong, {"status": "busy"}, {"owner": ""}]:
        with pytest.raises(InvalidInput, match=next(iter(which))):
            system.store.list_claims(**which)


def test_a_loss_is_found_however_often_the_job_has_changed_hands_since(system: System) -> None:
    store = system.store
    for owner in ("ann", "bob"):
        lease(store, "busy", owner=owner)
        store.force_release("busy", reason=f"not {owner}")
        store.release_job("busy", lease(store, "busy", owner=f"after-{owner}"))
        for _ in range(30):
            store.release_job("busy", lease(store, "busy", owner="eve"))
    last = lease(store, "busy", owner="eve")
    (row,) = store.list_claims(lost=True).rows
    lost = [number for number, claim in enumerate(row.claims) if claim.how == "force_released"]
    assert [(row.claims[n].owner, row.claims[n + 1].owner) for n in lost] == [
        ("ann", "after-ann"),
        ("bob", "after-bob"),
    ]
    assert row.claims[0].reason == "not ann"
    assert (len(row.claims), row.claims[-1].ended_at, row.more) == (50, None, True)
    assert row.claims == sorted(row.claims, key=lambda claim: claim.fencing_token)
    assert (
        list(attention(store.list_claims(owner="ann")))
        == list(attention(store.list_claims(owner="after-ann")))
        == ["busy"]
    )
    store.release_job("busy", last)


def test_a_job_that_an_operator_settled_needs_no_attention(system: System) -> None:
    store = system.store
    for name in ("discarded", "again"):
        store.enqueue("build", job_id=name, max_attempts=1)
        store.release_job(name, lease(store, name), outcome="failed")
    store.claim_job("later", ttl=1)
    system.advance(2)
    store.enqueue("build", job_id="later")
    store.discard("discarded")
    store.requeue("again")
    assert attention(store.list_claims()) == {"later": "lost", "discarded": None, "again": None}
    assert set(attention(store.list_claims(status="queued"))) == {"again", "later"}
    assert list(attention(store.list_claims(status="free"))) == ["discarded"]
    assert attention(store.list_claims(status="dead")) == {}
