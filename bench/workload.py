"""Claims of new names, then their heartbeats, then their releases, in batches."""

from collections.abc import Sequence

from octostore.core.commands import AnyCommand, ClaimJob, HeartbeatJob, ReleaseJob
from octostore.core.replies import ClaimReply, HeartbeatReply, ReleaseReply

NAMES = 10_000_000
SPREAD = 7_368_787
"""Scatters names, so that consecutive ones are far apart in an index."""
PHASES = ("claim", "heartbeat", "release")


class Workload:
    """Phases run in order: the later ones need the leases that the claims returned."""

    def __init__(self, jobs: int, batch: int) -> None:
        self._jobs = jobs
        self._batch = batch
        self._leases: list[tuple[str, str]] = []

    def batches(self, phase: str) -> list[Sequence[AnyCommand]]:
        """Build them before the clock starts: that is the callers' work, and they do it in parallel."""
        commands = self._commands(phase)
        return [commands[start : start + self._batch] for start in range(0, len(commands), self._batch)]

    def check(self, replies: Sequence[object]) -> None:
        """Every command must have worked, or its time means nothing."""
        for reply in replies:
            match reply:
                case ClaimReply(status="claimed", job_id=str(job_id), lease_id=str(lease_id)):
                    self._leases.append((job_id, lease_id))
                case HeartbeatReply() | ReleaseReply(status="free"):
                    pass
                case _:
                    raise TypeError(f"a command returned {reply!r}")

    def _commands(self, phase: str) -> Sequence[AnyCommand]:
        if phase == "claim":
            names = (f"github-issue-{number * SPREAD % NAMES}" for number in range(self._jobs))
            return [ClaimJob(job_id=name, owner="agent-3", metadata=b'{"branch":"main"}') for name in names]
        if phase == "heartbeat":
            return [HeartbeatJob(job_id=job_id, lease_id=lease_id) for job_id, lease_id in self._leases]
        return [ReleaseJob(job_id=job_id, lease_id=lease_id) for job_id, lease_id in self._leases]
