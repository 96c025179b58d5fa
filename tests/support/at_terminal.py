"""Somebody who sits at a terminal: a session of its own, whose keys the test presses and whose screen it reads."""

import os
import pty
import select
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.processes import PATIENCE_SECONDS
from tests.support.starting import start

CTRL_C, CTRL_D, CTRL_Z = "\x03", "\x04", "\x1a"
PROMPT = "ready> "


class AtTerminal:
    """`command`, with the terminal as its own; it is hung up when the block ends."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._keys, screen = pty.openpty()
        try:
            self.process = start(
                ["setsid", "--ctty", *command],
                env={**env, "TERM": "dumb", "PS1": PROMPT},
                cwd=cwd,
                stdin=screen,
                stdout=screen,
                stderr=screen,
            )
        finally:
            os.close(screen)
        self.pid = self.process.pid
        self.screen = ""
        self._seen = 0

    def press(self, keys: str) -> None:
        os.write(self._keys, keys.encode())

    def see(self, text: str) -> str:
        """Wait until it stands there, behind what was seen before; gives everything up to it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.screen[self._seen :]:
            assert self._read(deadline), f"it ended without {text!r}: {self.screen!r}"
        end = self.screen.index(text, self._seen) + len(text)
        seen, self._seen = self.screen[self._seen : end], end
        return seen

    def enter(self, line: str) -> None:
        """For a shell, which must be waiting for it."""
        self.see(PROMPT)
        self.press(f"{line}\n")
        self.see(f"{line}\n")

    def wait(self) -> int:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE_SECONDS)

    def hang_up(self) -> None:
        if self._keys >= 0:
            os.close(self._keys)
            self._keys = -1

    def foreground(self) -> int:
        """The process group that the terminal belongs to."""
        return os.tcgetpgrp(self._keys)

    def _read(self, deadline: float) -> bool:
        left = max(0.0, deadline - time.monotonic())
        assert select.select([self._keys], [], [], left)[0], f"nothing happens any more: {self.screen!r}"
        try:
            part = os.read(self._keys, 65_536)
        except OSError:  # how Linux says that everybody has closed it
            return False
        self.screen += part.decode().replace("\r\n", "\n")
        return bool(part)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.hang_up()
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
