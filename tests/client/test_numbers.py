"""Write numbers: a lease may pass to another process, which does not know the numbers already used."""

from unittest import mock

from octostore.client.http import numbers
from octostore.client.http.numbers import Numbers
from octostore.core.commands import CheckpointJob, ClaimJob
from octostore.core.replies import CheckpointReply
from tests.support.world import World

JOB, LEASE = "deploy", "lease-1"


def checkpoint(store: World, own: Numbers, step: int) -> CheckpointReply:
    """Write like the HTTP client: if another process used a higher number, try again with a new one."""
    command = own.number(CheckpointJob(job_id=JOB, lease_id=LEASE, data=b"%d" % step))
    while True:
        reply: CheckpointReply = store.do(command)
        overtaken = own.overtaken(command, reply)
        if overtaken is None:
            return reply
        command = overtaken


def saved_checkpoint(store: World) -> bytes:
    with store.backend.reading() as rows:
        data: bytes = rows.checkpoints[JOB]  # type: ignore[attr-defined]
        return data


def test_writes_of_several_processes_under_one_lease_are_saved_in_call_order() -> None:
    """Whatever their clocks say, one after the other or taking turns."""
    store = World()
    assert store.do(ClaimJob(job_id=JOB, owner="ann")).lease_id == LEASE
    clock = mock.Mock(time=iter([5_000.0, 7_000.0, 6_000.0]).__next__)  # the third one's clock is behind the second's
    writers = [Numbers(), Numbers(), Numbers()]
    turns = [0, 0, 1, 1, 2, 2, 0, 1, 2, 2, 0, 0, 1, 2, 0]
    with mock.patch.object(numbers, "time", clock):
        for step, writer in enumerate(turns):
            checkpoint(store, writers[writer], step)
            assert saved_checkpoint(store) == b"%d" % step
