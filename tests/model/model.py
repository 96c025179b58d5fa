"""The rules of OctoStore a second time: small, slow and obvious, from the documents and without the core's code.

If no document says what happens, a comment says so. Call `begin_transaction`, then `apply` for each command. `look`
returns what reads see.
"""

from collections.abc import Iterable
from copy import copy, deepcopy
from typing import Any

from octostore.core import commands as c
from octostore.core.commands import AnyCommand
from tests.model import views
from tests.model.operators import Operators
from tests.model.state import Event, Fields, Refused, Reply, Rule
from tests.model.undo import Undoing

HOUR_MS, MINUTE_MS = 3_600_000, 60_000


class Model(Undoing, Operators):
    def begin_transaction(self, clock: int) -> None:
        """The time is the clock's, but never before the last change. Expiries are recorded."""
        self.now = max(clock, self.mark)
        self.recovered = []
        self.sweep()

    def apply(self, command: AnyCommand) -> Reply:
        """Run the command and return its reply. A refused command changes nothing."""
        rule: Rule = self.rules()[type(command)]
        try:
            return rule(command)
        except Refused as refusal:
            return refusal.reply

    def rules(self) -> dict[type[Any], Rule]:
        return {
            c.ClaimJob: self.claim_job,
            c.AcquireLock: self.acquire_lock,
            c.ClaimNext: self.claim_next,
            c.ClaimTask: self.claim_task,
            c.HeartbeatJob: self.heartbeat_job,
            c.CheckpointJob: self.checkpoint_job,
            c.ReleaseJob: self.release_job,
            c.ReleaseTask: self.release_task,
            c.ReleaseLock: self.release_lock,
            c.Undo: self.undo,
            c.Enqueue: self.enqueue,
            c.SetQueue: self.set_queue,
            c.CancelJob: self.cancel_job,
            c.RequestStop: self.request_stop,
            c.DiscardJob: self.discard_job,
            c.RequeueJob: self.requeue_job,
            c.RequeueMatching: self.requeue_matching,
            c.DiscardMatching: self.discard_matching,
            c.ForceReleaseJob: self.force_release_job,
            c.OpenSession: self.open_session,
            c.KeepSessionAlive: self.keep_session_alive,
            c.SaveSession: self.save_session,
            c.HandOverSession: self.hand_over_session,
            c.CloseSession: self.close_session,
            c.CreateToken: self.create_token,
            c.RotateToken: self.rotate_token,
            c.RevokeToken: self.revoke_token,
            c.Recover: self.recover,
            c.Probe: self.probe,
        }

    def recover(self, _command: c.Recover) -> Reply:
        return Reply("RecoverReply", {"recovered": list(self.recovered), "is_complete": True})

    def probe(self, _command: c.Probe) -> Reply:
        self.changed()
        return Reply("ProbeReply", {"seq": len(self.log), "at": self.now})

    # Reads

    def look(self, clock: int) -> "Model":
        """The state as reads see it: expired leases do not count, although nothing was recorded."""
        seen = copy(self)
        seen.log, seen.ended = list(self.log), list(self.ended)
        if self.has_expiries(max(clock, self.mark)):
            seen.jobs, seen.sessions = deepcopy((self.jobs, self.sessions))
        seen.begin_transaction(clock)
        return seen

    def has_expiries(self, now: int) -> bool:
        ends = [self.expiry(claim) for claim in self.live_claims()]
        ends += [session.expires_at for session in self.sessions.values() if session.status == "open"]
        return min(ends, default=now + 1) <= now

    def get_job(self, name: str) -> Fields:
        return views.job_view(self, self.jobs[name]) if name in self.jobs else views.unknown_job_view(name)

    def list_heartbeats(self, names: Iterable[str]) -> Fields:
        """Of those that have an owner."""
        found = [(name, self.jobs[name].claim) for name in names if name in self.jobs]
        claims = [views.heartbeat_view(self, name, claim) for name, claim in found if claim is not None]
        return {"at": self.now, "claims": claims}

    def list_jobs(self, status: str | None = None, queue: str | None = None) -> list[Fields]:
        found = [job for job in self.jobs.values() if status in {None, job.status} and queue in {None, job.queue}]
        return [views.job_view(self, job, with_documents=False) for job in sorted(found, key=lambda job: job.name)]

    def list_in_run_order(self, queue: str) -> list[Fields]:
        """Ready jobs by priority, then those due later by when, then claimed, dead and done ones."""
        jobs = [job for job in self.jobs.values() if job.queue == queue]
        waiting = [job for job in jobs if job.status == "queued"]
        ready = sorted((job for job in waiting if job.available_at <= self.now), key=lambda job: job.place)
        later = [job for job in waiting if job.available_at > self.now]
        later.sort(key=lambda job: (job.available_at, job.place))
        rest = [job for job in jobs if job.status != "queued"]
        rest.sort(key=lambda job: (("claimed", "dead", "done").index(job.status), job.name))
        return [views.job_view(self, job, with_documents=False) for job in [*ready, *later, *rest]]

    def queue_status(self, queue: str) -> Fields:
        return views.queue_status(self, [queue], None, "", 10_000)

    def list_queues(self, log: list[Event]) -> Fields:
        """By name, with the rates of the last 60 minutes, counted in `log`."""
        queues = {job.queue for job in self.jobs.values() if job.queue} | {name for name, n in self.limits.items() if n}
        queues |= self.pauses.keys()
        return {
            "queues": [self.queue_status(name) | self.rates(name, log) for name in sorted(queues)],
            "more": False,
            "counted_at": self.now,
            "counted_to": 10_000,
            "rates_since": (self.now - HOUR_MS) // MINUTE_MS * MINUTE_MS + MINUTE_MS,
            "bucket_seconds": 60,
        }

    def rates(self, queue: str, log: list[Event]) -> Fields:
        def moments(*types: str) -> list[int]:
            return [event.at for event in log if event.job_id and event.queue == queue and event.type in types]

        def per_minute(*types: str) -> list[int]:
            minutes = [self.now // MINUTE_MS - moment // MINUTE_MS for moment in moments(*types)]
            return [minutes.count(ago) for ago in reversed(range(60))]

        rates = {
            "enqueued": per_minute("enqueued"),
            "done": per_minute("done"),
            "failed": per_minute("failed", "expired"),
        }
        return {"last_claim_at": max(moments("claimed"), default=None), "rates": rates}

    def get_session(self, name: str) -> Fields | None:
        """`name` is `principal/id`."""
        return views.session_view(self, self.sessions[name]) if name in self.sessions else None

    def list_sessions(self, status: str | None = None, principal: str | None = None) -> list[Fields]:
        found = [s for s in self.sessions.values() if status in {None, s.status} and principal in {None, s.principal}]
        return [views.session_view(self, s, with_context=False) for s in sorted(found, key=lambda s: s.name)]

    def list_tokens(self) -> list[Fields]:
        """Newest first, then by id (no document says so)."""
        newest = sorted(self.tokens.values(), key=lambda token: (-token.created_at, token.name))
        return [views.token_view(token) for token in newest]

    def figures(self, clock: int) -> Fields:
        """An expired claim counts as lost before that is recorded, and its job as waiting."""
        now = max(clock, self.mark)
        expired = [job for job in self.jobs.values() if job.claim and self.expiry(job.claim) <= now]
        live = [claim for claim in self.live_claims() if self.expiry(claim) > now]
        queued = [job for job in self.jobs.values() if job.status == "queued"]
        returned = [job for job in expired if job.queue is not None]
        due = [job.available_at for job in queued if job.available_at <= now]
        due += [self.expiry(job.claim) for job in returned if job.claim]
        lost = [e for e in self.log if e.type in {"expired", "force_released"} and e.at > now - HOUR_MS]
        counted = {
            "claimed": len(live),
            "late": sum(self.is_late(claim, now) for claim in live),
            "stuck": sum(self.is_stuck(claim, now) for claim in live),
            "dead": sum(job.status == "dead" for job in self.jobs.values()),
            "open_sessions": sum(s.status == "open" and s.expires_at > now for s in self.sessions.values()),
            "waiting": len(queued) + len(returned),
            "oldest_due_at": min(due, default=None),
            "taken_back": len(lost) + len(expired),
            "queued": {name: sum(job.queue == name for job in queued) for name in {job.queue for job in queued}},
            "seq": len(self.log),
            "at": now,
        }
        return counted | {"status": health(counted, waited_ms=now - min(due, default=now))}


def health(counted: Fields, waited_ms: int) -> str:
    """Judge by the default thresholds of `octostore health`: degraded, unhealthy."""
    levels = [
        (counted["late"], 1, 10),
        (counted["stuck"], 1, 10),
        (counted["dead"], 1, 100),
        (counted["taken_back"], 5, 50),
        (waited_ms, 300_000, 3_600_000),
    ]
    if any(number >= unhealthy for number, _, unhealthy in levels):
        return "unhealthy"
    return "degraded" if any(number >= degraded for number, degraded, _ in levels) else "ok"
