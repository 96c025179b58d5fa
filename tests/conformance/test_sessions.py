"""Sessions: one heartbeat for many claims, and a context that survives."""

import msgspec
import pytest

from octostore import Held, LeaseLost, NotAllowed, NotFound
from octostore.core.documents import NO_DOCUMENT
from octostore.core.model import SessionStatus
from tests.conformance.conftest import System

STATUSES: tuple[SessionStatus, ...] = ("open", "closed", "expired")


def test_claims_live_as_long_as_the_session(system: System) -> None:
    store = system.store
    session = store.open_session("agent-1", ttl=60)
    claims = [store.claim_job(f"job-{number}", session_id=session.session_id, ttl=1) for number in range(20)]
    for _ in range(3):
        system.advance(50)
        assert session.keepalive().remaining_ms == 60_000
    assert len(system.other.list_claimed_jobs("job-")) == 20
    view = system.other.get_session(session.session_id)
    assert (view.agent, view.status, len(view.jobs)) == ("agent-1", "open", 20)
    system.advance(60)
    assert system.other.list_claimed_jobs("job-") == []
    assert len(system.other.recover()) == 20
    with pytest.raises(LeaseLost):
        session.keepalive()
    with pytest.raises(LeaseLost):
        store.heartbeat_job("job-0", claims[0].lease_id or "")


def test_the_context_comes_back(system: System) -> None:
    first = system.store.open_session("agent-1", ttl=60, session_id="notebook")
    assert (first.context, first.resumed) == (None, False)
    first.save({"turn": 7, "memory": ["a", "b"]})
    assert first.context == {"turn": 7, "memory": ["a", "b"]}
    with pytest.raises(Held) as caught:
        system.other.open_session("agent-2", session_id="notebook")
    assert caught.value.owner == "agent-1"
    system.advance(60)
    second = system.other.open_session("agent-2", session_id="notebook")
    assert (second.context, second.resumed) == ({"turn": 7, "memory": ["a", "b"]}, True)
    with pytest.raises(LeaseLost):
        first.save("too late")
    second.close()
    assert system.store.get_session("notebook").status == "closed"


def test_recovery_gets_past_any_number_of_sessions_without_claims(system: System) -> None:
    store = system.store
    for number in range(105):
        store.open_session(ttl=10, session_id=f"idle-{number}")
    session = store.open_session(ttl=11, session_id="working")
    store.enqueue("build", {"x": 1}, job_id="task")
    store.claim_next(session_id=session.session_id)
    system.advance(60)
    assert system.other.claim_next().payload == {"x": 1}
    store.recover()
    ended = [event.session_id for event in store.events() if event.type == "session_expired"]
    assert len(set(ended)) == len(ended) == 106


def test_closing_releases_the_claims(system: System) -> None:
    with system.store.open_session("agent-1") as session:
        system.store.claim_job("job", session_id=session.session_id)
    assert system.other.get_job("job").last_outcome == "released"


def test_opening_a_session_can_be_repeated(system: System) -> None:
    first = system.store.open_session("agent", session_id="s", request_id="r")
    again = system.other.open_session("agent", session_id="s", request_id="r")
    assert (again.reply.lease_id, again.reply.replayed, again.resumed) == (first.reply.lease_id, True, False)


def test_a_lost_session_does_not_hide_what_the_block_raised(system: System) -> None:
    def work() -> None:
        with system.store.open_session("agent", ttl=60):
            system.advance(60)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()


def test_sessions_are_listed_with_their_jobs_and_without_contexts(system: System) -> None:
    store = system.store
    assert store.list_sessions() == []
    sessions = [store.open_session(f"agent-{name}", session_id=name) for name in ("b", "c", "a")]
    sessions[0].save({"turn": "sëven"})
    for job_id in ("job-2", "job-1"):
        store.claim_job(job_id, session_id="b")
    store.claim_job("job-3", session_id="c")
    store.claim_job("job-4")
    listed = system.other.list_sessions()
    assert [(view.session_id, view.jobs) for view in listed] == [("a", []), ("b", ["job-1", "job-2"]), ("c", ["job-3"])]
    seen = [store.get_session(view.session_id) for view in listed]
    assert listed == [msgspec.structs.replace(view, raw_context=NO_DOCUMENT) for view in seen]
    assert listed[1].context_seq == seen[1].context_seq is not None
    assert [view.context_bytes for view in listed] == [None, len('{"turn":"sëven"}'.encode()), None]


def test_sessions_are_listed_with_their_current_status_recorded_or_not(system: System) -> None:
    store = system.store
    store.open_session(session_id="written", ttl=5)
    system.advance(5)
    store.recover()
    store.open_session(session_id="closed").close()
    store.open_session(session_id="alive", ttl=60)
    for session_id in ("idle", "working"):
        store.open_session(session_id=session_id, ttl=10)
    store.claim_job("job", session_id="working")
    system.advance(10)

    def check() -> None:
        ids = {status: [view.session_id for view in store.list_sessions(status=status)] for status in STATUSES}
        assert ids == {"open": ["alive"], "closed": ["closed"], "expired": ["idle", "working", "written"]}
        listed = {view.session_id: view.status for view in store.list_sessions()}
        assert listed == {session_id: status for status in STATUSES for session_id in ids[status]}
        assert [view.jobs for view in store.list_sessions(status="expired")] == [[], [], []]

    check()
    assert [event.session_id for event in store.events() if event.type == "session_expired"] == ["written"]
    system.other.recover()
    check()


def test_all_pages_of_sessions_are_listed(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octostore.client.reader.PAGE_MAX", 3)
    names = [f"s-{number}" for number in range(7)]
    for name in reversed(names):
        system.store.open_session(session_id=name, ttl=10 if name < "s-4" else 60)
    system.store.open_session(session_id="s-9").close()
    assert [view.session_id for view in system.store.list_sessions(status="open")] == names
    system.advance(10)
    assert [view.session_id for view in system.store.list_sessions()] == [*names, "s-9"]
    assert [view.session_id for view in system.store.list_sessions(status="expired")] == names[:4]
    assert [view.session_id for view in system.store.list_sessions(status="open")] == names[4:]


def test_only_its_lease_writes_to_a_session(system: System) -> None:
    session = system.store.open_session("agent-1", session_id="s")
    (refused,) = system.other.batch([{"command": "keepalive", "session_id": "s"}])
    assert isinstance(refused, NotAllowed)
    with pytest.raises(LeaseLost):
        system.other.keep_session_alive("s", "guessed")
    session.save({"turn": 1})
    session.save({"turn": 2})
    assert system.other.get_session("s").context == {"turn": 2}


def test_an_operator_closes_a_session_or_hands_it_over_without_its_lease(system: System) -> None:
    """All these clients are operators: they open the store directly, or have a server's first token."""
    store, whose = system.other, system.store.whoami().name
    first = system.store.open_session("agent-1", session_id="s")
    assert store.hand_over(f"{whose}/s", "agent-2").agent == "agent-2"
    with pytest.raises(LeaseLost):
        first.keepalive()
    second = system.store.open_session("agent-2", session_id="s")
    assert store.close_session("s") == store.close_session(f"{whose}/s", lease_id=second.reply.lease_id)
    with pytest.raises(LeaseLost):
        second.keepalive()
    assert store.get_session(f"{whose}/s").status == "closed"


def test_an_event_names_the_principal_of_its_session(system: System) -> None:
    whose = system.store.whoami().name
    system.store.open_session("agent-1", session_id="s")
    system.store.claim_job("job", session_id="s")
    events = list(system.other.events(session_id=f"{whose}/s"))
    assert events == list(system.other.events(session_id="s"))
    assert [(event.type, event.session_principal, event.session_id) for event in events] == [
        ("session_opened", whose, "s"),
        ("claimed", whose, "s"),
    ]
    assert list(system.other.events(session_id="nobody/s")) == []
    assert system.store.verify().is_sound


def test_unknown_sessions_are_not_found(system: System) -> None:
    with pytest.raises(NotFound):
        system.store.get_session("nobody/s")
    with pytest.raises(NotFound):
        system.store.get_session("unknown")
    with pytest.raises(NotFound):
        system.store.claim_job("job", session_id="unknown")
