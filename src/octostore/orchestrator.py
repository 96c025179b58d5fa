"""Sessions and tasks in an orchestrator's terms: durable sessions that run one task at a time.

A task is a job in a queue, a lock token is a lease id, and a session's state is its durable context. This module only
translates these terms; the rules are those of `OctoStore`.
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
"""The parts of the state that are keys of the session's context."""


class SessionState(Reply, frozen=True):
    """A session's state, for the agent that resumes it."""

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
    """The event that saved the state; `events_since` returns what came after it."""
    context: Any
    """The session's whole context, which includes the fields from `last_action` to `context_hash`."""
    offered: bool
    """Whether it was handed over to `agent`, which has not opened it yet."""
    note: str | None
    """The note from the agent that handed it over."""
    tasks: list[str]
    """The task that it has now, if any."""
    in_flight: list[str]
    """Tasks it had when it was lost, and has not claimed again."""
    heartbeat_at: datetime
    expires_at: datetime


class TaskClaim(Reply, frozen=True):
    """The reply to `claim_task`: `claimed`, `held` (by `agent`), or `empty` (there is no task)."""

    status: Literal["claimed", "held", "empty"]
    session_id: str
    agent: str | None = None
    task_id: str | None = None
    lock_token: str | None = None
    """The secret for the session and its task."""
    kind: str | None = None
    payload: Any = None
    checkpoint: Any = None
    attempt: int | None = None
    fencing_token: int | None = None
    expires_at: datetime | None = None
    retry_after_ms: int | None = None
    phase: Phase | None = None
    context: Any = None
    """The session's context as it was last saved."""
    note: str | None = None
    """The note from the agent that handed the session over."""
    in_flight: list[InFlight] = msgspec.field(default_factory=list)
    """What the session was working on when it was lost."""
    replayed: bool = False
    """Whether the call repeated an earlier one, and got the same task."""


class TaskStory(Reply, frozen=True):
    """A task as it is now, and its events."""

    task: JobView
    events: list[Event]


class Orchestrator:
    """Tasks for sessions, on any store. Safe to use from many threads.

    Args:
        store: The store to use.
        queue: The queue for tasks that any session may claim.

    Example:
        >>> from octostore.orchestrator import Orchestrator
        >>> orchestrator = Orchestrator(store)
        >>> _ = orchestrator.enqueue_task("review", {"pull": 12})
        >>> claim = orchestrator.claim_task("main", "agent-3")
        >>> claim.status, claim.payload
        ('claimed', {'pull': 12})
    """

    def __init__(self, store: OctoStore, *, queue: str = QUEUE) -> None:
        self.store = store
        self._queue = queue

    @classmethod
    def open(cls) -> Self:
        """Open or create the file that `ORCH_DB_PATH` names, by default `~/.openclaw/data/orchestrator.db`.

        Returns:
            The orchestrator.

        Raises:
            Unreachable: The file cannot be used; `reason` says why.

        Example:
            >>> from octostore.orchestrator import Orchestrator
            >>> with Orchestrator.open() as orchestrator:
            ...     orchestrator.health().status
            'ok'
        """
        path = Path(os.environ.get(PATH_VARIABLE) or Path.home() / DEFAULT_PATH).absolute()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            problem = f"the folder {path.parent} cannot be created: {error.strerror or error}"
            raise Unreachable(f"{problem}; set {PATH_VARIABLE} to another file", reason="io") from error
        local = open_store(f"sqlite:///{quote(str(path))}")
        local.create()
        return cls(OctoStore(EmbeddedPort(local)))

    def close(self) -> None:
        """Close the store.

        Example:
            >>> orchestrator.close()
        """
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
        """Enqueue a task, for one session or for the first one that claims it.

        Args:
            kind: What to do. Sessions can select tasks by kind.
            payload: Any JSON value up to 256 KiB.
            session_id: The only session that may claim it. By default, any may.
            task_id: The task's name. Generated by default; choose one to make repeats harmless.
            priority: -1,000 to 1,000; lower numbers run first.
            run_at: The earliest time to run the task; include a time zone.
            max_attempts: Attempts before the task is dead.

        Returns:
            The task's name. `created` is False, and nothing changed, if the task was already enqueued or done.

        Example:
            >>> orchestrator.enqueue_task("review", {"pull": 12}, task_id="review-12").created
            True
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
        wait: float | None = 0,
        request_id: str | None = None,
    ) -> TaskClaim:
        """Open a session and claim its next task: one of its own, or else one that any session may claim.

        Args:
            session_id: The session to open or resume.
            agent: Who you are, for people to read.
            kind: Claim only tasks of this kind.
            ttl: Seconds until the session expires without a `heartbeat`.
            max_silence: Seconds without a `checkpoint` after which the task counts as stuck.
            wait: Seconds to wait for a task. None waits forever.
            request_id: Makes a retry safe: the same id gets the same task again.

        Returns:
            `claimed`, with the task and a `lock_token`; `held` if another agent has the session; or `empty`.

        Raises:
            LeaseLost: You passed a `request_id` whose claim has ended.

        Example:
            >>> orchestrator.claim_task("main", "agent-3").status
            'empty'
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
        """Prove you are alive, for the session and its task.

        Args:
            session_id: The session.
            lock_token: The `lock_token` that `claim_task` returned.

        Returns:
            The new `expires_at`, and whether you should stop (`stop_requested`) or seem stuck (`stuck_jobs`).

        Raises:
            LeaseLost: The session has ended, or another agent has it now.

        Example:
            >>> _ = orchestrator.enqueue_task("review")
            >>> claim = orchestrator.claim_task("main", "agent-3")
            >>> orchestrator.heartbeat("main", claim.lock_token).stop_requested
            {}
        """
        return self.store.keep_session_alive(session_id, lock_token)

    def checkpoint(self, task_id: str, lock_token: str, data: Any) -> CheckpointReply:
        """Save state for the agent that takes over the task.

        Args:
            task_id: The task.
            lock_token: The `lock_token` that `claim_task` returned.
            data: Any JSON value up to 64 KiB. It replaces the last checkpoint.

        Returns:
            When the checkpoint was saved.

        Raises:
            LeaseLost: The task is no longer yours.

        Example:
            >>> _ = orchestrator.enqueue_task("review", task_id="review-12")
            >>> claim = orchestrator.claim_task("main", "agent-3")
            >>> _ = orchestrator.checkpoint("review-12", claim.lock_token, {"file": 3})
        """
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
        """Settle the task and close the session, in one step.

        Args:
            session_id: The session.
            task_id: The task.
            lock_token: The `lock_token` that `claim_task` returned.
            result: Any JSON value up to 64 KiB, only with `done`.
            outcome: `done`, `failed` (retried, then dead), `deferred` or `released`.
            error: What went wrong, only with `failed`.
            note: A note for the next agent.
            retry_after: Seconds until the task can be claimed again, only with `deferred` or `failed`.

        Returns:
            The task's new `status`.

        Raises:
            LeaseLost: The task is no longer yours.

        Example:
            >>> _ = orchestrator.enqueue_task("review", task_id="review-12")
            >>> claim = orchestrator.claim_task("main", "agent-3")
            >>> orchestrator.release_task("main", "review-12", claim.lock_token, "approved").status
            'done'
        """
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
        """Run a handler for one task after another, while a thread sends heartbeats. See `OctoStore.work`.

        Args:
            session_id: The session to work in.
            agent: Who you are, for people to read.
            handler: Called with each task's claim. Its return value is the result.
            kind: Claim only tasks of this kind.
            ttl: Seconds until the session expires if heartbeats stop.
            max_silence: Seconds without progress after which a task counts as stuck.
            stop: An event that ends the loop once the handler has finished.
            until_empty: Also end when no task can be claimed now.

        Returns:
            The number of tasks handled.

        Raises:
            Unreachable: Only with `until_empty`, or if the store was closed.

        Example:
            >>> _ = orchestrator.enqueue_task("review", {"pull": 12})
            >>> orchestrator.work("main", "agent-3", lambda claim: "approved", until_empty=True)
            1
        """
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
        """Read a session's state.

        Args:
            session_id: The session.

        Returns:
            The state, as it was last saved.

        Raises:
            NotFound: There is no such session.

        Example:
            >>> session = store.open_session("agent-3", session_id="main")
            >>> orchestrator.session_state("main").phase
            'idle'
        """
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
        """Save a session's state. What you leave out stays as it is.

        Args:
            session_id: The session.
            lock_token: The session's lease.
            phase: `idle`, `planning`, `executing`, `blocked`, `done` or `error`.
            last_action: What the session did last.
            next_action: What it will do next.
            turn: The number of the current turn.
            memory_ref: Where its memory is kept.
            context_hash: A hash of its context. Defaults to the SHA-256 of everything else in the state.
            more: Other keys to save in the context.

        Returns:
            The new state.

        Raises:
            LeaseLost: The session has ended.
            Conflict: This phase cannot follow the last one.

        Example:
            >>> session = store.open_session("agent-3", session_id="main")
            >>> state = orchestrator.save_state("main", session.reply.lease_id, phase="planning", turn=4)
            >>> state.phase, state.turn
            ('planning', 4)
        """
        said = {
            "last_action": last_action,
            "next_action": next_action,
            "turn": turn,
            "memory_ref": memory_ref,
            **(more or {}),
        }
        before = self.store.get_session(session_id).context
        context = {**before, **_without_nones(said)} if isinstance(before, dict) else _without_nones(said)
        context.pop("context_hash", None)
        context["context_hash"] = context_hash or hash_of(context)
        self.store.save_session(session_id, lock_token, context, phase=phase)
        return self.session_state(session_id)

    def events_since(self, session_id: str, seq: int | None = None) -> list[Event]:
        """Read what happened to a session and its tasks.

        Args:
            session_id: The session.
            seq: Only events after this one. Defaults to the event that last saved the state.

        Returns:
            The events, oldest first.

        Raises:
            NotFound: There is no such session.

        Example:
            >>> session = store.open_session("agent-3", session_id="main")
            >>> [event.type for event in orchestrator.events_since("main")]
            ['session_opened']
        """
        after = self.session_state(session_id).checkpoint_seq if seq is None else seq
        return list(self.store.events(after or 0, session_id=session_id))

    def hand_over(
        self, session_id: str, to_agent: str, note: str | None = None, *, lock_token: str | None = None
    ) -> HandedOverReply:
        """Pass a session on, with its state and its task. `to_agent` gets them from `claim_task`.

        Args:
            session_id: The session.
            to_agent: The agent that may open the session.
            note: A note for that agent.
            lock_token: The session's lease. Only operators can omit it.

        Returns:
            The deadline for opening the session (`expires_at`).

        Raises:
            LeaseLost: The session has ended.
            NotFound: There is no such session.

        Example:
            >>> session = store.open_session("agent-3", session_id="main")
            >>> orchestrator.hand_over("main", "agent-4").agent
            'agent-4'
        """
        return self.store.hand_over(session_id, to_agent, note, lease_id=lock_token)

    def stale_recovery(self, agent: str) -> list[Recovery]:
        """Take back the tasks of sessions that have expired. Their state is kept for the next agent.

        Args:
            agent: Who you are, for this process's log.

        Returns:
            The tasks that were taken back, with the evidence.

        Raises:
            NotAllowed: Your token is not an operator's.

        Example:
            >>> orchestrator.stale_recovery("agent-3")
            []
        """
        recovered = [one for one in self.store.recover() if one.session_id is not None]
        for one in recovered:
            log.info("%s took %s back from %s of session %s", agent, one.job_id, one.owner, one.session_id)
        return recovered

    # What waits for a person

    def dead_letters(self) -> list[JobView]:
        """List the tasks that exhausted their attempts or were cancelled, and wait for a person.

        Returns:
            The tasks, sorted by name, without payload or result; `task_story` returns those.

        Example:
            >>> orchestrator.dead_letters()
            []
        """
        return [job for job in self.store.dead_jobs() if self._is_task(job)]

    def task_story(self, task_id: str) -> TaskStory:
        """Read a task with its payload, earlier attempts and events.

        Args:
            task_id: The task.

        Returns:
            The task and its events.

        Example:
            >>> _ = orchestrator.enqueue_task("review", task_id="review-12")
            >>> [event.type for event in orchestrator.task_story("review-12").events]
            ['enqueued']
        """
        return TaskStory(task=self.store.get_job(task_id), events=list(self.store.events(job_id=task_id)))

    def requeue(self, task_id: str, *, reason: str | None = None, keep_attempts: bool = False) -> JobView:
        """Run a dead or finished task again.

        Args:
            task_id: The task.
            reason: Shown in the log.
            keep_attempts: Give it one more attempt instead of a full set.

        Returns:
            The task as it is now.

        Raises:
            NotFound: There is no such task.
            Conflict: The task is claimed.

        Example:
            >>> _ = orchestrator.enqueue_task("review", task_id="review-12")
            >>> _ = store.cancel("review-12")
            >>> orchestrator.requeue("review-12").status
            'queued'
        """
        return self.store.requeue(task_id, reason=reason, keep_attempts=keep_attempts)

    def discard(self, task_id: str, *, reason: str | None = None) -> JobView:
        """Drop a dead task.

        Args:
            task_id: The task.
            reason: Shown in the log.

        Returns:
            The task, now `free`.

        Raises:
            NotFound: There is no such task.
            Conflict: The task is not dead.

        Example:
            >>> _ = orchestrator.enqueue_task("review", task_id="review-12")
            >>> _ = store.cancel("review-12")
            >>> orchestrator.discard("review-12").status
            'free'
        """
        return self.store.discard(task_id, reason=reason)

    def health(self, thresholds: Thresholds | None = None) -> Health:
        """Judge whether work is getting done. See `OctoStore.health`.

        Args:
            thresholds: The counts at which the status changes.

        Returns:
            The status, its reasons, and the counts behind it.

        Example:
            >>> orchestrator.health().status
            'ok'
        """
        return self.store.health(thresholds)

    def _queues_of(self, session_id: str) -> list[str]:
        return [own_queue(session_id), self._queue]

    def _is_task(self, job: JobView) -> bool:
        return job.queue is not None and (job.queue == self._queue or job.queue.startswith(OWN_QUEUE_PREFIX))


def own_queue(session_id: str) -> str:
    """Name the queue for the tasks that only one session may claim.

    Args:
        session_id: The session.

    Returns:
        The queue's name.

    Raises:
        InvalidInput: The id is too long for a queue's name.

    Example:
        >>> octostore.orchestrator.own_queue("main")
        'session.main'
    """
    queue = OWN_QUEUE_PREFIX + session_id
    if len(queue.encode()) > NAME_COMPONENT_BYTES:
        limit = NAME_COMPONENT_BYTES - len(OWN_QUEUE_PREFIX)
        size = len(session_id.encode())
        raise InvalidInput("session_id", f"is {size} bytes; for a session with tasks the limit is {limit}", limit=limit)
    return queue


def hash_of(context: Any) -> str:
    """Hash a context, independently of the order of its keys.

    Args:
        context: Any JSON value.

    Returns:
        The SHA-256 in hexadecimal.

    Example:
        >>> hash_of = octostore.orchestrator.hash_of
        >>> hash_of({"a": 1, "b": 2}) == hash_of({"b": 2, "a": 1})
        True
    """
    return hashlib.sha256(msgspec.json.encode(context, order="deterministic")).hexdigest()


def _without_nones(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if value is not None}


def _task_claim(session_id: str, reply: ClaimReply) -> TaskClaim:
    session: Any = reply.session
    shared = ("kind", "payload", "checkpoint", "attempt", "fencing_token", "expires_at", "retry_after_ms", "replayed")
    fields: dict[str, Any] = {name: getattr(reply, name) for name in shared}
    if session is not None:
        fields |= {name: getattr(session, name) for name in ("phase", "context", "note", "in_flight")}
    return TaskClaim(
        status=reply.status if reply.status in {"claimed", "held"} else "empty",
        session_id=session_id,
        agent=reply.owner,
        task_id=reply.job_id,
        lock_token=reply.lease_id,
        **fields,
    )


def _state(session: SessionView) -> SessionState:
    kept = session.context if isinstance(session.context, dict) else {}
    said: dict[str, Any] = {name: kept.get(name) for name in _KEPT}
    known = {name: getattr(session, name) for name in SessionState.__struct_fields__ if hasattr(session, name)}
    return SessionState(**said, **known, checkpoint_seq=session.context_seq, tasks=session.jobs)
