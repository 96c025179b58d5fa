"""Numbers of writes: a lease may go from one process to another, which does not know what the first one has used."""

from unittest import mock

from octostore.client.http import numbers
from octostore.client.http.numbers import Numbers
from octostore.core.commands import CheckpointJob, ClaimJob
from octostore.core.replies import CheckpointReply
from tests.support.world import World

JOB, LEASE = "deploy", "lease-1"


def checkpoint(store: World, own: Numbers, step: int) -> CheckpointReply:
    """As the HTTP client does it."""
    command = own.number(CheckpointJob(job_id=JOB, lease_id=LEASE, data=b"%d" % step))
    while True:
        reply: CheckpointReply = store.do(command)
        overtaken = own.overtaken(command, reply)
        if overtaken is None:
            return reply
        command = overtaken


def saved(store: World) -> bytes:
    with store.backend.reading() as rows:
        data: bytes = rows.checkpoints[JOB]  # type: ignore[attr-defined]
        return data


def test_what_two_processes_write_under_one_lease_is_saved_in_the_order_of_their_calls() -> None:
    """One after the other, whatever their clocks say, and taking turns."""
    store = World()
    assert store.do(ClaimJob(job_id=JOB, owner="ann")).lease_id == LEASE
    clock = mock.Mock(time=iter([5_000.0, 7_000.0, 6_000.0]).__next__)  # the third's is behind
    writers = [Numbers(), Numbers(), Numbers()]
    turns = [0, 0, 1, 1, 2, 2, 0, 1, 2, 2, 0, 0, 1, 2, 0]
    with mock.patch.object(numbers, "time", clock):
        for step, writer in enumerate(turns):
            checkpoint(store, writers[writer], step)
            assert saved(store) == b"%d" % step
