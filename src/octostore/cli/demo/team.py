"""The agents' processes, seen from the demo."""

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
from octostore.client.signals import SIGNALLED
from octostore.stores.opening import URL_VARIABLE
from octostore.supervise.signal_pipe import SignalPipe

AGENT_MODULE = "octostore.cli.demo.agent"
BUFFER_BYTES = 65_536


class AgentFailed(Exception):
    """An agent ended unexpectedly."""


class Agent:
    """Its stderr goes to a file in `folder`, to keep it off the screen."""

    def __init__(self, name: str, url: str | None, job_id: str, folder: Path) -> None:
        self.name = name
        self._errors = folder / f"{name}.errors"
        self._unread = b""
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(  # noqa: S603  # no untrusted input
                # -P: do not import modules from the current folder.
                [sys.executable, "-P", "-m", AGENT_MODULE, name, job_id],
                # In the environment, because arguments are public and it may contain a password.
                env=os.environ | ({} if url is None else {URL_VARIABLE: url}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                process_group=0,  # Ctrl-C goes to the demo, which ends all agents
            )
        self._in = cast("IO[bytes]", self._process.stdin)
        self._out = cast("IO[bytes]", self._process.stdout)

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._out.fileno()

    def start(self) -> None:
        with suppress(BrokenPipeError):  # it has ended, which `receive` will notice
            os.write(self._in.fileno(), b"!")

    def receive(self) -> list[m.AgentMessage]:
        """Read its next messages. Raises `EOFError` when it has ended."""
        data = os.read(self.fileno(), BUFFER_BYTES)
        if not data:
            raise EOFError
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [m.decode_message(line) for line in lines]

    def kill(self) -> list[m.AgentMessage]:
        """`kill -9`, and return its last messages."""
        self._process.kill()
        messages = []
        with suppress(EOFError):
            while True:
                messages += self.receive()
        if self._process.wait() != -signal.SIGKILL:
            raise AgentFailed(f"{self.name} ended before it could be killed")
        return messages

    def check_end(self) -> None:
        """Raise `AgentFailed` if it ended with an error. Call it at the end of its output."""
        code = self._process.wait()
        if code:
            errors = self._errors.read_text(encoding="utf-8", errors="replace").strip()
            raise AgentFailed(f"{self.name} ended with exit code {code}: {errors or 'no error message'}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._in.close()
        self._out.close()


class Team:
    """All agents. None is left when the block ends, however it ends."""

    def __init__(self, names: Sequence[str], url: str | None, job_id: str, folder: Path, signals: SignalPipe) -> None:
        self._names = names
        self._url = url
        self._job_id = job_id
        self._folder = folder
        self._signals = signals
        self._agents: list[Agent] = []
        self._selector = selectors.DefaultSelector()
        self._running: set[Agent] = set()

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
        self._running = set(self._agents)
        return self

    def __exit__(self, *_raised: object) -> None:
        self._close()

    @property
    def pids(self) -> dict[str, int]:
        return {agent.name: agent.pid for agent in self._agents}

    @property
    def is_running(self) -> bool:
        """Whether any agent is still running."""
        return bool(self._running)

    def start(self) -> None:
        for agent in self._agents:
            agent.start()

    def receive(self, seconds: float) -> list[tuple[Agent, m.AgentMessage]]:
        """Wait up to `seconds` for messages. A terminating signal raises `SystemExit`."""
        ready = [key.fileobj for key, _ in self._selector.select(seconds)]
        if signals := self._signals.read():
            raise SystemExit(SIGNALLED + signals[0])
        return [
            (agent, message) for agent in ready if isinstance(agent, Agent) for message in self._receive_from(agent)
        ]

    def kill(self, agent: Agent) -> list[m.AgentMessage]:
        self._forget(agent)
        return agent.kill()

    def _receive_from(self, agent: Agent) -> list[m.AgentMessage]:
        try:
            return agent.receive()
        except EOFError:
            self._forget(agent)
            agent.check_end()
            return []

    def _forget(self, agent: Agent) -> None:
        self._running.discard(agent)
        self._selector.unregister(agent)

    def _close(self) -> None:
        for agent in self._agents:
            agent.close()
        self._selector.close()
