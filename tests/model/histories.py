"""A real store and the model side by side: both get the same commands, and everything visible is compared."""

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
from tests.model.comparing import Leases, View, alike, compare_event, compare_reply, differences, plain
from tests.model.model import Model
from tests.model.state import Backoff, Reply
from tests.support.commands import JOB_NAMES
from tests.support.world import ManualClock, World

CAP_MS = 7_000
"""Low, so that the third failure reaches the cap."""


class SideBySide:
    view = View()

    def __init__(self, backend: MemoryBackend | None = None) -> None:
        self.clock = ManualClock()
        self.real = World(backend or MemoryBackend(), self.clock, RetryPolicy(cap_ms=CAP_MS, jitter=0))
        self.model = Model(Backoff(cap_ms=CAP_MS))
        self.leases = Leases()
        self.compared = 0
        self.run([Probe()])  # now both have a time that they never go below

    def run(self, batch: list[AnyCommand]) -> list[Any]:
        """Run all in one transaction."""
        replies = self.real.batch(batch)
        self.model.begin_transaction(self.clock.now_ms)
        for number, (command, reply) in enumerate(zip(batch, replies, strict=True)):
            self.prepare(reply)
            expected = self.model.apply(self.with_model_lease(command))
            self.compare(command, expected, reply, is_first=number == 0)
        self.compare_logs()
        return replies

    def prepare(self, reply: Any) -> None:
        """Tell the model what the store chose if no document decides it."""
        self.model.chosen = reply.job_id if isinstance(reply, ClaimReply) and reply.replayed else None

    def with_model_lease(self, command: AnyCommand) -> AnyCommand:
        lease_id = getattr(command, "lease_id", None)
        if lease_id is None:
            return command
        return msgspec.structs.replace(command, lease_id=self.leases.name_of(lease_id))

    def compare(self, command: AnyCommand, expected: Reply, reply: Any, *, is_first: bool) -> None:
        if expected.fields.get("status") == "empty" and not is_first:
            # The store may take `retry_after_ms` from the beginning of the transaction.
            hints = {"retry_after_ms": reply.retry_after_ms}
            expected = Reply(expected.kind, expected.fields | plain(hints))
        if expected.kind == "LeaseLost" and isinstance(reply, LeaseLost) and isinstance(command, ClaimNext | ClaimTask):
            expected = as_far_as_loaded(expected, reply)
        compare_reply(expected, reply, self.leases, self.view)

    def compare_logs(self) -> None:
        entries = self.real.log(self.compared)
        expected, actual = [event.type for event in self.model.log[self.compared :]], [entry.type for entry in entries]
        assert expected == actual, differences(expected, actual)
        for entry in entries:
            compare_event(self.model.log[entry.seq - 1], entry, self.view)
        self.compared += len(entries)

    # Reads

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
        """The rates come from the log, which does not have the latest expiries yet."""
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
            "a status other than ok has a reason, whose wording the model leaves open"
        )
        self.compare_plain(self.model.figures(self.clock.now_ms), msgspec.structs.replace(figures, reasons=[]))

    def compare_plain(self, expected: Any, actual: Any) -> None:
        one, other = alike(expected, actual, self.leases, self.view)
        assert one == other, differences(one, other)


def as_far_as_loaded(expected: Reply, reply: LeaseLost) -> Reply:
    """How a request ended, and who owns its job now, is complete only if the transaction has loaded that job."""
    fields = dict(expected.fields)
    if reply.holder is None:
        fields["holder"] = None
    if fields["ended"] is not None and reply.ended is not None and reply.ended.error is None:
        ended = reply.ended
        forgotten = ("error", "note", "reason", "traceparent")
        fields["ended"] = fields["ended"] | {name: getattr(ended, name) for name in forgotten}
    return Reply(expected.kind, fields)


def leases_in(reply: Any, principal: str = "local") -> list[tuple[str, str | None, str | None]]:
    """The lease, job and session of each claim and session in a reply."""
    if isinstance(reply, SessionReply):
        return [(reply.lease_id, None, f"{principal}/{reply.session_id}")]
    if isinstance(reply, ClaimReply) and reply.lease_id is not None:
        mine: list[tuple[str, str | None, str | None]] = [(reply.lease_id, reply.job_id, None)]
        return mine + (leases_in(reply.session, principal) if reply.session else [])
    return []
