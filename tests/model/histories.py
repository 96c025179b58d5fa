"""A real store and the model, side by side: both get the same commands, and all that can be seen is compared."""

from typing import Any

import msgspec

from octostore.core.commands import AnyCommand, ClaimNext, ClaimTask, Probe
from octostore.core.errors import LeaseLost, NotFound
from octostore.core.questions import (
    GetFigures,
    GetJob,
    GetQueue,
    GetSession,
    ListHeartbeats,
    ListJobs,
    ListQueues,
    ListSessions,
    ListTokens,
)
from octostore.core.replies import ClaimReply, SessionReply
from octostore.core.retry import RetryPolicy
from octostore.stores.memory import MemoryBackend
from tests.model.comparing import Leases, View, alike, compare_answer, compare_event, differences, plain
from tests.model.model import Model
from tests.model.state import Backoff, Told
from tests.support.commands import JOB_NAMES
from tests.support.world import ManualClock, World

CAP_MS = 7_000
"""Low, so that the third failure is at the cap already."""


class SideBySide:
    view = View()

    def __init__(self, backend: MemoryBackend | None = None) -> None:
        self.clock = ManualClock()
        self.real = World(backend or MemoryBackend(), self.clock, RetryPolicy(cap_ms=CAP_MS, jitter=0))
        self.model = Model(Backoff(cap_ms=CAP_MS))
        self.leases = Leases()
        self.compared = 0
        self.run([Probe()])  # from here on, both have a time below which they do not go

    def run(self, batch: list[AnyCommand]) -> list[Any]:
        """All in one transaction."""
        answers = self.real.batch(batch)
        self.model.begin_transaction(self.clock.now_ms)
        for number, (command, answer) in enumerate(zip(batch, answers, strict=True)):
            self.prepare(answer)
            told = self.model.apply(self.as_the_model_knows_it(command))
            self.compare(command, told, answer, is_first=number == 0)
        self.compare_logs()
        return answers

    def prepare(self, answer: Any) -> None:
        """The model is told what no document decides."""
        self.model.chosen = answer.job_id if isinstance(answer, ClaimReply) and answer.replayed else None

    def as_the_model_knows_it(self, command: AnyCommand) -> AnyCommand:
        lease_id = getattr(command, "lease_id", None)
        if lease_id is None:
            return command
        return msgspec.structs.replace(command, lease_id=self.leases.name_of(lease_id))

    def compare(self, command: AnyCommand, told: Told, answer: Any, *, is_first: bool) -> None:
        if told.fields.get("status") == "empty" and not is_first:
            # When to look again is what the store found when the transaction began, or better.
            hints = {"retry_after_ms": answer.retry_after_ms}
            told = Told(told.kind, told.fields | plain(hints))
        if told.kind == "LeaseLost" and isinstance(answer, LeaseLost) and isinstance(command, ClaimNext | ClaimTask):
            told = as_far_as_told(told, answer)
        compare_answer(told, answer, self.leases, self.view)

    def compare_logs(self) -> None:
        entries = self.real.log(self.compared)
        expected, actual = [event.type for event in self.model.log[self.compared :]], [entry.type for entry in entries]
        assert expected == actual, differences(expected, actual)
        for entry in entries:
            compare_event(self.model.log[entry.seq - 1], entry, self.view)
        self.compared += len(entries)

    # What reads tell

    def compare_reads(self) -> None:
        seen = self.model.look(self.clock.now_ms)
        for name in JOB_NAMES:
            self.compare_plain(seen.get_job(name), self.real.ask(GetJob(job_id=name)))
        self.compare_plain(seen.list_heartbeats(JOB_NAMES), self.real.ask(ListHeartbeats(job_ids=JOB_NAMES)))
        for name in ("local/s", "local/t", "guest/s"):
            self.compare_session(seen, name)
        self.compare_figures()

    def compare_lists(self) -> None:
        seen = self.model.look(self.clock.now_ms)
        for status in ("free", "queued", "claimed", "done", "dead"):
            self.compare_plain(seen.list_jobs(status), self.real.ask(ListJobs(status=status)).jobs)
        self.compare_plain(seen.list_jobs(queue="default"), self.real.ask(ListJobs(queue="default")).jobs)
        in_order = self.real.ask(ListJobs(queue="default", order="run")).jobs
        self.compare_plain(seen.list_in_run_order("default"), in_order)
        self.compare_plain(seen.queue_status("default"), self.real.ask(GetQueue(queue="default")))
        self.compare_queues(seen)
        for state in ("open", "closed", "expired"):
            for whose in (None, "local", "guest"):
                listed = self.real.ask(ListSessions(status=state, principal=whose)).sessions
                self.compare_plain(seen.list_sessions(state, whose), listed)
        self.compare_plain(seen.list_tokens(), self.real.ask(ListTokens()).tokens)

    def compare_queues(self, seen: Model) -> None:
        """What happened is told from the log, in which there is nothing yet of what has run out by now."""
        listed = self.real.ask(ListQueues())
        by_name = sorted(listed.queues, key=lambda queue: queue.queue)
        self.compare_plain(seen.list_queues(self.model.log), msgspec.structs.replace(listed, queues=by_name))

    def compare_session(self, seen: Model, name: str) -> None:
        expected = seen.get_session(name)
        try:
            self.compare_plain(expected, self.real.ask(GetSession(session_id=name)))
        except NotFound:
            assert expected is None

    def compare_figures(self) -> None:
        figures = self.real.ask(GetFigures())
        assert bool(figures.reasons) == (figures.status != "ok"), (
            "there is a reason, in words that the model leaves open"
        )
        self.compare_plain(self.model.figures(self.clock.now_ms), msgspec.structs.replace(figures, reasons=[]))

    def compare_plain(self, expected: Any, actual: Any) -> None:
        one, other = alike(expected, actual, self.leases, self.view)
        assert one == other, differences(one, other)


def as_far_as_told(told: Told, answer: LeaseLost) -> Told:
    """What an ended request left, and who has its job now, is told as far as the transaction has loaded that job."""
    fields = dict(told.fields)
    if answer.holder is None:
        fields["holder"] = None
    if fields["ended"] is not None and answer.ended is not None and answer.ended.error is None:
        ended = answer.ended
        forgotten = ("error", "note", "reason", "traceparent")
        fields["ended"] = fields["ended"] | {name: getattr(ended, name) for name in forgotten}
    return Told(told.kind, fields)


def leases_in(answer: Any, principal: str = "local") -> list[tuple[str, str | None, str | None]]:
    """(lease, job, session) of what the caller was given."""
    if isinstance(answer, SessionReply):
        return [(answer.lease_id, None, f"{principal}/{answer.session_id}")]
    if isinstance(answer, ClaimReply) and answer.lease_id is not None:
        mine: list[tuple[str, str | None, str | None]] = [(answer.lease_id, answer.job_id, None)]
        return mine + (leases_in(answer.session, principal) if answer.session else [])
    return []
