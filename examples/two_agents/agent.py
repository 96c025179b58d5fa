"""One agent. It works through a session's tasks, chapter by chapter, from the last checkpoint.

Run any number of these, on any machines: the one that has the session works, and the others wait.
"""

import argparse
import signal
import threading
import time
from pathlib import Path

import octostore
from octostore.orchestrator import Orchestrator

TTL_SECONDS = 5
"""Short, to keep the example short; the library's default is 120."""
CHAPTER_SECONDS = 0.2
A_LONG_TIME = 60.0


class Agent:
    def __init__(self, orchestrator: Orchestrator, args: argparse.Namespace) -> None:
        self.orchestrator = orchestrator
        self.name: str = args.name
        self.session_id: str = args.session
        self.book: Path = args.book
        self.slow_chapter: int | None = args.slow_chapter
        self.leaves_during: str | None = args.leaves_during
        self.ttl: float = args.ttl
        self.stop = threading.Event()

    def run(self) -> None:
        self.wait_while_somebody_works()
        # Task after task, with heartbeats from a thread that the work cannot block.
        self.orchestrator.work(self.session_id, self.name, self.do_task, ttl=self.ttl, stop=self.stop)

    def wait_while_somebody_works(self) -> None:
        try:
            state = self.orchestrator.session_state(self.session_id)
        except octostore.NotFound:
            return  # a new session
        if state.status == "open" and state.agent != self.name:
            self.say(f"sees that {state.agent} has the session ({state.phase}, next: {state.next_action}) and waits")
        while state.status == "open" and state.agent != self.name:
            time.sleep(0.05)
            state = self.orchestrator.session_state(self.session_id)
        for lost in self.orchestrator.stale_recovery(self.name):
            self.say(f"takes over {lost.job_id}: no heartbeat from {lost.owner} for {lost.ttl:g} s")

    def do_task(self, claim: octostore.HeldClaim) -> dict[str, int]:
        chapters: int = claim.payload["chapters"]
        done: int = (claim.last_checkpoint or {"done": 0})["done"]
        self.tell_what_came_with_it(claim, done)
        for chapter in range(done + 1, chapters + 1):
            self.say(f"begins chapter {chapter}")
            time.sleep(A_LONG_TIME if chapter == self.slow_chapter else CHAPTER_SECONDS)
            claim.check()  # raises LeaseLost unless the task is certainly ours, so a late owner writes nothing
            with self.book.open("a", encoding="utf-8") as book:
                book.write(f"{claim.job_id} {chapter} {self.name} {claim.fencing_token}\n")
            claim.checkpoint({"done": chapter})
            self.save(claim, chapter, chapters)
            if claim.job_id == self.leaves_during:
                self.hand_over(claim, chapter + 1)
                break  # the task is no longer ours, so our return value settles nothing
        else:
            self.say(f"has finished {claim.job_id}")
        return {"chapters": chapters}

    def tell_what_came_with_it(self, claim: octostore.HeldClaim, done: int) -> None:
        state = self.orchestrator.session_state(self.session_id)
        since = [event.type for event in self.orchestrator.events_since(self.session_id)]
        self.say(f"has {claim.job_id} (attempt {claim.attempt}, fencing token {claim.fencing_token}), {done} done")
        if done:
            self.say(f"finds the state of turn {state.turn}: {state.last_action}; next: {state.next_action}")
            self.say(f"reads what happened since: {', '.join(since)}")
        if state.note:
            self.say(f"finds the note that came with it: {state.note}")

    def save(self, claim: octostore.HeldClaim, chapter: int, chapters: int) -> None:
        following = f"chapter {chapter + 1}" if chapter < chapters else "the next task"
        self.orchestrator.save_state(
            self.session_id,
            claim.lease_id,
            phase="executing",
            last_action=f"chapter {chapter} of {claim.job_id}",
            next_action=following,
            turn=(self.orchestrator.session_state(self.session_id).turn or 0) + 1,
        )

    def hand_over(self, claim: octostore.HeldClaim, chapter: int) -> None:
        note = f"chapter {chapter} is next; mind the names"
        claim.hand_over("home", note)
        self.stop.set()
        self.say(f"has handed the session over to home, with the note: {note}")

    def say(self, text: str) -> None:
        print(f"{self.name}: {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="the name that others see")
    parser.add_argument("--url", help="the store (by default OCTOSTORE_URL, or your own file)")
    parser.add_argument("--session", default="book")
    parser.add_argument("--book", type=Path, default=Path("book.txt"), help="the file to write to")
    parser.add_argument("--slow-chapter", type=int, help="a chapter that takes long enough for a kill -9")
    parser.add_argument("--leaves-during", metavar="TASK", help="hand the session over after a chapter of this task")
    parser.add_argument(
        "--ttl",
        type=float,
        default=TTL_SECONDS,
        help="seconds without a heartbeat after which this agent counts as gone",
    )
    args = parser.parse_args()
    # An agent that dies uses up an attempt, and the task waits before the next one; here, only briefly.
    retry = octostore.RetryPolicy(base_ms=200)
    with Orchestrator(octostore.connect(args.url, retry=retry)) as orchestrator:
        agent = Agent(orchestrator, args)
        signal.signal(signal.SIGTERM, lambda *_: agent.stop.set())
        agent.run()


if __name__ == "__main__":
    main()
