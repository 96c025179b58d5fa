"""The tests themselves: a run that is killed leaves nothing running."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.processes import PATIENCE_SECONDS, ROOT, until
from tests.support.running import is_alive

NEVER_ENDS = "tests/processes/workers/left_running.py"


def test_what_a_run_has_started_dies_with_it(tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", NEVER_ENDS]
    environment = {**os.environ, "TOLD": str(told), "PYTEST_ADDOPTS": f"--basetemp={tmp_path / 'base'}"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as run:
        try:
            until(lambda: told.exists() or run.poll() is not None, 4 * PATIENCE_SECONDS)
        finally:
            run.kill()
        said, _ = run.communicate(timeout=PATIENCE_SECONDS)
    assert told.exists(), said
    pids = [int(pid) for pid in told.read_text().split()]
    until(lambda: not any(map(is_alive, pids)))
