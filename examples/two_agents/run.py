"""An agent at home is killed in the middle of its work, and one at work continues: `python run.py [URL [OPTION …]]`.

URL names the store that they share, by default `OCTOSTORE_URL`: `postgresql://…` for two machines,
`sqlite:///two-agents.db` to try it on one. Use an empty store. Options, like `--ttl 20`, go to every agent.
"""

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import octostore
from octostore.orchestrator import Orchestrator

AGENT = Path(__file__).with_name("agent.py")
SESSION = "book"


class AgentProcess:
    """An agent in its own process, killed at the end of the block."""

    def __init__(self, name: str, url: str | None, book: Path, *options: str) -> None:
        self.name = name
        where = [] if url is None else ["--url", url]
        command = [sys.executable, str(AGENT), name, *where, "--session", SESSION, "--book", str(book), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def until_it_says(self, beginning: str) -> None:
        """Print its lines up to the first one that starts with `beginning`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            print(f"  {line}", end="", flush=True)
            if line.startswith(f"{self.name}: {beginning}"):
                return
        raise SystemExit(f"{self.name} ended without saying {beginning!r}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.process.kill()
        self.process.communicate()


def main() -> None:
    url, common = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else (None, [])
    with (
        ExitStack() as stack,
        tempfile.TemporaryDirectory() as folder,
        Orchestrator(octostore.connect(url)) as orchestrator,
    ):
        book = Path(folder, "book.txt")
        orchestrator.enqueue_task("translate", {"chapters": 6}, task_id="translate", session_id=SESSION)

        def start(name: str, *options: str) -> AgentProcess:
            return stack.enter_context(AgentProcess(name, url, book, *options, *common))

        print("An agent at home translates a book. A kill -9 ends it in the middle of chapter 4:")
        home = start("home", "--slow-chapter", "4")
        home.until_it_says("begins chapter 4")
        work = start("work", "--leaves-during", "proofread")
        work.until_it_says("sees that home has the session")
        home.process.kill()
        print(f"  (home, process {home.process.pid}, is killed: exit code {home.process.wait()})")

        print("The agent at work continues. In the middle of the next task, it hands the live session back:")
        work.until_it_says("begins chapter 4")
        orchestrator.enqueue_task("proofread", {"chapters": 3}, task_id="proofread", session_id=SESSION)
        work.until_it_says("has handed the session over")
        back_home = start("home")  # within the session's TTL
        back_home.until_it_says("has finished proofread")
        back_home.process.terminate()  # it would stop after the current task; it has none
        back_home.process.wait()

        print("What was written, by whom, and under which fencing token:")
        print("".join(f"  {line}\n" for line in book.read_text(encoding="utf-8").splitlines()), end="")
        print("What the event log says:")
        tell_the_story(orchestrator.store)


def tell_the_story(store: octostore.OctoStore) -> None:
    for event in store.events(session_id=SESSION):
        if event.type != "session_saved":
            what = " ".join(word for word in (event.agent, event.job_id) if word)
            why = f": {event.reason}" if event.reason else ""
            print(f"  {event.seq:>2}  {event.at:%H:%M:%S}  {event.type:<19}  {what}{why}")
    verdict = store.verify()
    print(f"{verdict.events} events, {verdict.claims} claims: {'sound' if verdict.is_sound else verdict.problems}")


if __name__ == "__main__":
    main()
