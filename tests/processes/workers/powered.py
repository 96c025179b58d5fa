"""A short life on a disk that fails at a chosen moment. Every reply is reported before the next call."""

import sys

import octostore
from tests.processes.workers.failing_disk import Disk, FileSystem
from tests.processes.workers.talk import say


def live(path: str) -> None:
    for number in range(3):
        with octostore.connect(f"sqlite:///{path}") as store:
            enqueued = store.enqueue("task", {"number": number}, job_id=f"task-{number}").job_id
            ack("enqueued", job=enqueued, number=number)
            reply = store.claim_next(owner="worker")
            assert reply.lease_id is not None
            ack("claimed", job=reply.job_id, token=reply.fencing_token, owner="worker")
            beat = store.heartbeat_job(enqueued, reply.lease_id, progress=str(number))
            at_ms = round(beat.expires_at.timestamp() * 1_000) - 120_000
            ack("heartbeat", job=enqueued, token=reply.fencing_token, number=number, at_ms=at_ms)
            store.checkpoint_job(enqueued, reply.lease_id, {"token": reply.fencing_token, "number": number})
            ack("checkpoint", job=enqueued, token=reply.fencing_token, number=number)
            store.release_job(enqueued, reply.lease_id, "done", result={"number": number})
            ack("ended", job=enqueued, token=reply.fencing_token, how="done", number=number)


def ack(what: str, **values: object) -> None:
    say({"what": what, "thread": "main", **values})


if __name__ == "__main__":
    disk = Disk(fails_at=int(sys.argv[2]), seed=int(sys.argv[3]))
    file_system = FileSystem(disk)
    live(sys.argv[1])
    say({"what": "lived", "operations": disk.operations})
