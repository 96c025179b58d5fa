"""The tests themselves: a run that is killed leaves nothing running."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.processes import PATIENCE_SECONDS, ROOT, until
from tests.support.running import is_alive

NEVER_ENDS = "tests/processes/workers/left_running.py"


@pytest.fixture
def left_behind() -> Iterator[Path]:
    """For a killed run. Not in pytest's folder: for root, PostgreSQL is another user, who cannot enter it."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


def test_processes_that_a_run_started_die_with_it(tmp_path: Path, left_behind: Path) -> None:
    pids_file = tmp_path / "pids"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", NEVER_ENDS]
    environment = {**os.environ, "PIDS_FILE": str(pids_file), "TMPDIR": str(left_behind)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as run:
        try:
            until(lambda: pids_file.exists() or run.poll() is not None, 4 * PATIENCE_SECONDS)
        finally:
            run.kill()
        output, _ = run.communicate(timeout=PATIENCE_SECONDS)
    assert pids_file.exists(), output
    pids = [int(pid) for pid in pids_file.read_text().split()]
    until(lambda: not any(map(is_alive, pids)))
