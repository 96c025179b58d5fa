"""One agent of the demo, in its own process: it races for the job, works or waits, and reports on stdout.

A byte on stdin starts the race. When stdin closes, the agent exits, so that none outlives the demo.
"""

import os
import sys
import threading

import octostore
from octostore.cli.demo import messages as m
from octostore.cli.demo.plot import NOTE, PATIENCE_SECONDS, RESULT, STEP_SECONDS, STEPS, TTL_SECONDS

STDIN = 0


def main() -> None:
    name, job_id = sys.argv[1:]
    with octostore.connect() as store:
        store.get_job(job_id)  # opens the store
        say(m.Ready())
        if os.read(STDIN, 1):
            threading.Thread(target=_exit_with_the_demo, daemon=True).start()
            take_part(store, name, job_id)


def take_part(store: octostore.OctoStore, name: str, job_id: str) -> None:
    for wait in (0, PATIENCE_SECONDS):
        try:
            with store.hold(job_id, owner=name, ttl=TTL_SECONDS, wait=wait) as claim:
                work(claim)
        except octostore.Held as held:
            say(m.Held(owner=held.owner, claimed_at=held.claimed_at, heartbeat_at=held.heartbeat_at))
        except octostore.AlreadyDone as done:
            say(m.Done(result=done.result))
            return
        else:
            say(m.Finished(result=RESULT))
            return


def work(claim: octostore.HeldClaim) -> None:
    """The work is only waiting, but progress, checkpoints and heartbeats are real."""
    before = claim.previous[0].owner if claim.previous else None
    say(m.Claimed(attempt=claim.attempt, took_over_from=before, checkpoint=claim.last_checkpoint))
    done = claim.last_checkpoint["step"] if claim.last_checkpoint else 0
    for step, note in list(enumerate(STEPS, start=1))[done:]:
        claim.progress(note, percent=100 * (step - 1) / len(STEPS))
        say(m.Working(step=step, steps=len(STEPS), note=note))
        claim.lost.wait(STEP_SECONDS)
        checkpoint = {"step": step}
        claim.checkpoint(checkpoint)
        say(m.Saved(step=step, steps=len(STEPS), note=note, checkpoint=checkpoint))
    claim.end_as("done", result=RESULT, note=NOTE)


def say(message: m.AgentMessage) -> None:
    sys.stdout.buffer.write(m.encode(message) + b"\n")
    sys.stdout.buffer.flush()


def _exit_with_the_demo() -> None:
    while os.read(STDIN, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
