"""Sessions: one heartbeat for any number of claims, and a context that outlives the worker."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from octostore.core.commands import (
    AcquireLock,
    ClaimJob,
    ClaimNext,
    ClaimTask,
    CloseSession,
    Enqueue,
    HandOverSession,
    HeartbeatJob,
    KeepSessionAlive,
    OpenSession,
    Recover,
    ReleaseJob,
    SaveSession,
)
from octostore.core.errors import Held, InvalidInput, LeaseLost, NotAllowed, NotFound
from octostore.core.limits import RECOVER_LIMIT, SWEEP_LIMIT
from octostore.core.model import LOCAL
from octostore.core.questions import GetJob, GetSession, ListEvents, ListSessions
from octostore.core.replies import SessionReply
from octostore.stores.memory import MemoryBackend
from tests.support.world import World


def open_session(world: World, **terms: Any) -> SessionReply:
    return world.do(OpenSession(**{"session_id": "s", "agent": "ann", "ttl": 30, **terms}))


def keepalive(world: World, session: SessionReply) -> None:
    world.do(KeepSessionAlive(session_id="s", lease_id=session.lease_id))


def bound(world: World, job_id: str = "job", **terms: Any) -> str:
    reply = world.do(ClaimJob(job_id=job_id, owner="ann", session_id="s", **terms))
    assert reply.lease_id is not None
    return reply.lease_id


def test_one_keepalive_keeps_a_thousand_claims(world: World) -> None:
    session = open_session(world)
    world.batch([ClaimJob(job_id=f"job-{n}", owner="ann", session_id="s", ttl=1) for n in range(1_000)])
    for _ in range(5):
        world.advance(29)
        keepalive(world, session)
    assert world.ask(GetJob(job_id="job-999")).status == "claimed"
    assert world.do(Recover()).recovered == []
    world.advance(30)
    assert world.ask(GetJob(job_id="job-999")).status == "free"
    assert len(world.do(Recover()).recovered) == 1_000
    assert world.event_types()[-1] == "session_expired"


def test_a_bound_claim_ends_with_its_session_whatever_its_own_heartbeats(world: World) -> None:
    open_session(world)
    lease_id = bound(world)
    world.advance(20)
    assert world.do(HeartbeatJob(job_id="job", lease_id=lease_id)).remaining_ms == 10_000
    world.advance(10)
    with pytest.raises(LeaseLost):
        world.do(HeartbeatJob(job_id="job", lease_id=lease_id))


def test_a_bound_claim_has_no_ttl_of_its_own(world: World) -> None:
    open_session(world)
    lease_id = bound(world, request_id="r", ttl=600)
    world.do(HeartbeatJob(job_id="job", lease_id=lease_id, ttl=600))
    again = world.do(ClaimJob(job_id="job", owner="ann", session_id="s", request_id="r"))
    assert (again.ttl, again.remaining_ms) == (30, 30_000)


def test_the_expiry_of_many_claims_is_recorded_a_hundred_at_a_time(world: World) -> None:
    open_session(world)
    world.batch([ClaimJob(job_id=f"job-{n}", owner="ann", session_id="s") for n in range(250)])
    world.advance(30)
    for expected in (100, 200, 250):
        world.do(Enqueue(job_id=f"task-{expected}", kind="build"))
        assert world.event_types().count("expired") == expected
        assert ("session_expired" in world.event_types()) == (expected == 250)


def test_a_recovery_is_not_complete_while_a_lost_session_has_claims(world: World) -> None:
    open_session(world)
    world.batch([ClaimJob(job_id=f"job-{n}", owner="ann", session_id="s") for n in range(RECOVER_LIMIT + 1)])
    world.advance(30)
    steps = [world.do(Recover()) for _ in range(2)]
    assert [(len(step.recovered), step.is_complete) for step in steps] == [(RECOVER_LIMIT, False), (1, True)]
    assert world.event_types()[-1] == "session_expired"


def test_a_keepalive_is_the_last_heartbeat_of_every_bound_claim(world: World) -> None:
    session = open_session(world)
    bound(world)
    for _ in range(10):
        world.advance(20)
        keepalive(world, session)
    world.advance(5)
    owner = world.ask(GetJob(job_id="job")).claim
    assert owner is not None
    assert (owner.expires_at - owner.heartbeat_at).total_seconds() == 30
    assert world.do(ClaimJob(job_id="job", owner="bob")).heartbeat_at == owner.heartbeat_at
    world.advance(60)
    (recovery,) = world.do(Recover()).recovered
    assert recovery.heartbeat_at == owner.heartbeat_at
    assert (recovery.expired_at - recovery.heartbeat_at).total_seconds() == recovery.ttl


def test_the_context_survives_the_session(world: World) -> None:
    session = open_session(world)
    world.do(SaveSession(session_id="s", lease_id=session.lease_id, context=b'{"turn":7}'))
    world.advance(30)
    resumed = open_session(world, agent="bob")
    assert (resumed.resumed, resumed.context, resumed.agent) == (True, {"turn": 7}, "bob")
    assert resumed.lease_id != session.lease_id
    assert world.log()[(resumed.context_seq or 0) - 1].type == "session_saved"


def test_resuming_does_not_bring_old_claims_back(world: World) -> None:
    open_session(world)
    old = bound(world)
    world.advance(30)
    open_session(world)
    assert world.ask(GetJob(job_id="job")).status == "free"
    with pytest.raises(LeaseLost):
        world.do(HeartbeatJob(job_id="job", lease_id=old))


def test_opening_a_live_session_is_refused_and_says_who_has_it(world: World) -> None:
    open_session(world)
    world.advance(5)
    with pytest.raises(Held) as caught:
        open_session(world, agent="bob")
    assert caught.value.owner == "ann"
    assert (caught.value.expires_at - caught.value.heartbeat_at).total_seconds() == 30


def test_opening_can_be_repeated_with_the_same_request_id(world: World) -> None:
    first = open_session(world, request_id="r")
    again = open_session(world, request_id="r")
    assert (again.lease_id, again.replayed) == (first.lease_id, True)
    assert world.event_types() == ["session_opened"]


def test_two_principals_that_choose_the_same_id_have_two_sessions(world: World) -> None:
    theirs = open_session(world, principal="ann", request_id="r")
    world.do(SaveSession(session_id="s", lease_id=theirs.lease_id, principal="ann", context=b'"secret"'))
    mine = open_session(world, principal="bob", request_id="r")
    assert (mine.resumed, mine.replayed, mine.context, mine.in_flight) == (False, False, None, [])
    claims = [ClaimJob(job_id=name, owner=name, session_id="s", principal=name) for name in ("ann", "bob")]
    assert [reply.session_id for reply in world.batch(claims)] == ["s", "s"]
    world.do(CloseSession(session_id="s", lease_id=mine.lease_id, principal="bob"))
    sessions = [world.ask(GetSession(session_id=name)) for name in ("ann/s", "bob/s")]
    assert [(view.session_id, view.status, view.jobs) for view in sessions] == [
        ("s", "open", ["ann"]),
        ("s", "closed", []),
    ]


def test_no_claim_can_be_bound_to_the_session_of_another_principal(world: World) -> None:
    open_session(world, principal="ann")
    with pytest.raises(NotFound):
        world.do(ClaimJob(job_id="job", owner="bob", session_id="s", principal="bob"))


@pytest.mark.parametrize("name", ["ann/s", "local/s"])
def test_a_session_to_open_or_bind_to_is_named_without_its_principal(name: str) -> None:
    builds: list[Callable[[], Any]] = [
        lambda: OpenSession(session_id=name, agent="ann"),
        lambda: ClaimJob(job_id="job", owner="ann", session_id=name),
        lambda: ClaimTask(session_id=name, owner="ann", queues=("tasks",)),
    ]
    for build in builds:
        with pytest.raises(InvalidInput) as caught:
            build()
        assert caught.value.field == "session_id"


@pytest.mark.parametrize("name", ["/s", "ann/", "a\nb/s", "a" * 600 + "/s"])
def test_a_bad_session_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        GetSession(session_id=name)


@pytest.mark.parametrize("whose", ["team/ci", "ci[deploy/]", "a principal", "Zoë"])
def test_a_principal_may_have_any_name(world: World, whose: str) -> None:
    open_session(world, principal=whose)
    view = world.ask(GetSession(session_id=f"{whose}/s"))
    assert (view.session_id, view.principal) == ("s", whose)
    assert world.events()[0].session_principal == whose


def writes(**terms: Any) -> list[KeepSessionAlive | SaveSession | HandOverSession | CloseSession]:
    terms = {"session_id": "s", **terms}
    return [
        KeepSessionAlive(**terms),
        SaveSession(**terms, context=b"1"),
        HandOverSession(**terms, to_agent="bob"),
        CloseSession(**terms),
    ]


def test_only_its_lease_can_write_to_a_session(world: World) -> None:
    """Not even its principal can, because several tokens may have that name."""
    session = open_session(world, principal="ann")
    before = world.log()
    for command in writes(lease_id=None, principal="ann"):
        with pytest.raises(NotAllowed, match="writing to session 's' needs its lease_id"):
            world.do(command)
    assert world.log() == before
    for command in writes(lease_id=session.lease_id, principal="ann")[:3]:
        world.do(command)


def test_not_even_an_operator_can_keep_a_session_alive_or_save_its_context(world: World) -> None:
    open_session(world)
    for command in writes(lease_id=None)[:2]:
        with pytest.raises(NotAllowed):
            world.do(command)


@pytest.mark.parametrize("by", [{"principal": "root", "as_operator": True}, {"principal": LOCAL}], ids=["root", LOCAL])
def test_an_operator_can_hand_over_or_close_a_session(world: World, by: dict[str, Any]) -> None:
    open_session(world, principal="ann")
    handing = HandOverSession(session_id="ann/s", to_agent="bob", **by)
    handed = world.do(handing)
    assert (handed.session_id, handed.agent, world.do(handing)) == ("s", "bob", handed)
    taken = open_session(world, principal="ann", agent="bob")
    closing = CloseSession(session_id="ann/s", **by)
    assert world.do(closing) == world.do(closing)
    with pytest.raises(LeaseLost):
        world.do(KeepSessionAlive(session_id="s", lease_id=taken.lease_id, principal="ann"))
    assert [(entry.type, entry.actor) for entry in world.log()] == [
        ("session_opened", "ann"),
        ("session_handed_over", by["principal"]),
        ("session_opened", "ann"),
        ("session_closed", by["principal"]),
    ]


def test_an_operators_token_of_the_same_name_can_close_a_session(world: World) -> None:
    open_session(world, principal="ann")
    world.do(CloseSession(session_id="s", principal="ann", as_operator=True))
    assert world.ask(GetSession(session_id="ann/s")).status == "closed"


def test_the_principal_of_a_lock_client_needs_no_lease(world: World) -> None:
    session = open_session(world, principal="ann", without_lease=True)
    job = world.do(ClaimJob(job_id="job", owner="ann", session_id="s", principal="ann"))
    world.advance(20)
    assert world.do(KeepSessionAlive(session_id="s", lease_id=None, principal="ann")).remaining_ms == 30_000
    world.advance(20)
    assert world.do(HeartbeatJob(job_id="job", lease_id=job.lease_id or "")).remaining_ms == 10_000
    world.do(SaveSession(session_id="s", lease_id=None, principal="ann", context=b'{"turn":7}'))
    assert world.ask(GetSession(session_id="ann/s")).context == {"turn": 7}
    closing = CloseSession(session_id="s", lease_id=None, principal="ann")
    closed = world.do(closing)
    assert world.do(closing) == closed
    assert world.do(CloseSession(session_id="s", lease_id=session.lease_id, principal="ann")) == closed
    assert world.event_types()[-2:] == ["released", "session_closed"]


def test_once_an_agent_resumes_a_lock_clients_session_writes_need_its_lease(world: World) -> None:
    open_session(world, principal="ann", without_lease=True)
    world.advance(30)
    open_session(world, principal="ann")
    with pytest.raises(NotAllowed):
        world.do(KeepSessionAlive(session_id="s", lease_id=None, principal="ann"))


@pytest.mark.parametrize("without_lease", [True, False])
def test_a_stranger_without_a_lease_finds_no_session(world: World, without_lease: bool) -> None:
    session = open_session(world, principal="ann", without_lease=without_lease)
    before = world.log()
    for existing, unknown in zip(
        writes(lease_id=None, principal="bob", session_id="ann/s"),
        writes(lease_id=None, principal="bob", session_id="ann/t"),
        strict=True,
    ):
        messages = []
        for command in (existing, unknown):
            with pytest.raises(NotFound) as caught:
                world.do(command)
            messages.append(str(caught.value).replace("'t'", "'s'"))
        assert messages == ["principal 'ann' has no session named 's'"] * 2, "whether or not the session exists"
    assert world.log() == before
    world.do(CloseSession(session_id="s", lease_id=session.lease_id, principal="ann"))
    for command in writes(lease_id=None, principal="bob", session_id="ann/s"):
        with pytest.raises(NotFound):
            world.do(command)


def test_a_stranger_with_a_wrong_lease_finds_no_session_either(world: World) -> None:
    open_session(world, principal="ann")
    for command in writes(lease_id="guessed", principal="bob", session_id="ann/s"):
        with pytest.raises(NotFound):
            world.do(command)
    for command in writes(lease_id="guessed", principal="ann"):
        with pytest.raises(LeaseLost):
            world.do(command)


def test_the_lease_is_enough_to_write_whatever_the_principal(world: World) -> None:
    session = open_session(world, principal="ann")
    keepalive, save, _, close = writes(lease_id=session.lease_id, principal="bob", session_id="ann/s")
    for command in (keepalive, save, close):
        world.do(command)
    assert [(entry.type, entry.actor) for entry in world.log()[1:]] == [
        ("session_saved", "bob"),
        ("session_closed", "bob"),
    ]


def test_without_a_lease_an_expired_session_is_lost_too(world: World) -> None:
    open_session(world, principal="ann", without_lease=True)
    world.advance(30)
    for command in writes(lease_id=None, principal="ann"):
        with pytest.raises(LeaseLost, match="expired"):
            world.do(command)


def test_a_call_without_a_lease_means_the_current_session(world: World) -> None:
    first = open_session(world, principal="ann", without_lease=True)
    world.advance(30)
    open_session(world, principal="ann", agent="again", without_lease=True)
    world.advance(10)
    with pytest.raises(LeaseLost):
        world.do(KeepSessionAlive(session_id="s", lease_id=first.lease_id, principal="ann"))
    assert world.do(KeepSessionAlive(session_id="s", lease_id=None, principal="ann")).remaining_ms == 30_000


def test_an_empty_lease_is_not_the_same_as_none() -> None:
    for build in (KeepSessionAlive, CloseSession):
        with pytest.raises(InvalidInput) as caught:
            build(session_id="s", lease_id="")
        assert caught.value.field == "lease_id"


def test_a_session_is_found_only_under_its_principal(world: World) -> None:
    open_session(world, principal="ann")
    assert world.ask(GetSession(session_id="ann/s")).agent == "ann"
    for name, whose in (("s", LOCAL), ("bob/s", "bob")):
        with pytest.raises(NotFound) as caught:
            world.ask(GetSession(session_id=name))
        assert str(caught.value) == f"principal {whose!r} has no session named 's'"


def test_the_log_of_a_session_is_that_of_its_principal(world: World) -> None:
    for principal in ("ann", "bob"):
        open_session(world, principal=principal)
        world.do(ClaimJob(job_id=principal, owner=principal, session_id="s", principal=principal))

    def logged(**which: Any) -> list[tuple[str, str | None]]:
        events = world.ask(ListEvents(**which)).events
        assert {event.session_id for event in events} <= {"s"}
        return [(event.type, event.session_principal) for event in events]

    both = [("session_opened", "ann"), ("claimed", "ann"), ("session_opened", "bob"), ("claimed", "bob")]
    assert logged(session_id="ann/s") == both[:2]
    assert logged(session_id="s") == []
    assert logged() == both
    assert logged(principal="bob") == both[1:], "jobs of others, but not their sessions"
    assert logged(principal="bob", session_id="ann/s") == both[1:2]


def test_a_context_replaces_the_last_one() -> None:
    backend = MemoryBackend()
    world = World(backend)
    session = open_session(world)
    for number in range(3):
        world.do(SaveSession(session_id="s", lease_id=session.lease_id, context=b"%d" % number))
    assert (backend.rows.contexts, backend.rows.documents) == ({"local/s": b"2"}, {})
    assert world.event_types() == ["session_opened", *["session_saved"] * 3]


def test_sessions_are_listed_by_principal_and_status(world: World) -> None:
    for principal in ("ann", "bob"):
        for number in range(2):
            open_session(world, session_id=f"{principal}-{number}", principal=principal, ttl=10 + 20 * number)

    def listed(**which: Any) -> list[str]:
        return [view.session_id for view in world.ask(ListSessions(**which)).sessions]

    assert listed() == ["ann-0", "ann-1", "bob-0", "bob-1"]
    assert listed(principal="ann") == ["ann-0", "ann-1"]
    assert listed(principal="nobody") == []
    world.advance(10)
    assert listed(principal="bob", status="expired") == ["bob-0"]
    assert listed(principal="bob", status="open") == ["bob-1"]


def test_the_last_page_of_sessions_has_no_cursor(world: World) -> None:
    for name in ("a", "b", "c"):
        open_session(world, session_id=name)
    first = world.ask(ListSessions(limit=2))
    assert ([view.session_id for view in first.sessions], first.cursor) == (["a", "b"], "local/b")
    second = world.ask(ListSessions(limit=2, cursor=first.cursor))
    assert ([view.session_id for view in second.sessions], second.cursor) == (["c"], None)
    assert world.ask(ListSessions(limit=3)).cursor is None


def test_closing_releases_its_claims_and_keeps_the_context(world: World) -> None:
    session = open_session(world)
    for job_id in ("b", "c", "a"):
        bound(world, job_id)
    world.do(SaveSession(session_id="s", lease_id=session.lease_id, context=b"1"))
    closing = CloseSession(session_id="s", lease_id=session.lease_id)
    first = world.do(closing)
    assert [(event.type, event.job_id) for event in world.events()[-4:]] == [
        ("released", "a"),
        ("released", "b"),
        ("released", "c"),
        ("session_closed", None),
    ]
    assert world.do(closing) == first
    assert world.ask(GetSession(session_id="s")).status == "closed"
    assert open_session(world).context == 1


def test_writing_to_a_lost_session_raises_lease_lost(world: World) -> None:
    session = open_session(world)
    world.advance(30)
    with pytest.raises(LeaseLost):
        keepalive(world, session)
    with pytest.raises(LeaseLost):
        world.do(ClaimJob(job_id="job", owner="ann", session_id="s"))
    open_session(world, agent="bob")
    with pytest.raises(LeaseLost, match="bob"):
        keepalive(world, session)
    with pytest.raises(NotFound):
        world.do(KeepSessionAlive(session_id="unknown", lease_id="x"))


def test_a_stale_lease_learns_what_became_of_the_session(world: World) -> None:
    stale = open_session(world)

    def why_lost() -> str:
        with pytest.raises(LeaseLost) as lost:
            keepalive(world, stale)
        return str(lost.value).partition(" is lost: ")[2]

    world.do(HandOverSession(session_id="s", lease_id=stale.lease_id, to_agent="bob"))
    assert why_lost() == "the session was handed over to 'bob', who has not opened it yet"
    taken = open_session(world, agent="bob")
    assert why_lost() == "'bob' has the session now, and is alive"
    world.do(CloseSession(session_id="s", lease_id=taken.lease_id))
    assert re.fullmatch(r"the session closed at \S+ \S+ UTC; its last agent was 'bob'", why_lost())
    open_session(world, agent="eve")
    world.batch([ClaimJob(job_id=f"job-{n}", owner="eve", ttl=10) for n in range(SWEEP_LIMIT)])
    world.advance(30)
    for _ in ("before the expiry is recorded", "after"):
        assert re.fullmatch(r"the session expired at \S+ \S+ UTC; its last agent was 'eve'", why_lost())
    assert world.event_types()[-1] == "session_expired"


def test_an_expired_session_has_ended_even_before_that_is_recorded(world: World) -> None:
    """One transaction does not record all of a mass expiry, so the session's turn may come much later."""
    session = open_session(world)
    world.batch([ClaimJob(job_id=f"job-{n}", owner="eve", ttl=10) for n in range(SWEEP_LIMIT)])
    world.advance(30)
    terms: dict[str, Any] = {"session_id": "s", "lease_id": session.lease_id}
    bind: dict[str, Any] = {"job_id": "job", "owner": "ann", "session_id": "s"}
    replies = world.batch(
        [
            KeepSessionAlive(**terms),
            SaveSession(**terms, context=b"1"),
            ClaimJob(**bind),
            AcquireLock(**bind),
            AcquireLock(**bind, ephemeral=True),
        ]
    )
    assert [type(reply) for reply in replies] == [LeaseLost] * 5
    assert set(world.event_types()[-SWEEP_LIMIT:]) == {"expired"}, "the session's turn is yet to come"
    assert world.ask(GetSession(session_id="s")).status == "expired"


def test_a_bound_claim_has_its_own_lease(world: World) -> None:
    session = open_session(world)
    world.do(Enqueue(job_id="task", kind="build"))
    by_name = bound(world)
    as_next = world.do(ClaimNext(owner="ann", session_id="s")).lease_id or ""
    assert len({session.lease_id, by_name, as_next}) == 3
    with pytest.raises(LeaseLost):
        world.do(ReleaseJob(job_id="job", lease_id=session.lease_id))
    with pytest.raises(LeaseLost):
        world.do(CloseSession(session_id="s", lease_id=by_name))


def test_claim_next_can_be_bound_too(world: World) -> None:
    open_session(world)
    world.do(Enqueue(job_id="task", kind="build"))
    reply = world.do(ClaimNext(owner="ann", session_id="s"))
    assert (reply.session_id, reply.remaining_ms) == ("s", 30_000)
    world.advance(30)
    assert world.ask(GetJob(job_id="task")).attempts == 1


def test_a_session_shows_its_agent_status_context_and_jobs(world: World) -> None:
    session = open_session(world)
    bound(world, "b")
    lease_id = bound(world, "a")
    world.do(SaveSession(session_id="s", lease_id=session.lease_id, context=b'{"x":1}'))
    view = world.ask(GetSession(session_id="s"))
    assert (view.agent, view.status, view.context, view.jobs) == ("ann", "open", {"x": 1}, ["a", "b"])
    world.do(ReleaseJob(job_id="a", lease_id=lease_id))
    assert world.ask(GetSession(session_id="s")).jobs == ["b"]
    world.advance(30)
    assert world.ask(GetSession(session_id="s")).status == "expired"
    with pytest.raises(NotFound):
        world.ask(GetSession(session_id="unknown"))
