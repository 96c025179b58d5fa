"""Commands that try to survive (`tests/supervise/commands/survivor.py`), and what they leave behind."""

from collections.abc import Sequence
from pathlib import Path

from tests.support.processes import ROOT, until
from tests.support.running import PYTHON, is_alive
from tests.support.soundness import reading_only

SCRIPT = ROOT / "tests" / "supervise" / "commands" / "survivor.py"
ROLES = {
    "noting": ["command"],
    "ignoring": ["command"],
    "forking": ["child", "child", "command"],
    "setsid": ["child", "command"],
    "daemon": ["command", "daemon"],
}
"""How it tries, and the processes it then has."""


class Survivor:
    def __init__(self, folder: Path, how: str) -> None:
        folder.mkdir()
        self._folder = folder
        self._how = how

    @property
    def command(self) -> Sequence[str]:
        return (*PYTHON, str(SCRIPT), str(self._folder), self._how)

    @property
    def pids(self) -> list[int]:
        return [int(file.stem.rpartition("-")[2]) for file in self._files]

    @property
    def signals(self) -> list[str]:
        """The signals it received, in order."""
        file = self._folder / "signals"
        return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []

    def started(self) -> None:
        """Wait until all of its processes have started."""
        until(lambda: [file.name.partition("-")[0] for file in self._files if file.stat().st_size] == ROLES[self._how])

    def is_alive(self) -> bool:
        return any(is_alive(pid) for pid in self.pids)

    def died(self) -> float:
        """Wait until all of it is dead, and return the latest possible time: seconds since 1970."""
        until(lambda: not self.is_alive())
        return max(float(file.read_text().split()[-1]) for file in self._files)

    @property
    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.beats"))


def stored_expiry(path: Path, job_id: str) -> float:
    """When the stored claim expires, read from the file without a server: seconds since 1970."""
    with reading_only(path) as connection:
        ((expires_at,),) = connection.execute("SELECT expires_at FROM jobs WHERE job_id = ?", (job_id,)).fetchall()
    assert isinstance(expires_at, int), "it is not claimed"
    return expires_at / 1_000
