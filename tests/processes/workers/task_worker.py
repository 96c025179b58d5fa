"""Runs the tasks of a session, one after another, until none are left: some fail, and each writes a line to a file."""

import os
import random
import sys
import time

import octostore
from octostore import Failed, HeldClaim
from octostore.orchestrator import Orchestrator
from tests.processes.workers.talk import hear, say

LONGEST_TTL = 30


def handle(claim: HeldClaim) -> dict[str, int]:
    # In place of a real task's side effect: one line, in one write, with the claim's fencing token.
    os.write(trace, f"{claim.job_id} {claim.fencing_token}\n".encode())
    claim.checkpoint({"by": session_id})
    time.sleep(random.uniform(0, 2 * work_seconds))
    if claim.payload["fails"]:
        raise Failed("as its payload says")
    return {"by": os.getpid()}


def work(orchestrator: Orchestrator, ttl: float) -> None:
    try:
        orchestrator.work(session_id, f"{session_id}-{os.getpid()}", handle, ttl=ttl)
    except octostore.InvalidInput:
        if ttl > LONGEST_TTL:
            raise
        work(orchestrator, 2 * ttl)  # the machine is too busy for leases this short


if __name__ == "__main__":
    url, session_id, path = sys.argv[1:4]
    work_seconds = float(sys.argv[4])
    trace = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    retry = octostore.RetryPolicy(base_ms=100, cap_ms=1_000)
    with octostore.connect(url, retry=retry) as store:
        orchestrator = Orchestrator(store)
        say("ready")
        hear()
        work(orchestrator, ttl=2)
