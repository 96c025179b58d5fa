"""The promises, as clients see them, checked at every change.

The checks compare what clients received (`received_*`, `acknowledged_*`) with what has been committed (`committed`). If
both cannot be true, a promise is broken.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import msgspec

from octostore.core.events import Claimed, Ended, LogEntry, QueueLimited, decode_details
from octostore.core.model import Job, Session
from octostore.core.moments import to_moment
from octostore.core.replies import ClaimReply, ReleaseReply, SessionReply
from octostore.core.session_keys import SessionKey, id_of
from octostore.core.working_set import WorkingSet
from tests.simulation.scheduler import Process, Scheduler
from tests.simulation.story import Story, short

ONE_OWNER = "one owner"
NOT_EARLY = "no lease ends early"
KEPT = "what was acknowledged stays"
AGREES = "a repeated call gets the first reply"
LOG = "the log is the truth"
PAUSED = "a paused queue hands out nothing"
SOUND = "nothing crashes"

MILLISECOND = 0.001
TAKEN = {"force_released", "cancelled"}
"""How operators end claims."""


class PromiseBroken(AssertionError):
    def __init__(self, promise: str, text: str, about: set[str]) -> None:
        super().__init__(f"{promise}: {text}")
        self.promise = promise
        self.about = about
        """The jobs, sessions and clients involved, for the story."""
        self._text = text

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle all arguments, for results from other processes."""
        return type(self), (self.promise, self._text, self.about)


class Belief:
    """A client received a claim or session, and has not begun to release it."""

    def __init__(
        self, key: str, client: str, process: Process, *, lease_id: str, token: int, remaining: Callable[[], float]
    ) -> None:
        self.key = key
        self.client = client
        self.process = process
        self.lease_id = lease_id
        self.token = token
        self.remaining = remaining
        self.is_dropped = False
        self.is_taken = False
        """An operator took it away; the owner learns that at its next heartbeat."""

    def drop(self) -> None:
        """Call this before sending anything that ends it."""
        self.is_dropped = True

    @property
    def is_held(self) -> bool:
        return not self.is_dropped and not self.is_taken and not self.process.is_dead and self.remaining() > 0


class _Facts:
    """What is committed about a job or session, and what clients received."""

    def __init__(self) -> None:
        self.token = 0
        """Of the last claim."""
        self.lease_id = ""
        self.is_claimed = False
        self.is_known = False
        self.ended_at = 0.0
        self.number = 0
        """The number in the last checkpoint or context; clients count up."""
        self.acknowledged = 0
        """The highest number that was acknowledged as saved."""
        self.promised_until: dict[int, int] = {}
        """The last `expires_at` that a client received for each claim, by fencing token."""
        self.stored_until = 0
        """When the last claim expires if it is not renewed; see the session if it is bound to one."""
        self.bound_to = ""
        self.newest_token = 0
        """The highest that a client received."""
        self.beliefs: list[Belief] = []


class Asked(NamedTuple):
    """The state when a client made a call; no reply may be older."""

    key: str
    acknowledged: int
    token: int
    is_known: bool


class Promises:
    def __init__(self, scheduler: Scheduler, story: Story, mute: Collection[str] = ()) -> None:
        self._scheduler = scheduler
        self._story = story
        self._mute = frozenset(mute)
        self.counts: Counter[str] = Counter()
        self.log: list[LogEntry] = []
        self.paused: set[str] = set()
        """Queues."""
        self.facts: dict[str, _Facts] = defaultdict(_Facts)
        self.ends: dict[int, str] = {}
        """How each claim ended, by its fencing token."""
        self._ended_at: dict[int, float] = {}
        self._jumped_at_seq = 0
        """The last event before the clock was set forward, which ends leases early, as documented."""
        self._store_ahead = 0.0
        """Seconds by which the store's time is ahead of virtual time. It hardly changes."""
        self._requests: dict[tuple[str, str, str], int] = {}
        self._leases: dict[str, str] = {}
        self.on_free: Callable[[str, float], None] = lambda _key, _seconds: None

    def broken(self, promise: str, text: str, *about: str) -> None:
        if promise in self._mute:
            return
        self._story.add("BROKEN", f"{promise}: {text}")
        self._scheduler.fail(PromiseBroken(promise, text, set(about)))

    def hold(self, promise: str, is_kept: bool, text: str, *about: str) -> None:
        self.counts[promise] += 1
        if not is_kept:
            self.broken(promise, text, *about)

    def clock_jumps_forward(self) -> None:
        self._jumped_at_seq = len(self.log)

    def _is_cut_short(self, token: int) -> bool:
        """Whether the claim began before the clock was set forward."""
        return token <= self._jumped_at_seq

    # What is committed

    def committed(self, process: Process, ws: WorkingSet) -> None:
        self._store_ahead = ws.now / 1_000 - self._scheduler.now
        for entry in ws.entries:
            self._append(entry)
        for job in (ws.changed_jobs | ws.renewed_jobs).values():
            self._check_claim(job)
        for session in ws.changed_sessions.values():
            self._check_session(session, ws)
        for job_id, data in ws.changed_checkpoints.items():
            self._check_number(job_id, None if data is None else number_of(msgspec.json.decode(data)))
        for key, context in ws.changed_contexts.items():
            self._check_number(session_key(key), number_of(msgspec.json.decode(context)))
        if ws.entries:
            self._story.add(process.name, "commits " + ", ".join(map(_entry_text, ws.entries)))

    def _append(self, entry: LogEntry) -> None:
        last = self.log[-1] if self.log else None
        self.hold(LOG, entry.seq == len(self.log) + 1, f"event {entry.seq} follows event {len(self.log)}")
        self.hold(LOG, last is None or last.at <= entry.at, f"event {entry.seq} is before the one it follows")
        self.log.append(entry)
        details = decode_details(entry)
        if isinstance(details, Claimed):
            self._begin(entry)
            if entry.queue is not None and details.handed_over_by is None:
                text = f"{entry.job_id} is claimed from the paused queue {entry.queue}"
                self.hold(PAUSED, entry.queue not in self.paused, text, entry.job_id or "")
        elif isinstance(details, QueueLimited):
            self._pause(entry.queue or "", details)
        elif isinstance(details, Ended):
            self._end(entry, details)
        elif entry.type == "enqueued":
            self.facts[entry.job_id or ""].is_known = True
        elif entry.type == "session_opened":
            self._begin_session(entry)
        elif entry.type in {"session_closed", "session_expired", "session_undone"}:
            self._end_session(entry)

    def _pause(self, queue: str, details: QueueLimited) -> None:
        if details.paused is not None:
            self.paused = self.paused | {queue} if details.paused else self.paused - {queue}

    def _begin(self, entry: LogEntry) -> None:
        job_id = entry.job_id or ""
        facts = self.facts[job_id]
        self.hold(LOG, not facts.is_claimed, f"{job_id} is claimed again before its claim has ended", job_id)
        self.hold(LOG, entry.seq > facts.token, f"the fencing token of {job_id} does not increase", job_id)
        facts.token, facts.is_claimed = entry.seq, True
        self._check_nobody_is_sure(job_id, f"{job_id} is claimed (event {entry.seq})")

    def _end(self, entry: LogEntry, details: Ended) -> None:
        job_id = entry.job_id or ""
        facts = self.facts[job_id]
        is_current = facts.is_claimed and facts.token == details.fencing_token
        self.hold(LOG, is_current, f"a claim of {job_id} ends that does not exist", job_id)
        facts.is_claimed = False
        facts.ended_at = self._scheduler.now
        self.ends[details.fencing_token] = entry.type
        self._ended_at[details.fencing_token] = self._scheduler.now
        if entry.type == "undone":
            self._forget_requests(details.fencing_token)
        if entry.type == "expired":
            until = facts.promised_until.get(details.fencing_token, 0)
            is_in_time = entry.at >= until or self._is_cut_short(details.fencing_token)
            self.hold(NOT_EARLY, is_in_time, f"{job_id} expires {until - entry.at} ms early", job_id)
        self._check_who_ended_it(job_id, entry, details.fencing_token)
        if details.status in {"free", "queued"}:
            self.on_free(job_id, max(0, details.available_at - entry.at) / 1_000)

    def _begin_session(self, entry: LogEntry) -> None:
        key = session_key(entry.session_id)
        self.facts[key].is_known = True
        self.facts[key].token = entry.seq
        self._check_nobody_is_sure(key, f"{key} is opened (event {entry.seq})")

    def _end_session(self, entry: LogEntry) -> None:
        key = session_key(entry.session_id)
        if entry.type == "session_undone":
            self._requests = {request: n for request, n in self._requests.items() if request[2] != key}
        self._check_who_ended_it(key, entry, self.facts[key].token)

    def _check_nobody_is_sure(self, key: str, what: str) -> None:
        facts = self.facts[key]
        facts.beliefs = [belief for belief in facts.beliefs if not belief.is_dropped]
        self.counts[ONE_OWNER] += 1
        for belief in facts.beliefs:
            if belief.is_held and not self._is_cut_short(belief.token):
                text = f"{what} while {belief.client} is sure to own it for {belief.remaining():.3f} s"
                self.broken(ONE_OWNER, text, key, belief.client)

    def _check_who_ended_it(self, key: str, entry: LogEntry, token: int) -> None:
        """Only the owner, an operator or an expiry may end what an owner received."""
        for belief in [belief for belief in self.facts[key].beliefs if belief.token == token]:
            if entry.type in TAKEN:
                belief.is_taken = True
            elif entry.type not in {"expired", "session_expired"}:
                text = f"the {'session' if entry.job_id is None else 'claim'} of {belief.client} on {key} ends as"
                about = (key, belief.client)
                self.hold(
                    KEPT, not belief.is_held, f"{text} {entry.type} (event {entry.seq}), but it did not do that", *about
                )

    # One request, one claim

    def _check_claim(self, job: Job) -> None:
        claim = job.claim
        if claim is None:
            return
        facts = self.facts[job.job_id]
        facts.bound_to = session_key(claim.session_id) if claim.session_id else job.job_id
        facts.stored_until = claim.expires_at or 0
        facts.lease_id = claim.lease_id
        if claim.request_id is not None and claim.session_id is None:
            what = f"queue {job.queue}" if job.queue else job.job_id
            self._check_one_claim((claim.principal, claim.request_id, what), claim.fencing_token, job.job_id)

    def _check_session(self, session: Session, ws: WorkingSet) -> None:
        opened = [e for e in ws.entries if e.type == "session_opened" and e.session_id == session.session_id]
        key = session_key(session.session_id)
        self.facts[key].lease_id = session.lease_id
        self.facts[key].stored_until = session.expires_at
        if opened and session.request_id is not None:
            self._check_one_claim((session.principal, session.request_id, key), opened[-1].seq, key)

    def _check_one_claim(self, request: tuple[str, str, str], number: int, key: str) -> None:
        known = self._requests.setdefault(request, number)
        text = f"request {request[1][:8]} of {request[0]} has claimed {key} twice (events {known} and {number})"
        self.hold(AGREES, known == number, text, key)

    def _forget_requests(self, token: int) -> None:
        self._requests = {request: number for request, number in self._requests.items() if number != token}

    # What was saved

    def _check_number(self, key: str, number: int | None) -> None:
        facts = self.facts[key]
        if number is None:  # the job is done; the next claim starts over
            facts.number = facts.acknowledged = 0
            return
        text = f"{key} goes back to number {number} although {facts.acknowledged} was acknowledged"
        self.hold(KEPT, number >= facts.acknowledged, text, key)
        facts.number = number

    # What clients receive

    def asking(self, key: str) -> Asked:
        facts = self.facts[key]
        return Asked(key, facts.acknowledged, facts.token, facts.is_known)

    def received_claim(self, belief: Belief, reply: ClaimReply, asked: Asked | None) -> None:
        job_id, token = reply.job_id or "", reply.fencing_token or 0
        facts = self.facts[job_id]
        entry = self.log[token - 1] if token <= len(self.log) else None
        is_there = entry is not None and (entry.type, entry.job_id) == ("claimed", job_id)
        about = (job_id, belief.client)
        self.hold(KEPT, is_there, f"{belief.client} gets a claim on {job_id} that does not exist", *about)
        is_own = self._leases.setdefault(belief.lease_id + job_id, belief.client) == belief.client
        is_own = is_own and reply.owner == belief.client
        self.hold(ONE_OWNER, is_own, f"{belief.client} gets another client's claim on {job_id}", *about)
        # A client that was paused when the reply came may see it late, and then counts on nothing.
        grows = token >= facts.newest_token or belief.remaining() <= 0
        self.hold(LOG, grows, f"{belief.client} gets token {token} of {job_id} after {facts.newest_token}", *about)
        facts.newest_token = max(token, facts.newest_token)
        self.received_expiry(belief, reply.expires_at)
        if asked is not None:
            self.received_number(asked, reply.checkpoint)
        self._add(belief)

    def received_lock(self, belief: Belief, expires_at: Any, asked_at: float) -> None:
        is_own = self._leases.setdefault(belief.lease_id, belief.client) == belief.client
        text = f"{belief.client} gets another client's lease on {belief.key}"
        self.hold(ONE_OWNER, is_own, text, belief.key, belief.client)
        self.received_expiry(belief, expires_at, asked_at)
        if belief not in self.facts[belief.key].beliefs:
            self._add(belief)

    def received_session(self, belief: Belief, reply: SessionReply, asked: Asked) -> None:
        is_own = self._leases.setdefault(belief.lease_id, belief.client) == belief.client
        self.hold(ONE_OWNER, is_own, f"{belief.client} gets another client's lease on {belief.key}", belief.key)
        self.received_number(asked, reply.context)
        self._add(belief)

    def received_expiry(self, belief: Belief, expires_at: Any, asked_at: float = 0) -> None:
        """A reply to a call made at `asked_at` says that the claim is alive until `expires_at`."""
        key, token = belief.key, belief.token
        about = (key, belief.client)
        self.facts[key].promised_until[token] = to_moment("expires_at", expires_at)
        ended_at = self._ended_at.get(token)
        is_alive = ended_at is None or ended_at >= asked_at
        self.hold(KEPT, is_alive, f"{belief.client} learns that its claim on {key} is alive, but it has ended", *about)
        surely = self._scheduler.now + belief.remaining()
        stored = self.facts[self.facts[key].bound_to].stored_until / 1_000 - self._store_ahead
        text = f"{belief.client} is sure to own {key} for {surely - stored:.3f} s longer than the store says"
        # A client that gets the reply after it has expired counts on nothing.
        is_over = self.facts[key].token != token or ended_at is not None or belief.remaining() <= 0
        is_over = is_over or self._is_cut_short(token)
        self.hold(ONE_OWNER, is_over or surely <= stored + MILLISECOND, text, *about)

    def received_number(self, asked: Asked, document: Any) -> None:
        """What was acknowledged before the call is in the reply, unless it was cleared meanwhile."""
        expected = min(asked.acknowledged, self.facts[asked.key].acknowledged)
        number = number_of(document)
        text = f"{asked.key} is read with number {number} although {expected} was acknowledged"
        self.hold(KEPT, number >= expected, text, asked.key)

    def received_release(self, client: str, reply: ReleaseReply) -> None:
        how = self.ends.get(reply.fencing_token)
        text = f"{client} learns that its claim on {reply.job_id} is {reply.outcome}, but it is {how or 'alive'}"
        self.hold(KEPT, how == reply.outcome, text, reply.job_id, client)

    def acknowledged_number(self, client: str, key: str, lease_id: str, number: int) -> None:
        facts = self.facts[key]
        if (facts.lease_id == lease_id and facts.is_claimed) or key.startswith("session"):
            text = f"{client} learns that number {number} of {key} is saved, but {facts.number} is"
            self.hold(KEPT, facts.number >= number, text, key, client)
            facts.acknowledged = max(facts.acknowledged, number)

    def acknowledged_enqueue(self, client: str, job_id: str) -> None:
        self.hold(
            KEPT, self.facts[job_id].is_known, f"{client} learns that {job_id} is enqueued, but it is not", job_id
        )

    def received_view(self, asked: Asked, status: str, token: int | None) -> None:
        """A read is not older than what was committed before the call."""
        key = asked.key
        if token is not None:
            self.hold(KEPT, token >= asked.token, f"an old claim of {key} is read ({token}, not {asked.token})", key)
        if asked.is_known:
            self.hold(KEPT, status != "free", f"{key} is read as never enqueued, although it was", key)

    def _add(self, belief: Belief) -> None:
        belief.is_taken = self.ends.get(belief.token) in TAKEN  # before the owner received it
        if belief.remaining() > 0:
            others = [b for b in self.facts[belief.key].beliefs if b.lease_id != belief.lease_id and b.is_held]
            others = [b for b in others if not self._is_cut_short(min(b.token, belief.token))]
            text = f"{belief.client} and {', '.join(b.client for b in others)} are both sure to own {belief.key}"
            self.hold(ONE_OWNER, not others, text, belief.key, belief.client)
        self.facts[belief.key].beliefs.append(belief)


def session_key(session_id: str | None) -> str:
    """The id without the principal, because all clients use the same one."""
    return f"session {id_of(SessionKey(session_id or ''))}"


def number_of(document: Any) -> int:
    return int(document["n"]) if isinstance(document, dict) and "n" in document else 0


def _entry_text(entry: LogEntry) -> str:
    return f"{entry.seq} {entry.type} {short(entry.job_id or session_key(entry.session_id))}"
