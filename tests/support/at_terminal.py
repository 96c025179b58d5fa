"""A user at a terminal: a separate session in which the test presses keys and reads the screen."""

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
    """Runs `command` on its own terminal, which is hung up when the block ends."""

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
        """Wait until the text appears after what was seen before, and return everything up to it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.screen[self._seen :]:
            assert self._read(deadline), f"it ended without {text!r}: {self.screen!r}"
        end = self.screen.index(text, self._seen) + len(text)
        seen, self._seen = self.screen[self._seen : end], end
        return seen

    def enter(self, line: str) -> None:
        """Type a line into a shell, once it waits for one."""
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
        """The terminal's foreground process group."""
        return os.tcgetpgrp(self._keys)

    def _read(self, deadline: float) -> bool:
        left = max(0.0, deadline - time.monotonic())
        assert select.select([self._keys], [], [], left)[0], f"no more output: {self.screen!r}"
        try:
            part = os.read(self._keys, 65_536)
        except OSError:  # what Linux reports when all others have closed it
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
