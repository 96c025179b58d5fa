"""An in-memory store: the simplest thing that keeps the contract, and the model the others are tested against."""

import secrets
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy

from octostore.core.beats import is_stuck, late_at
from octostore.core.claims_window import JobStory
from octostore.core.errors import InvalidInput
from octostore.core.events import LogEntry
from octostore.core.health import TAKEN_BACK_MS
from octostore.core.limits import (
    BUCKET_MS,
    FIGURES_QUEUES,
    LOOK_BACK_EVENTS,
    OWNERS_FROM_CLAIMS,
    REQUESTS_KEPT,
    REQUESTS_KEPT_MS,
    SWEEP_LIMIT,
)
from octostore.core.model import LOSSES, Claim, EndedRequest, Job, Queue, Session, SessionStatus, Token, read_in_flight
from octostore.core.moments import to_datetime, to_datetime_or_none
from octostore.core.needs import JobFilter, Needs, Selection
from octostore.core.questions import ListEvents
from octostore.core.queue_counts import Happened, LookBack, QueueCounts
from octostore.core.queue_figures import rates_begin
from octostore.core.replies import Figures
from octostore.core.run_order import position_of
from octostore.core.session_keys import SessionKey
from octostore.core.working_set import WorkingSet
from octostore.stores.base import ClaimsFilter, ClaimsFound, Counters, OnStep, QueueFilter, SessionFilter
from octostore.stores.clock import Mark
from octostore.stores.listing import listed_to

LOOK_SECONDS = 1.0
QUEUE_EVENT_TYPES = {"enqueued", "claimed", "done", "failed", "expired"}


class MemoryRows:
    """Copies rows in and out, so that a batch that fails halfway changes nothing."""

    def __init__(self) -> None:
        self.seq = 0
        self.mark = Mark(0, "", 0)
        self.jobs: dict[str, Job] = {}
        self.sessions: dict[SessionKey, Session] = {}
        self.queues: dict[str, Queue] = {}
        self.documents: dict[int, bytes] = {}
        self.checkpoints: dict[str, bytes] = {}
        self.contexts: dict[SessionKey, bytes] = {}
        self.tokens: dict[str, Token] = {}
        self.queued: Counter[str] = Counter()
        """The number of queued jobs per principal."""
        self.ended: dict[str, deque[EndedRequest]] = {}
        self._ended_by_id: dict[tuple[str, str], list[EndedRequest]] = {}
        self.log: list[LogEntry] = []
        self._key = secrets.token_bytes(32)
        self._store_id = secrets.token_hex(16)

    def counters(self) -> Counters:
        return Counters(self.seq, self.mark, self._store_id)

    def load(self, ws: WorkingSet, needs: Needs) -> None:
        ws.count_queue = self._count_queue
        ws.jobs.update(dict.fromkeys(needs.jobs))
        ws.checkpoints.update(dict.fromkeys(needs.documents_of))
        ws.sessions.update(dict.fromkeys(needs.sessions))
        for session_id in needs.sessions & self.sessions.keys():
            self._add_session(ws, session_id)
        if needs.claims_of or needs.news_of or needs.beside:
            self._add_bound(ws, needs)
        for session_id in needs.in_flight_of & self.sessions.keys():
            for job_id in read_in_flight(self.sessions[session_id]):
                self._add_job(ws, self.jobs[job_id])
        for name in needs.queues:
            self._add_queue(ws, name, count=name in needs.counted_queues)
        for job_id in needs.jobs & self.jobs.keys():
            self._add_job(ws, self.jobs[job_id])
        self._add_expired(ws, needs.sweep_limit)
        for request in needs.requests:
            self._add_request(ws, request)
        for ended in needs.ended:
            ws.ended[ended] = list(self._ended_by_id.get(ended, ()))
        for queue, line in needs.lines.items():
            self._add_line(ws, queue, line.selections, line.count)
        self._add_lists(ws, needs.lists)
        self._add_rights(ws, needs)

    def list_jobs(self, ws: WorkingSet, wanted: JobFilter, limit: int) -> list[Job]:
        found = [
            job
            for job in self._named(wanted)
            if wanted.status in {None, job.status} or (wanted.status != "claimed" and self._is_over(job, ws.now))
        ]
        return [self._add_job(ws, job) for job in found[:limit]]

    def _named(self, wanted: JobFilter) -> list[Job]:
        return [
            job
            for job_id, job in sorted(self.jobs.items())
            if job_id > wanted.after and job_id.startswith(wanted.prefix) and wanted.queue in {None, job.queue}
        ]

    def claimed_jobs(self, ws: WorkingSet, job_ids: Sequence[str]) -> list[Job]:
        known = [self.jobs[job_id] for job_id in job_ids if job_id in self.jobs]
        return [self._add_job(ws, job) for job in known if job.claim is not None]

    def names_near(self, places: Sequence[str], within: str, limit: int) -> list[str]:
        names = sorted(name for name in self.jobs if name.startswith(within))
        found = [name for name in reversed(names) if name < places[0]][:limit]
        for place in places:
            found += [name for name in names if name >= place][:limit]
        return found

    def list_queue(self, ws: WorkingSet, wanted: QueueFilter) -> list[Job]:
        after = wanted.after
        named = [
            job for job in self.jobs.values() if job.queue == wanted.queue and job.job_id.startswith(wanted.prefix)
        ]
        places = {job.job_id: position_of(job, after.moment) for job in named}
        found = [job for job in named if places[job.job_id].is_after(after)]
        found.sort(key=lambda job: places[job.job_id].key)
        return [self._add_job(ws, job) for job in found[: wanted.limit]]

    def queue_names(self, ws: WorkingSet, prefix: str, limit: int) -> list[str]:
        here = [job for job in self.jobs.values() if job.queue is not None and job.job_id.startswith(prefix)]
        names = {job.queue or "" for job in here}
        if not prefix:
            names |= {queue.name for queue in self.queues.values() if queue.max_claimed is not None or queue.pause}
        depths = Counter(job.queue for job in here if job.status == "queued")
        return sorted(names, key=lambda name: (-min(depths[name], ws.count_to + 1), name))[:limit]

    def count_queues(self, ws: WorkingSet, queues: Sequence[str], selection: Selection) -> None:
        ws.queue_counts.update({(queue, selection): self._count_queue(ws, queue, selection) for queue in queues})

    def look_back(self, now: int, prefix: str) -> LookBack:
        begin = rates_begin(now) - 1
        older, newer = self.log[:-LOOK_BACK_EVENTS], self.log[-LOOK_BACK_EVENTS:]
        found: dict[tuple[str, str, int], list[int]] = {}
        for entry in newer:
            if entry.queue and entry.type in QUEUE_EVENT_TYPES and (entry.job_id or "").startswith(prefix):
                found.setdefault((entry.queue, entry.type, max(entry.at, begin) // BUCKET_MS), []).append(entry.at)
        happened = [Happened(*what, len(moments), max(moments)) for what, moments in found.items()]
        return LookBack(happened, older[-1].at if older else None)

    def count_claimed(self, prefix: str) -> int:
        return sum(job.claim is not None and job_id.startswith(prefix) for job_id, job in self.jobs.items())

    def list_sessions(self, ws: WorkingSet, wanted: SessionFilter) -> list[Session]:
        found = [
            session_id
            for session_id, session in sorted(self.sessions.items())
            if session_id > wanted.after
            and wanted.status in {None, self._status_now(session, ws.now)}
            and wanted.principal in {None, session.principal}
        ]
        return [self._add_session(ws, session_id) for session_id in found[: wanted.limit]]

    def list_events(self, wanted: ListEvents) -> tuple[list[LogEntry], int]:
        found = [entry for entry in self.log[wanted.after :] if wanted.matches(entry)]
        page = found[: wanted.limit]
        return page, page[-1].seq if len(page) < len(found) else max(self.seq, wanted.after)

    def find_claims(self, ws: WorkingSet, wanted: ClaimsFilter) -> ClaimsFound:
        before = sum(entry.at < wanted.since for entry in self.log)
        claims = [entry for entry in self.log if entry.type == "claimed"]
        live = [
            self._add_job(ws, job)
            for job_id, job in self.jobs.items()
            if job.claim
            and job_id.startswith(wanted.prefix)
            and wanted.queue in {None, job.queue}
            and wanted.owner in {None, job.claim.owner}
        ]
        return ClaimsFound(
            live=[JobStory(job, []).glance(ws) for job in live],
            ends=[entry for entry in self.log[before:] if (entry.job_id or "").startswith(wanted.prefix)],
            last_claim_at=max((one.at for one in claims if (one.job_id or "").startswith(wanted.prefix)), default=None),
            before=before,
            is_all=True,
        )

    def last_ends(self, job_ids: Sequence[str], after: int) -> list[LogEntry]:
        return [entry for entry in self.log[after:] if entry.job_id in job_ids]

    def next_ends(self, _ends: Sequence[LogEntry]) -> list[LogEntry]:
        """Never needed: `last_ends` returns all of them."""
        return []

    def events_at(self, seqs: Sequence[int]) -> list[LogEntry]:
        return [self.log[seq - 1] for seq in seqs]

    def list_tokens(self) -> list[Token]:
        return sorted(map(copy, self.tokens.values()), key=lambda token: (-token.created_at, token.token_id))

    def find_tokens(self, digests: Sequence[bytes]) -> list[Token]:
        return [copy(token) for token in self.tokens.values() if token.digest in digests]

    def store_key(self) -> bytes:
        return self._key

    def figures(self, now: int) -> Figures:
        depths = Counter(job.queue for job in self.jobs.values() if job.status == "queued" and job.queue)
        longest = sorted(depths.items(), key=lambda row: (-row[1], row[0]))
        due = [job.available_at for job in self.jobs.values() if job.status == "queued" and job.available_at <= now]
        lost = [entry for entry in self.log if entry.type in LOSSES]
        expired = [job for job in self.jobs.values() if self._is_over(job, now)]
        over = [self._ends_at(job.claim) for job in expired if job.claim and job.queue]
        return Figures(
            claimed=sum(job.claim is not None and not self._is_over(job, now) for job in self.jobs.values()),
            late=sum(self._is_late(job, now) for job in self.jobs.values()),
            stuck=sum(self._is_stuck(job, now) for job in self.jobs.values()),
            dead=sum(job.status == "dead" for job in self.jobs.values()),
            open_sessions=sum(s.status == "open" and s.expires_at > now for s in self.sessions.values()),
            waiting=depths.total() + len(over),
            oldest_due_at=to_datetime_or_none(min(due + over, default=None)),
            taken_back=sum(entry.at > now - TAKEN_BACK_MS for entry in lost) + len(expired),
            queued=dict(longest[:FIGURES_QUEUES]),
            seq=self.seq,
            store_id=self._store_id,
            at=to_datetime(now),
        )

    def save(self, ws: WorkingSet, mark: Mark) -> None:
        self.seq, self.mark = ws.seq, mark
        self.jobs.update({name: _copied(job) for name, job in (ws.changed_jobs | ws.renewed_jobs).items()})
        self.sessions.update({key: copy(session) for key, session in ws.changed_sessions.items()})
        self.queues.update({name: copy(queue) for name, queue in ws.changed_queues.items()})
        self.tokens.update({token_id: copy(token) for token_id, token in ws.changed_tokens.items()})
        self.queued.update(ws.queued_changes)
        self.documents.update(ws.new_documents)
        self.contexts.update(ws.changed_contexts)
        self.log.extend(ws.entries)
        for ended in ws.new_ended:
            self._remember(ended, ws.now)
        for job_id, data in ws.changed_checkpoints.items():
            if data is None:
                self.checkpoints.pop(job_id, None)
            else:
                self.checkpoints[job_id] = data

    def _remember(self, ended: EndedRequest, now: int) -> None:
        known = self.ended.setdefault(ended.principal, deque())
        known.append(ended)
        self._ended_by_id.setdefault((ended.principal, ended.request_id), []).append(ended)
        while len(known) > REQUESTS_KEPT and known[0].ended_at < now - REQUESTS_KEPT_MS:
            oldest = known.popleft()
            same = self._ended_by_id[oldest.principal, oldest.request_id]
            same.remove(oldest)
            if not same:
                del self._ended_by_id[oldest.principal, oldest.request_id]

    # Rows that belong to a row

    def _add_job(self, ws: WorkingSet, stored: Job) -> Job:
        job = ws.jobs.get(stored.job_id)
        if job is None:
            job = _copied(stored)
            ws.add_job(job)
            if job.claim is not None and job.claim.session_id is not None:
                self._add_session(ws, job.claim.session_id)
            if job.queue is not None and job.queue not in ws.queues:
                self._add_queue(ws, job.queue, count=False)
            for seq in (job.payload_seq, job.result_seq):
                if seq is not None:
                    ws.documents[seq] = self.documents[seq]
            ws.checkpoints[job.job_id] = self.checkpoints.get(job.job_id)
        return job

    def _add_session(self, ws: WorkingSet, session_id: SessionKey) -> Session:
        session = ws.sessions.get(session_id)
        if session is None:
            session = ws.sessions[session_id] = copy(self.sessions[session_id])
            if session.context_seq is not None:
                ws.contexts[session_id] = self.contexts[session_id]
        return session

    def _add_queue(self, ws: WorkingSet, name: str, *, count: bool) -> None:
        queue = copy(self.queues.get(name))
        if queue is None and count:
            queue = Queue(name)
        if queue is not None:
            queue.claimed = sum(job.claim is not None for job in self.jobs.values() if job.queue == name)
        ws.queues[name] = queue

    def _add_bound(self, ws: WorkingSet, needs: Needs) -> None:
        named = [self.jobs[name].claim for name in needs.beside & self.jobs.keys()]
        wanted = needs.claims_of | {claim.session_id for claim in named if claim and claim.session_id}
        for job in self.jobs.values():
            claim = job.claim
            if claim is None:
                continue
            has_news = claim.stop_request is not None or claim.max_silence_ms is not None
            if claim.session_id in wanted or (has_news and claim.session_id in needs.news_of):
                self._add_job(ws, job)
        ws.sessions_with_all_claims |= needs.claims_of

    # Rows found by searching

    def _add_lists(self, ws: WorkingSet, lists: dict[JobFilter, int]) -> None:
        for wanted, count in lists.items():
            stored = [job for job in self._named(wanted) if job.status == wanted.status][:count]
            expired = [job for job in self._named(wanted) if self._is_over(job, ws.now)][:SWEEP_LIMIT]
            ws.listed_to[wanted] = listed_to((stored, count), ([] if ws.has_all_expired else expired, SWEEP_LIMIT))
            for job in [*stored, *expired]:
                self._add_job(ws, job)

    def _add_rights(self, ws: WorkingSet, needs: Needs) -> None:
        ws.tokens.update(dict.fromkeys(needs.tokens))
        for token in self.tokens.values():
            if token.token_id in needs.tokens or token.digest in needs.digests:
                ws.tokens[token.token_id] = copy(token)
        for name in needs.session_counts:
            own = (s for s in self.sessions.values() if s.principal == name)
            ws.session_counts[name] = sum(s.status == "open" and s.expires_at > ws.now for s in own)
        ws.queued_counts.update({name: self.queued[name] for name in needs.queued_counts})
        for which in needs.claim_counts:
            jobs = [job for _, job in sorted(self.jobs.items()) if job.claim]
            claimed = [job for job in jobs if job.claim and (job.claim.principal, job.claim.is_lock) == which]
            ws.claim_counts[which] = len(claimed)
            for job in [job for job in claimed if self._is_over(job, ws.now)][:SWEEP_LIMIT]:
                self._add_job(ws, job)

    def _add_expired(self, ws: WorkingSet, limit: int) -> None:
        leases = [job for job in self.jobs.values() if job.claim and (job.claim.expires_at or ws.now + 1) <= ws.now]
        leases.sort(key=lambda job: (job.claim.expires_at, job.claim.fencing_token) if job.claim else (0, 0))
        for job in leases[:limit]:
            self._add_job(ws, job)
        room = limit - len(leases[:limit])
        sessions = [s for s in self.sessions.values() if s.status == "open" and s.expires_at <= ws.now]
        ws.has_all_expired = room > 0 and len(sessions) <= room
        for session in sorted(sessions, key=lambda s: (s.expires_at, s.session_id))[:room]:
            self._add_session(ws, session.session_id)
            bound = [j for j in self.jobs.values() if j.claim and j.claim.session_id == session.session_id]
            bound.sort(key=lambda job: job.job_id)
            for job in bound[:room]:
                self._add_job(ws, job)
            if len(bound) <= room:
                ws.sessions_with_all_claims.add(session.session_id)
            else:
                ws.has_all_expired = False
            room = max(0, room - len(bound))

    def _is_late(self, job: Job, now: int) -> bool:
        if job.claim is None or self._is_over(job, now):
            return False
        beats: Claim | Session = self.sessions[job.claim.session_id] if job.claim.session_id else job.claim
        return now >= late_at(self._ends_at(job.claim), beats.ttl_ms)

    def _is_stuck(self, job: Job, now: int) -> bool:
        return job.claim is not None and not self._is_over(job, now) and is_stuck(job.claim, now)

    def _is_over(self, job: Job, now: int) -> bool:
        return job.claim is not None and self._ends_at(job.claim) <= now

    def _ends_at(self, claim: Claim) -> int:
        return (
            self.sessions[claim.session_id or SessionKey("")].expires_at
            if claim.expires_at is None
            else claim.expires_at
        )

    def _status_now(self, session: Session, now: int) -> SessionStatus:
        return "expired" if session.status == "open" and session.expires_at <= now else session.status

    def _add_request(self, ws: WorkingSet, request: tuple[str, str, str]) -> None:
        for job in self.jobs.values():
            claim = job.claim
            if claim and (claim.principal, claim.request_id, job.queue) == request:
                self._add_job(ws, job)
                ws.requests[request] = job.job_id

    def _add_line(self, ws: WorkingSet, queue: str, selections: set[Selection], count: int) -> None:
        in_queue = [job for job in self.jobs.values() if job.queue == queue]
        expired = sorted((job for job in in_queue if self._is_over(job, ws.now)), key=lambda job: job.job_id)
        for job in expired[:SWEEP_LIMIT]:
            self._add_job(ws, job)
        waiting = [job for job in in_queue if job.status == "queued"]
        waiting.sort(key=lambda job: (job.priority, job.available_at, job.enqueued_seq))
        due = [job for job in waiting if job.available_at <= ws.now]
        for kinds, prefix in selections:
            wanted = [job for job in due if kinds is None or job.kind in kinds]
            for job in [job for job in wanted if job.job_id.startswith(prefix)][:count]:
                self._add_job(ws, job)
        moments = [job.claim.expires_at for job in self.jobs.values() if job.claim and job.claim.expires_at]
        moments += [session.expires_at for session in self.sessions.values() if session.status == "open"]
        ws.next_expiry = min((moment for moment in moments if moment > ws.now), default=None)

    def _count_queue(self, ws: WorkingSet, queue: str, selection: Selection) -> QueueCounts:
        kinds, prefix = selection
        names = sorted(name for name in self.jobs if name not in ws.jobs and name.startswith(prefix))
        here = [job for job in map(self.jobs.__getitem__, names) if job.queue == queue]
        wanted = [job for job in here if kinds is None or job.kind in kinds]
        later = [job.available_at for job in wanted if job.status == "queued" and job.available_at > ws.now]
        due = [job.available_at for job in wanted if job.status == "queued" and job.available_at <= ws.now]
        owners = [(job.job_id, job.claim.owner) for job in wanted if job.claim]
        return QueueCounts(
            ready=len(due),
            oldest_due_at=min(due, default=None),
            later=len(later),
            due_at=min(later, default=None),
            claimed=len(owners),
            owners=owners[:OWNERS_FROM_CLAIMS],
            dead=sum(job.status == "dead" for job in here),
            done=sum(job.status == "done" for job in here),
        )


def _copied(job: Job) -> Job:
    """Jobs and claims are modified in place; everything inside them is immutable and can be shared."""
    copied = copy(job)
    copied.claim = copy(job.claim)
    return copied


class MemoryBackend:
    writing_at_once = None  # nothing here is slow enough

    def __init__(self, rows: MemoryRows | None = None) -> None:
        self.rows = rows or MemoryRows()
        self._lock = threading.RLock()

    def create(self) -> None:
        """Exists from the start."""

    @contextmanager
    def writing(self, _needs: Needs) -> Iterator[MemoryRows]:
        with self._lock:
            yield self.rows

    @contextmanager
    def reading(self) -> Iterator[MemoryRows]:
        with self._lock:
            yield self.rows

    def back_up(self, _copy: str, _on_step: OnStep | None) -> int:
        raise InvalidInput("url", "names an in-memory store, which ends with its process and cannot be backed up")

    def on_foreign_commit(self, ring: Callable[[], None]) -> None:
        """There are no other processes."""

    @property
    def poll_seconds(self) -> float:
        return LOOK_SECONDS

    def pause(self) -> None:
        self._lock.acquire()

    def resume(self) -> None:
        self._lock.release()

    def close(self) -> None:
        """Nothing is held open."""
