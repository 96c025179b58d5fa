"""Every call can arrive twice, late, and out of order, on every store and client: the table in docs/guarantees.md.

Each command is sent again unchanged, as a network or a client would do it: at once (*twice*), after its claim or
session has ended or has moved on (*late*), or after a newer command (*reordered*).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from octostore import Conflict, Held, LeaseLost, OctoStoreError
from octostore.core import commands as c
from octostore.core.commands import Command
from octostore.core.replies import ClaimReply, SessionReply
from octostore.stores.ids import new_token_id
from tests.conformance.conftest import System

GUARANTEES = Path(__file__).parents[2] / "docs" / "guarantees.md"


class Trial:
    """A store, and names that nothing else in it uses."""

    def __init__(self, system: System, name: str) -> None:
        self.system = system
        self.store = system.store
        self.job = name
        self.queue = f"queue-of-{name}"
        self.session = f"session-of-{name}"

    def send(self, command: Command[Any]) -> Any:
        """Send the command unchanged, with its ids and numbers, like a network that delivers it again."""
        execute = self.store._port.execute
        loop = getattr(self.store, "_loop", None)
        return execute(command) if loop is None else loop.run(execute(command))

    @contextmanager
    def nothing_happens(self) -> Iterator[None]:
        before = self._state()
        yield
        assert self._state() == before

    def _state(self) -> Any:
        job = self.store.get_job(self.job)
        return job, [event.seq for event in self.store.events()]

    def is_lost(self, command: Command[Any]) -> LeaseLost:
        """Check that the command is refused and changes nothing."""
        with self.nothing_happens(), pytest.raises(LeaseLost) as caught:
            self.send(command)
        return caught.value

    def has_ended(self, command: Command[Any], how: str) -> None:
        """Check that the command is refused, and that the error says how the claim ended."""
        lost = self.is_lost(command)
        assert lost.ended is not None
        assert lost.ended.how == how

    def is_repeat(self, command: Command[Any], *replies: Any) -> None:
        """Check that the command gets one of these replies and changes nothing."""
        with self.nothing_happens():
            assert self.send(command) in replies

    def claimed(self) -> ClaimReply:
        return self.store.claim_job(self.job, owner="ann", ttl=60)

    def opened(self) -> SessionReply:
        return self.store.open_session("ann", session_id=self.session, ttl=60).reply

    def enqueue(self, job_id: str | None = None, **terms: Any) -> None:
        self.store.enqueue("build", job_id=job_id or self.job, queue=self.queue, **terms)


def is_replay(first: ClaimReply, second: ClaimReply) -> bool:
    return second.replayed and (second.status, second.lease_id, second.fencing_token) == (
        "claimed",
        first.lease_id,
        first.fencing_token,
    )


# Claiming


def claim_job(trial: Trial) -> None:
    command = c.ClaimJob(job_id=trial.job, owner="ann", request_id=f"r-{trial.job}", ttl=60)
    first = trial.send(command)
    assert is_replay(first, trial.send(command))
    trial.store.release_job(trial.job, first.lease_id)
    trial.has_ended(command, "released")
    other = trial.claimed()
    lost = trial.is_lost(command)
    assert lost.holder is not None
    assert lost.holder.fencing_token == other.fencing_token
    trial.store.release_job(trial.job, other.lease_id or "", outcome="done", result=1)
    assert (trial.send(command).status, trial.send(command).result) == ("done", 1)
    expiring = c.ClaimJob(job_id=f"{trial.job}-2", owner="ann", request_id=f"r-{trial.job}", ttl=1)
    trial.send(expiring)
    trial.system.advance(2)
    trial.store.recover()
    trial.has_ended(expiring, "expired")
    plain = c.ClaimJob(job_id=f"{trial.job}-3", owner="ann")
    first = trial.send(plain)
    assert (trial.send(plain).status, trial.send(plain).owner) == ("held", "ann"), (
        "without a request id, it looks like another call"
    )
    trial.store.release_job(f"{trial.job}-3", first.lease_id)
    assert trial.send(plain).fencing_token != first.fencing_token


def claim_next(trial: Trial) -> None:
    trial.enqueue()
    trial.enqueue(f"{trial.job}-2")
    command = c.ClaimNext(queue=trial.queue, owner="ann", request_id=f"r-{trial.job}", ttl=60)
    first = trial.send(command)
    assert is_replay(first, trial.send(command))
    trial.store.release_job(trial.job, first.lease_id, outcome="done")
    trial.has_ended(command, "done")
    assert trial.store.claim_next(trial.queue).job_id == f"{trial.job}-2", "another request gets another job"


def claim_task(trial: Trial) -> None:
    trial.enqueue()
    trial.enqueue(f"{trial.job}-2")
    command = c.ClaimTask(session_id=trial.session, owner="ann", queues=(trial.queue,), request_id=f"r-{trial.job}")
    first = trial.send(command)
    assert is_replay(first, trial.send(command))
    trial.store.release_task(trial.session, trial.job, first.lease_id)
    trial.is_lost(command)
    assert trial.store.get_session(trial.session).status == "closed"


def undo(trial: Trial) -> None:
    claim = trial.claimed()
    command = c.Undo(job_id=trial.job, lease_id=claim.lease_id or "")
    assert trial.send(command).undone
    with trial.nothing_happens():
        assert trial.send(command).undone
    trial.has_ended(c.HeartbeatJob(job_id=trial.job, lease_id=claim.lease_id or ""), "undone")
    known = c.ClaimJob(job_id=trial.job, owner="ann", request_id=f"r-{trial.job}")
    first = trial.send(known)
    trial.send(known)
    late = c.Undo(job_id=trial.job, lease_id=first.lease_id)
    with trial.nothing_happens():
        assert not trial.send(late).undone, "somebody knows of the claim"
    trial.store.release_job(trial.job, first.lease_id)
    with trial.nothing_happens():
        assert not trial.send(late).undone


# Owning


def heartbeat_job(trial: Trial) -> None:
    claim = trial.claimed()
    older = c.HeartbeatJob(job_id=trial.job, lease_id=claim.lease_id or "", ttl=10, note="older", number=1)
    newer = c.HeartbeatJob(job_id=trial.job, lease_id=claim.lease_id or "", ttl=90, note="newer", number=2)
    trial.send(older)
    reply = trial.send(newer)
    trial.is_repeat(newer, reply)
    trial.is_repeat(older, reply)
    plain = c.HeartbeatJob(job_id=trial.job, lease_id=claim.lease_id or "")
    assert trial.send(plain).remaining_ms == trial.send(plain).remaining_ms == 90_000
    trial.store.release_job(trial.job, claim.lease_id or "")
    trial.has_ended(newer, "released")


def checkpoint_job(trial: Trial) -> None:
    claim = trial.claimed()
    older = c.CheckpointJob(job_id=trial.job, lease_id=claim.lease_id or "", data=b"1", number=1)
    newer = c.CheckpointJob(job_id=trial.job, lease_id=claim.lease_id or "", data=b"2", number=2)
    trial.send(older)
    reply = trial.send(newer)
    trial.is_repeat(newer, reply)
    trial.is_repeat(older, reply)
    trial.store.release_job(trial.job, claim.lease_id or "")
    trial.has_ended(older, "released")
    successor = trial.claimed()
    assert successor.checkpoint == 2
    own = c.CheckpointJob(job_id=trial.job, lease_id=successor.lease_id or "", data=b"3", number=1)
    assert trial.send(own).number == 1, "the next owner starts its own numbering"


def release_job(trial: Trial) -> None:
    claim = trial.claimed()
    command = c.ReleaseJob(job_id=trial.job, lease_id=claim.lease_id or "", outcome="failed", error="no")
    reply = trial.send(command)
    trial.is_repeat(command, reply)
    other = trial.claimed()
    trial.is_repeat(command, reply)
    trial.has_ended(c.ReleaseJob(job_id=trial.job, lease_id=claim.lease_id or "", outcome="done"), "failed")
    assert trial.store.release_job(trial.job, other.lease_id or "").fencing_token == other.fencing_token


def release_task(trial: Trial) -> None:
    trial.enqueue()
    claim = trial.store.claim_task(trial.session, "ann", queues=[trial.queue])
    command = c.ReleaseTask(session_id=trial.session, job_id=trial.job, lease_id=claim.lease_id or "", outcome="done")
    reply = trial.send(command)
    trial.is_repeat(command, reply)
    trial.opened()
    trial.is_repeat(command, reply)
    assert trial.store.get_session(trial.session).status == "open", "it was opened again since"


# Queues


def enqueue(trial: Trial) -> None:
    command = c.Enqueue(job_id=trial.job, kind="build", queue=trial.queue, payload=b"1")
    assert trial.send(command).created
    with trial.nothing_happens():
        assert not trial.send(command).created
    claim = trial.store.claim_next(trial.queue)
    trial.store.release_job(trial.job, claim.lease_id or "", outcome="done")
    with trial.nothing_happens():
        assert not trial.send(command).created, "finished work stays finished"


def cancel(trial: Trial) -> None:
    trial.enqueue()
    command = c.CancelJob(job_id=trial.job)
    trial.is_repeat(command, trial.send(command))
    trial.store.requeue(trial.job)
    claim = trial.store.claim_next(trial.queue)
    trial.is_repeat(command, trial.send(command))
    trial.has_ended(c.HeartbeatJob(job_id=trial.job, lease_id=claim.lease_id or ""), "cancelled")


def cancel_with_drain(trial: Trial) -> None:
    trial.enqueue()
    command = c.CancelJob(job_id=trial.job, drain=True)
    first = trial.store.claim_next(trial.queue)
    trial.is_repeat(command, trial.send(command))
    trial.store.release_job(trial.job, first.lease_id or "")
    trial.is_repeat(command, trial.store.get_job(trial.job))
    trial.store.requeue(trial.job)
    second = trial.store.claim_next(trial.queue)
    assert trial.send(command).status == "claimed"
    assert trial.store.heartbeat_job(trial.job, second.lease_id or "").stop_requested is not None, (
        "the next owner is asked"
    )


def requeue(trial: Trial) -> None:
    trial.enqueue()
    trial.store.cancel(trial.job)
    command = c.RequeueJob(job_id=trial.job)
    trial.is_repeat(command, trial.send(command))
    trial.store.claim_next(trial.queue)
    with trial.nothing_happens(), pytest.raises(Conflict):
        trial.send(command)
    trial.store.cancel(trial.job)
    assert trial.send(command).status == "queued", "it has died again, of something else"


def discard(trial: Trial) -> None:
    trial.enqueue()
    trial.store.cancel(trial.job)
    command = c.DiscardJob(job_id=trial.job)
    trial.is_repeat(command, trial.send(command))
    trial.enqueue()
    with trial.nothing_happens(), pytest.raises(Conflict):
        trial.send(command)
    trial.store.cancel(trial.job)
    assert trial.send(command).status == "free"


def requeue_matching(trial: Trial) -> None:
    _matching(trial, c.RequeueMatching(queue=trial.queue, reason="fixed"))


def discard_matching(trial: Trial) -> None:
    _matching(trial, c.DiscardMatching(queue=trial.queue, reason="gone"))


def _matching(trial: Trial, command: c.MatchingCommand) -> None:
    trial.enqueue()
    trial.store.cancel(trial.job)
    assert trial.send(command).changed == 1
    with trial.nothing_happens():
        assert trial.send(command).changed == 0
    trial.enqueue()
    trial.store.cancel(trial.job)
    assert trial.send(command).changed == 1, "it has died again"


def force_release(trial: Trial) -> None:
    claim = trial.claimed()
    command = c.ForceReleaseJob(job_id=trial.job, reason="stuck")
    trial.is_repeat(command, trial.send(command))
    trial.has_ended(c.HeartbeatJob(job_id=trial.job, lease_id=claim.lease_id or ""), "force_released")
    other = trial.claimed()
    trial.send(command)
    trial.has_ended(c.HeartbeatJob(job_id=trial.job, lease_id=other.lease_id or ""), "force_released")


def request_stop(trial: Trial) -> None:
    trial.claimed()
    command = c.RequestStop(job_id=trial.job, reason="not now")
    trial.is_repeat(command, trial.send(command))
    trial.store.force_release(trial.job)
    with trial.nothing_happens(), pytest.raises(Conflict):
        trial.send(command)
    other = trial.claimed()
    trial.send(command)
    assert trial.store.heartbeat_job(trial.job, other.lease_id or "").stop_requested is not None, (
        "the next owner is asked"
    )


def limit_queue(trial: Trial) -> None:
    command = c.SetQueue(queue=trial.queue, max_claimed=3)
    trial.is_repeat(command, trial.send(command))
    trial.store.limit_queue(trial.queue, 5)
    assert trial.send(command).max_claimed == 3


def set_queue(trial: Trial) -> None:
    command = c.SetQueue(queue=trial.queue, paused=True, reason="deploying")
    trial.is_repeat(command, trial.send(command))
    trial.store.set_queue(trial.queue, paused=False)
    assert trial.send(command).paused


# Sessions


def open_session(trial: Trial) -> None:
    command = c.OpenSession(session_id=trial.session, agent="ann", ttl=60, request_id=f"r-{trial.job}")
    first = trial.send(command)
    second = trial.send(command)
    assert (second.replayed, second.lease_id) == (True, first.lease_id)
    trial.send(c.CloseSession(session_id=trial.session, lease_id=first.lease_id))
    trial.is_lost(command)
    trial.store.open_session("bob", session_id=trial.session)
    trial.is_lost(command)
    with trial.nothing_happens(), pytest.raises(Held):
        trial.send(c.OpenSession(session_id=trial.session, agent="ann", request_id="another"))


def keep_session_alive(trial: Trial) -> None:
    session = trial.opened()
    command = c.KeepSessionAlive(session_id=trial.session, lease_id=session.lease_id)
    assert trial.send(command).remaining_ms == trial.send(command).remaining_ms == 60_000
    trial.send(c.CloseSession(session_id=trial.session, lease_id=session.lease_id))
    trial.is_lost(command)


def save_session(trial: Trial) -> None:
    session = trial.opened()
    older = c.SaveSession(session_id=trial.session, lease_id=session.lease_id, context=b"1", phase="planning", number=1)
    newer = c.SaveSession(
        session_id=trial.session, lease_id=session.lease_id, context=b"2", phase="executing", number=2
    )
    trial.send(older)
    reply = trial.send(newer)
    trial.is_repeat(newer, reply)
    trial.is_repeat(older, reply)
    view = trial.store.get_session(trial.session)
    assert (view.context, view.phase) == (2, "executing")
    trial.send(c.CloseSession(session_id=trial.session, lease_id=session.lease_id))
    trial.is_lost(newer)


def hand_over(trial: Trial) -> None:
    session = trial.opened()
    command = c.HandOverSession(session_id=trial.session, lease_id=session.lease_id, to_agent="bob")
    trial.is_repeat(command, trial.send(command))
    taken = trial.store.open_session("bob", session_id=trial.session)
    with trial.nothing_happens():
        assert trial.send(command).agent == "bob"
    taken.close()
    trial.store.open_session("carol", session_id=trial.session)
    trial.is_lost(command)


def close_session(trial: Trial) -> None:
    session = trial.opened()
    command = c.CloseSession(session_id=trial.session, lease_id=session.lease_id)
    trial.is_repeat(command, trial.send(command))
    trial.opened()
    trial.is_lost(command)
    assert trial.store.get_session(trial.session).status == "open"


def hand_over_by_an_operator(trial: Trial) -> None:
    trial.opened()
    command = c.HandOverSession(session_id=trial.session, to_agent="bob")
    trial.is_repeat(command, trial.send(command))
    taken = trial.store.open_session("bob", session_id=trial.session)
    assert trial.send(command).agent == "bob"
    trial.is_lost(c.KeepSessionAlive(session_id=trial.session, lease_id=taken.reply.lease_id))


def close_session_by_an_operator(trial: Trial) -> None:
    trial.opened()
    command = c.CloseSession(session_id=trial.session)
    trial.is_repeat(command, trial.send(command))
    other = trial.opened()
    trial.send(command)
    trial.is_lost(c.KeepSessionAlive(session_id=trial.session, lease_id=other.lease_id))


# Tokens, and the store itself


def create_token(trial: Trial) -> None:
    command = c.CreateToken(token_id=new_token_id(), name=trial.job, digest=trial.job.encode().ljust(32, b"."))
    trial.is_repeat(command, trial.send(command))
    trial.store.revoke_token(command.token_id)
    with trial.nothing_happens():
        assert trial.send(command).revoked_at is not None, "it stays revoked"


def revoke_token(trial: Trial) -> None:
    made = trial.store.create_token(trial.job)
    command = c.RevokeToken(token_id=made.token_id)
    trial.is_repeat(command, trial.send(command))


def recover(trial: Trial) -> None:
    trial.store.claim_job(trial.job, ttl=1)
    trial.system.advance(2)
    assert [one.job_id for one in trial.send(c.Recover()).recovered] == [trial.job]
    with trial.nothing_happens():
        assert trial.send(c.Recover()).recovered == []


CALLS = [
    claim_job,
    claim_next,
    claim_task,
    undo,
    heartbeat_job,
    checkpoint_job,
    release_job,
    release_task,
    enqueue,
    cancel,
    cancel_with_drain,
    requeue,
    discard,
    requeue_matching,
    discard_matching,
    force_release,
    request_stop,
    limit_queue,
    set_queue,
    open_session,
    keep_session_alive,
    save_session,
    hand_over,
    close_session,
    hand_over_by_an_operator,
    close_session_by_an_operator,
    create_token,
    revoke_token,
    recover,
]


def test_every_call_can_arrive_twice(system: System, subtests: pytest.Subtests) -> None:
    for call in CALLS:
        with subtests.test(call.__name__):
            try:
                call(Trial(system, call.__name__.replace("_", "-")))
            except OctoStoreError as error:
                raise AssertionError(call.__name__) from error


def test_the_table_names_every_call() -> None:
    section = GUARANTEES.read_text(encoding="utf-8").partition("## Repeating calls")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named >= {re.split("_by_|_with_", call.__name__)[0] for call in CALLS}
