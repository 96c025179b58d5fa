"""Sessions and tasks in the words of an orchestrator: durable sessions that run one task at a time.

A task is a job of a queue, a lock token is a lease, and the state of a session is its durable context. This only
translates: every rule is the core's.
"""

import hashlib
import logging
import os
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote

import msgspec

from octostore.client.embedded import EmbeddedPort
from octostore.client.hold import HeldClaim
from octostore.client.store import OctoStore
from octostore.core.errors import InvalidInput, Unreachable
from octostore.core.events import Event
from octostore.core.health import Health, Thresholds
from octostore.core.limits import MAX_ATTEMPTS_DEFAULT, NAME_COMPONENT_BYTES, PRIORITY_DEFAULT, TTL_DEFAULT_SECONDS
from octostore.core.model import Outcome, Phase, SessionStatus
from octostore.core.replies import (
    CheckpointReply,
    ClaimReply,
    EnqueueReply,
    HandedOverReply,
    InFlight,
    JobView,
    KeepaliveReply,
    Recovery,
    ReleaseReply,
    Reply,
    SessionView,
)
from octostore.stores.store import open_store

log = logging.getLogger("octostore.orchestrator")

PATH_VARIABLE = "ORCH_DB_PATH"
DEFAULT_PATH = Path(".openclaw") / "data" / "orchestrator.db"
QUEUE = "tasks"
OWN_QUEUE_PREFIX = "session."
_KEPT = ("last_action", "next_action", "turn", "memory_ref", "context_hash")
"""What of the state is kept in the session's context."""


class SessionState(Reply, frozen=True):
    """What is known of a session, for whoever resumes it.

    `checkpoint_seq` is the event with which the state was saved: what came after it is `events_since`.
    """

    session_id: str
    agent: str
    status: SessionStatus
    phase: Phase
    last_action: str | None
    next_action: str | None
    turn: int | None
    memory_ref: str | None
    context_hash: str | None
    checkpoint_seq: int | None
    context: Any
    offered: bool
    """Handed over to `agent`, who has not taken it yet."""
    note: str | None
    tasks: list[str]
    in_flight: list[str]
    heartbeat_at: datetime
    expires_at: datetime


class TaskClaim(Reply, frozen=True):
    """`claimed`, with the task and the session's `lock_token`; `held`, by `agent`; or `empty`: there is no task.

    `context` is the session's as it was saved last, and `in_flight` what it was working on when it was lost.
    """

    status: Literal["claimed", "held", "empty"]
    session_id: str
    agent: str | None = None
    task_id: str | None = None
    lock_token: str | None = None
    kind: str | None = None
    payload: Any = None
    checkpoint: Any = None
    attempt: int | None = None
    fencing_token: int | None = None
    expires_at: datetime | None = None
    retry_after_ms: int | None = None
    phase: Phase | None = None
    context: Any = None
    note: str | None = None
    in_flight: list[InFlight] = msgspec.field(default_factory=list)
    replayed: bool = False


class TaskStory(Reply, frozen=True):
    """A task as it stands, and all that happened to it."""

    task: JobView
    events: list[Event]


class Orchestrator:
    """Tasks for sessions, on any store. Safe to use from many threads."""

    def __init__(self, store: OctoStore, *, queue: str = QUEUE) -> None:
        self.store = store
        self._queue = queue

    @classmethod
    def open(cls) -> Self:
        """On the file that `ORCH_DB_PATH` names, by default `~/.openclaw/data/orchestrator.db`."""
        path = Path(os.environ.get(PATH_VARIABLE) or Path.home() / DEFAULT_PATH).absolute()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise Unreachable(
                f"the folder {path.parent} cannot be made: {error}; set {PATH_VARIABLE} to another file", reason="io"
            ) from error
        local = open_store(f"sqlite:///{quote(str(path))}")
        local.create()
        return cls(OctoStore(EmbeddedPort(local)))

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    # Tasks

    def enqueue_task(
        self,
        kind: str,
        payload: Any = None,
        *,
        session_id: str | None = None,
        task_id: str | None = None,
        priority: int = PRIORITY_DEFAULT,
        run_at: datetime | None = None,
        max_attempts: int = MAX_ATTEMPTS_DEFAULT,
    ) -> EnqueueReply:
        """Put a task in line: for one session, or (without `session_id`) for whichever session comes first.

        With the `task_id` of one that is known already nothing happens, and `created` is False.
        """
        return self.store.enqueue(
            kind,
            payload,
            job_id=task_id,
            queue=self._queue if session_id is None else own_queue(session_id),
            priority=priority,
            run_at=run_at,
            max_attempts=max_attempts,
        )

    def claim_task(
        self,
        session_id: str,
        agent: str,
        kind: str | None = None,
        *,
        ttl: float = TTL_DEFAULT_SECONDS,
        max_silence: float | None = None,
        wait: float = 0,
        request_id: str | None = None,
    ) -> TaskClaim:
        """Acquire the session and begin its next task: one of its own first, and then one that is for anybody.

        The session is `agent`'s for `ttl` seconds after each `heartbeat`, and stuck after `max_silence` seconds without
        a `checkpoint`. A retry with the same `request_id` gets the same task again.
        """
        reply = self.store.claim_task(
            session_id,
            agent,
            queues=self._queues_of(session_id),
            kinds=None if kind is None else [kind],
            ttl=ttl,
            max_silence=max_silence,
            wait=wait,
            request_id=request_id,
        )
        return _task_claim(session_id, reply)

    def heartbeat(self, session_id: str, lock_token: str) -> KeepaliveReply:
        """Prove you are alive, for the session and its task. Raises `LeaseLost` if they are somebody else's by now.

        The answer says whether you are to stop (`stop_requested`), and whether you seem to be stuck (`stuck_jobs`).
        """
        return self.store.keep_session_alive(session_id, lock_token)

    def checkpoint(self, task_id: str, lock_token: str, data: Any) -> CheckpointReply:
        """Leave what whoever takes the task over needs to go on from here."""
        return self.store.checkpoint_job(task_id, lock_token, data)

    def release_task(
        self,
        session_id: str,
        task_id: str,
        lock_token: str,
        result: Any = None,
        *,
        outcome: Outcome = "done",
        error: str | None = None,
        note: str | None = None,
        retry_after: float | None = None,
    ) -> ReleaseReply:
        """Settle the task and free the session: `done`, `failed` (retried, then dead), `deferred` or `released`."""
        return self.store.release_task(
            session_id,
            task_id,
            lock_token,
            outcome,
            result=result,
            error=error,
            note=note,
            retry_after=retry_after,
        )

    def work(
        self,
        session_id: str,
        agent: str,
        handler: Callable[[HeldClaim], Any],
        *,
        kind: str | None = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        max_silence: float | None = None,
        stop: threading.Event | None = None,
        until_empty: bool = False,
    ) -> int:
        """Run `handler` for task after task, with heartbeats that it cannot block; see `OctoStore.work`."""
        return self.store.work_session(
            session_id,
            handler,
            agent=agent,
            queues=self._queues_of(session_id),
            kinds=None if kind is None else [kind],
            ttl=ttl,
            max_silence=max_silence,
            stop=stop,
            until_empty=until_empty,
        )

    # Sessions

    def session_state(self, session_id: str) -> SessionState:
        """Raises `NotFound`."""
        return _state(self.store.get_session(session_id))

    def save_state(
        self,
        session_id: str,
        lock_token: str,
        *,
        phase: Phase | None = None,
        last_action: str | None = None,
        next_action: str | None = None,
        turn: int | None = None,
        memory_ref: str | None = None,
        context_hash: str | None = None,
        more: dict[str, Any] | None = None,
    ) -> SessionState:
        """Keep where the session stands. What is not given stays as it is.

        `phase` is checked against the one before. Without a `context_hash` it is the SHA-256 of all the rest, so that
        two who compare notes can see whether they have the same.
        """
        said = {
            "last_action": last_action,
            "next_action": next_action,
            "turn": turn,
            "memory_ref": memory_ref,
            **(more or {}),
        }
        before = self.store.get_session(session_id).context
        context = {**before, **_given(said)} if isinstance(before, dict) else _given(said)
        context.pop("context_hash", None)
        context["context_hash"] = context_hash or hash_of(context)
        self.store.save_session(session_id, lock_token, context, phase=phase)
        return self.session_state(session_id)

    def events_since(self, session_id: str, seq: int | None = None) -> list[Event]:
        """What happened to a session and its tasks after event `seq`, or since its state was saved."""
        after = self.session_state(session_id).checkpoint_seq if seq is None else seq
        return list(self.store.events(after or 0, session_id=session_id))

    def hand_over(
        self, session_id: str, to_agent: str, note: str | None = None, *, lock_token: str | None = None
    ) -> HandedOverReply:
        """Pass the session on, with its state and its task; `to_agent` gets both from `claim_task`."""
        return self.store.hand_over(session_id, to_agent, note, lease_id=lock_token)

    def stale_recovery(self, agent: str) -> list[Recovery]:
        """Take back what sessions had whose heartbeat and lease have both run out, and tell with what evidence.

        Their state stays, for whoever resumes them. `agent` is who did it, for this process's own log.
        """
        recovered = [one for one in self.store.recover() if one.session_id is not None]
        for one in recovered:
            log.info("%s took %s back from %s of session %s", agent, one.job_id, one.owner, one.session_id)
        return recovered

    # What waits for a person

    def dead_letters(self) -> list[JobView]:
        """The tasks that are out of attempts or cancelled."""
        return [job for job in self.store.dead_jobs() if self._is_task(job)]

    def task_story(self, task_id: str) -> TaskStory:
        """A task, with its payload and earlier attempts, and everything that happened to it."""
        return TaskStory(task=self.store.get_job(task_id), events=list(self.store.events(job_id=task_id)))

    def requeue(self, task_id: str, *, reason: str | None = None, keep_attempts: bool = False) -> JobView:
        """Let a dead task run again, with all its attempts or (`keep_attempts`) once more."""
        return self.store.requeue(task_id, reason=reason, keep_attempts=keep_attempts)

    def discard(self, task_id: str, *, reason: str | None = None) -> JobView:
        """Give a dead task up for good."""
        return self.store.discard(task_id, reason=reason)

    def health(self, thresholds: Thresholds | None = None) -> Health:
        """Whether the work gets done; see `OctoStore.health`."""
        return self.store.health(thresholds)

    def _queues_of(self, session_id: str) -> list[str]:
        return [own_queue(session_id), self._queue]

    def _is_task(self, job: JobView) -> bool:
        return job.queue is not None and (job.queue == self._queue or job.queue.startswith(OWN_QUEUE_PREFIX))


def own_queue(session_id: str) -> str:
    """The queue of the tasks that are for one session only."""
    queue = OWN_QUEUE_PREFIX + session_id
    if len(queue.encode()) > NAME_COMPONENT_BYTES:
        limit = NAME_COMPONENT_BYTES - len(OWN_QUEUE_PREFIX)
        size = len(session_id.encode())
        raise InvalidInput("session_id", f"is {size} bytes; for a session with tasks the limit is {limit}", limit=limit)
    return queue


def hash_of(context: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(context, order="deterministic")).hexdigest()


def _given(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if value is not None}


def _task_claim(session_id: str, reply: ClaimReply) -> TaskClaim:
    session: Any = reply.session
    shared = ("kind", "payload", "checkpoint", "attempt", "fencing_token", "expires_at", "retry_after_ms", "replayed")
    told: dict[str, Any] = {name: getattr(reply, name) for name in shared}
    if session is not None:
        told |= {name: getattr(session, name) for name in ("phase", "context", "note", "in_flight")}
    return TaskClaim(
        status=reply.status if reply.status in {"claimed", "held"} else "empty",
        session_id=session_id,
        agent=reply.owner,
        task_id=reply.job_id,
        lock_token=reply.lease_id,
        **told,
    )


def _state(session: SessionView) -> SessionState:
    kept = session.context if isinstance(session.context, dict) else {}
    said: dict[str, Any] = {name: kept.get(name) for name in _KEPT}
    known = {name: getattr(session, name) for name in SessionState.__struct_fields__ if hasattr(session, name)}
    return SessionState(**said, **known, checkpoint_seq=session.context_seq, tasks=session.jobs)
