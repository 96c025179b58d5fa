"""The processes of the demo, as whoever started them knows them."""

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Self, cast

from octostore.cli.demo import messages as m
from octostore.stores.opening import URL_VARIABLE
from octostore.supervise.signal_pipe import SignalPipe

AGENT_MODULE = "octostore.cli.demo.agent"
BUFFER_BYTES = 65_536


class AgentFailed(Exception):
    """An agent has ended in a way that is not part of the demo."""


class Agent:
    """Its errors go to a file in `folder`: they would spoil what is on the screen."""

    def __init__(self, name: str, url: str | None, job_id: str, folder: Path) -> None:
        self.name = name
        self._errors = folder / f"{name}.errors"
        self._unread = b""
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(  # noqa: S603  # nothing in it comes from outside
                # -P: what lies in the folder where somebody tries this is none of our modules.
                [sys.executable, "-P", "-m", AGENT_MODULE, name, job_id],
                # Not among the arguments: there may be a password in it.
                env=os.environ | ({} if url is None else {URL_VARIABLE: url}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                process_group=0,  # Ctrl-C is for the demo, which ends them all
            )
        self._in = cast("IO[bytes]", self._process.stdin)
        self._out = cast("IO[bytes]", self._process.stdout)

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._out.fileno()

    def go(self) -> None:
        with suppress(BrokenPipeError):  # it has ended, which is noticed when it is listened to
            os.write(self._in.fileno(), b"!")

    def hear(self) -> list[m.Said]:
        """What it says next, once it can be read. Raises `EOFError` when it has ended."""
        data = os.read(self.fileno(), BUFFER_BYTES)
        if not data:
            raise EOFError
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [m.read_said(line) for line in lines]

    def kill(self) -> list[m.Said]:
        """`kill -9`; gives what it had still said before."""
        self._process.kill()
        said = []
        with suppress(EOFError):
            while True:
                said += self.hear()
        if self._process.wait() != -signal.SIGKILL:
            raise AgentFailed(f"{self.name} had ended before it could be killed")
        return said

    def check_end(self) -> None:
        """Once it has nothing more to say."""
        code = self._process.wait()
        if code:
            errors = self._errors.read_text(encoding="utf-8", errors="replace").strip()
            raise AgentFailed(f"{self.name} ended with {code}: {errors or 'it has not said why'}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._in.close()
        self._out.close()


class Team:
    """All of them. None is left when the block ends, in whatever way."""

    def __init__(self, names: Sequence[str], url: str | None, job_id: str, folder: Path, signals: SignalPipe) -> None:
        self._names = names
        self._url = url
        self._job_id = job_id
        self._folder = folder
        self._signals = signals
        self._agents: list[Agent] = []
        self._selector = selectors.DefaultSelector()
        self._talking: set[Agent] = set()

    def __enter__(self) -> Self:
        self._selector.register(self._signals, selectors.EVENT_READ)
        try:
            for name in self._names:
                self._agents.append(Agent(name, self._url, self._job_id, self._folder))
        except BaseException:
            self._close()
            raise
        for agent in self._agents:
            self._selector.register(agent, selectors.EVENT_READ)
        self._talking = set(self._agents)
        return self

    def __exit__(self, *_raised: object) -> None:
        self._close()

    @property
    def pids(self) -> dict[str, int]:
        return {agent.name: agent.pid for agent in self._agents}

    @property
    def is_at_work(self) -> bool:
        """Whether any of them has not ended yet."""
        return bool(self._talking)

    def go(self) -> None:
        for agent in self._agents:
            agent.go()

    def hear(self, seconds: float) -> list[tuple[Agent, m.Said]]:
        """What they have said, after waiting for it up to `seconds`. A signal to end raises `SystemExit`."""
        ready = [key.fileobj for key, _ in self._selector.select(seconds)]
        if signals := self._signals.read():
            raise SystemExit(128 + signals[0])
        return [(agent, said) for agent in ready if isinstance(agent, Agent) for said in self._hear_one(agent)]

    def kill(self, agent: Agent) -> list[m.Said]:
        self._forget(agent)
        return agent.kill()

    def _hear_one(self, agent: Agent) -> list[m.Said]:
        try:
            return agent.hear()
        except EOFError:
            self._forget(agent)
            agent.check_end()
            return []

    def _forget(self, agent: Agent) -> None:
        self._talking.discard(agent)
        self._selector.unregister(agent)

    def _close(self) -> None:
        for agent in self._agents:
            agent.close()
        self._selector.close()
