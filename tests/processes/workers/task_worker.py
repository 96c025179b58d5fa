"""Runs the tasks of a session, one after another, until there are none: some fail, and all leave a trace outside."""

import os
import random
import sys
import time

import octostore
from octostore import Failed, HeldClaim
from octostore.orchestrator import Orchestrator
from tests.processes.workers.talk import hear, say


def handle(claim: HeldClaim) -> dict[str, int]:
    # Where a real task would write to the world: one line, in one piece, with the token of the claim.
    os.write(trace, f"{claim.job_id} {claim.fencing_token}\n".encode())
    claim.checkpoint({"by": session_id})
    time.sleep(random.uniform(0, 2 * work_seconds))
    if claim.payload["fails"]:
        raise Failed("as it was told to")
    return {"by": os.getpid()}


if __name__ == "__main__":
    url, session_id, path = sys.argv[1:4]
    work_seconds = float(sys.argv[4])
    trace = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    retry = octostore.RetryPolicy(base_ms=100, cap_ms=1_000)
    with octostore.connect(url, retry=retry) as store:
        orchestrator = Orchestrator(store)
        say("ready")
        hear()
        orchestrator.work(session_id, f"{session_id}-{os.getpid()}", handle, ttl=2)
