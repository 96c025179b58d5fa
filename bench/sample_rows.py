"""The rows of a sample file. The same sizes always produce the same rows."""

import random
from collections.abc import Iterator, Mapping

import msgspec

from octostore.core.events import Claimed, Details, Ended, Enqueued, LogEntry, encode_details
from octostore.core.limits import MAX_ATTEMPTS_DEFAULT, TTL_MAX_MS
from octostore.core.model import LOCAL, Attempt, Claim, HowEnded, Job, Session, Status
from octostore.core.session_keys import SessionKey, session_key

BUILT_AT = 1_767_225_600_000  # 2026-01-01: when the last event happened
HOUR_MS = 3_600_000
TTL_MS = 120_000

AREAS = ("build", "customer-sync", "deploy", "github-issue", "index", "invoice", "mail", "migrate", "report", "review")
QUEUES = ("default", "default", "default", "default", "deploys", "mail", "nightly", "reviews")
KINDS = ("build", "import", "report", "review", "send")
PRIORITIES = (5, 5, 5, 5, 5, 1, 3, 9)
STATUSES: dict[Status, int] = {"free": 30, "queued": 30, "claimed": 5, "done": 32, "dead": 3}
"""Jobs per hundred in each status."""

SESSIONS = 1_000
SCATTER = 611_953  # a prime: neighbours by name are far apart in row order


def job_name(number: int) -> str:
    """A hundred jobs share all but the last two digits; a thousand share an area."""
    return f"{AREAS[number // 1_000 % len(AREAS)]}-{number:07}"


class SampleRows:
    """`spacing_ms` is the time between events; the last one happened at `built_at`."""

    def __init__(
        self,
        jobs: int,
        events: int,
        built_at: int = BUILT_AT,
        spacing_ms: int = 1,
        shares: Mapping[Status, int] = STATUSES,
    ) -> None:
        self._jobs = jobs
        self._events = events
        self.built_at = built_at
        self._spacing_ms = spacing_ms
        self._random = random.Random(jobs)
        self._statuses = self._random.choices(list(shares), list(shares.values()), k=jobs)
        self._names = [job_name(index * SCATTER % jobs) for index in range(jobs)]
        # A lock is a job nobody enqueued. Half of the claimed jobs are locks.
        self._queues = [
            None if status == "free" or (status == "claimed" and index % 2) else self._random.choice(QUEUES)
            for index, status in enumerate(self._statuses)
        ]

    def sessions(self) -> Iterator[Session]:
        for number in range(SESSIONS):
            is_open = number % 5 > 0
            yield Session(
                session_id=_session_id(number),
                agent=f"agent-{number}",
                principal=LOCAL,
                status="open" if is_open else "closed",
                ttl_ms=TTL_MAX_MS,
                opened_at=self.built_at - HOUR_MS,
                heartbeat_at=self.built_at - number,
                expires_at=self.built_at - number + (TTL_MAX_MS if is_open else 0),
                lease_id=self._secret(),
            )

    def jobs(self) -> Iterator[Job]:
        for index, status in enumerate(self._statuses):
            job = Job(
                job_id=self._names[index],
                status=status,
                created_at=self._moment(index),
                available_at=self._available_at(index),
            )
            if self._queues[index] is not None:
                self._enqueue(job, index)
            if status == "claimed":
                job.claim = self._claim(index)
            elif status != "queued" or index % 11 == 0:
                self._end_attempt(job, index)
            yield job

    def documents(self) -> Iterator[tuple[int, bytes]]:
        """The payload of every enqueued job, from the first round of events."""
        for index, queue in enumerate(self._queues):
            if queue is not None:
                yield index + 1, b'{"repository":"octo/store","number":%d,"labels":["bug","later"]}' % index

    def events(self) -> Iterator[LogEntry]:
        """In rounds: every job's first event, then every job's second, until there are enough."""
        for position in range(self._events):
            index, at = position % self._jobs, self._moment(position)
            kind, details = self._event(position, index, at)
            name, queue = self._names[index], self._queues[index]
            yield LogEntry(position + 1, at, kind, LOCAL, name, queue, None, encode_details(details))

    def _event(self, position: int, index: int, at: int) -> tuple[str, Details]:
        turn = position // self._jobs - (self._queues[index] is not None)
        if turn < 0:
            queue = self._queues[index] or ""
            return "enqueued", Enqueued(_kind(index), queue, _priority(index), at, MAX_ATTEMPTS_DEFAULT, "queued", True)
        owner = f"agent-{index % 500}"
        attempt = turn // 2 + 1
        if turn % 2 == 0:
            return "claimed", Claimed(owner, attempt, TTL_MS, at + TTL_MS, msgspec.Raw(b'{"branch":"main"}'))
        status = self._statuses[index]
        claimed = position - self._jobs
        since, token = self._moment(claimed), claimed + 1
        ended = Ended(owner, token, attempt, since, at - 50, status, at, attempt, at, note="as far as I got")
        return _how_ended(status), ended

    def _available_at(self, index: int) -> int:
        is_scheduled = self._statuses[index] == "queued" and index % 7 == 0
        return self.built_at + HOUR_MS + index if is_scheduled else self._moment(index)

    def _moment(self, position: int) -> int:
        """When the event happened."""
        return self.built_at - (self._events - position) * self._spacing_ms

    def _enqueue(self, job: Job, index: int) -> None:
        job.queue = self._queues[index]
        job.kind = _kind(index)
        job.priority = _priority(index)
        job.max_attempts = MAX_ATTEMPTS_DEFAULT
        job.enqueued_seq = job.payload_seq = index + 1

    def _claim(self, index: int) -> Claim:
        is_bound = index % 9 == 0
        return Claim(
            owner=f"agent-{index % 500}",
            principal=LOCAL,
            fencing_token=self._events - self._jobs + index + 1,
            ttl_ms=TTL_MAX_MS,
            lock_delay_ms=0,
            claimed_at=self.built_at - HOUR_MS,
            heartbeat_at=self.built_at - index % HOUR_MS,
            expires_at=None if is_bound else self.built_at - index % HOUR_MS + TTL_MAX_MS,
            # Every fifth session is closed; the one after it is open.
            session_id=_session_id(index % (SESSIONS // 5) * 5 + 1) if is_bound else None,
            metadata=b'{"branch":"main"}',
            lease_id=self._secret(),
            request_id=f"{index:032x}",
        )

    def _end_attempt(self, job: Job, index: int) -> None:
        how = _how_ended(job.status)
        job.last_outcome = how
        job.attempts = MAX_ATTEMPTS_DEFAULT if job.status == "dead" else int(how == "failed")
        attempt = Attempt(
            owner=f"agent-{index % 500}",
            fencing_token=index + 1,
            attempt=1,
            claimed_at=job.created_at,
            ended_at=job.created_at + 9_000,
            how=how,
            status=job.status,
            available_at=job.available_at,
            note="as far as I got",
            lease_id=self._secret(),
        )
        job.history = encode_details((attempt,))

    def _secret(self) -> str:
        digits = f"{self._random.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _session_id(number: int) -> SessionKey:
    return session_key(LOCAL, f"session-{number:04}")


def _kind(index: int) -> str:
    return KINDS[index % len(KINDS)]


def _priority(index: int) -> int:
    return PRIORITIES[index % len(PRIORITIES)]


def _how_ended(status: Status) -> HowEnded:
    if status == "free":
        return "released"
    return "done" if status == "done" else "failed"
