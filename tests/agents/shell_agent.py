"""An agent that has only a shell: each of its commands runs in a new one, and it thinks in between.

`python -m tests.agents.shell_agent NAME DIARIES TTL MAX_SILENCE`. It never heartbeats and never sees a lease.
"""

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from octostore.cli import exit_codes
from tests.agents.diary import IDLE_SECONDS, QUEUE, STEPS, Diary, step_in, thinking_seconds


class Reply(NamedTuple):
    exit_code: int
    document: Any


class ShellAgent:
    def __init__(self, name: str, diaries: Path, ttl: str, max_silence: str) -> None:
        self._diary = Diary(diaries, name)
        self._next = f"octostore next {QUEUE} --keep --ttl {ttl} --max-silence {max_silence} --json"

    def live(self) -> None:
        while True:
            reply = self._type(self._next)
            if reply.exit_code == exit_codes.SUCCESS:
                self._work(reply.document)
            elif reply.exit_code != exit_codes.NOTHING_TO_DO:
                raise RuntimeError(f"next returned {reply}")
            elif reply.document["all_done"]:
                self._diary.note("over")
                return
            else:
                time.sleep(IDLE_SECONDS)

    def _work(self, claim: dict[str, Any]) -> None:
        job_id, token = claim["job_id"], claim["fencing_token"]
        reached = step_in(claim.get("checkpoint"))
        self._diary.note("claimed", job_id, token, reached)
        for step in range(reached + 1, STEPS + 1):
            time.sleep(thinking_seconds())
            if not self._did(f"octostore checkpoint {job_id} {shlex.quote(json.dumps({'step': step}))}"):
                self._diary.note("lost", job_id, token)
                return
            self._diary.note("saved", job_id, token, step)
        time.sleep(thinking_seconds())
        is_done = self._did(f"octostore release {job_id} --outcome done")
        self._diary.note("done" if is_done else "lost", job_id, token)

    def _did(self, command: str) -> bool:
        """Whether the claim was still ours."""
        exit_code = self._type(command).exit_code
        if exit_code not in {exit_codes.SUCCESS, exit_codes.LOST}:
            raise RuntimeError(f"{command} ended with {exit_code}")
        return exit_code == exit_codes.SUCCESS

    def _type(self, command: str) -> Reply:
        self._diary.note("asked", command=command)
        ran = subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
        is_json = "--json" in command and ran.stdout
        return Reply(ran.returncode, json.loads(ran.stdout) if is_json else None)


if __name__ == "__main__":
    ShellAgent(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]).live()
