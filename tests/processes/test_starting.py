"""A process that tests have forked is like one that was started."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import PATIENCE_SECONDS, ROOT, until
from tests.support.running import is_alive
from tests.support.starting import PROGRAM, run, start

DESCRIBED = [sys.executable, "-m", "tests.processes.workers.described"]
PIPE = subprocess.PIPE


def options(**others: Any) -> dict[str, Any]:
    return {"cwd": ROOT, "env": {**os.environ, "MARK": "of this test"}, "stdout": PIPE, "stderr": PIPE, **others}


@pytest.mark.parametrize(
    ("how", "has_session"),
    [("3", False), ("fine", True), ("fail", False), ("raise", False), ("leave a thread", False)],
)
def test_it_has_and_does_the_same(how: str, has_session: bool) -> None:
    same = options(text=True, start_new_session=has_session)
    forked = run([*DESCRIBED, how], stdin_data="hello", timeout=PATIENCE_SECONDS, **same)
    real = subprocess.run([*DESCRIBED, how], input="hello", timeout=PATIENCE_SECONDS, check=False, **same)
    assert forked.returncode == real.returncode
    assert forked.stderr.splitlines()[-1] == real.stderr.splitlines()[-1]
    (one, *rest), (other, *others) = forked.stdout.splitlines(), real.stdout.splitlines()
    assert rest == others
    one, other = json.loads(one), json.loads(other)
    assert one.pop("chance") != other.pop("chance")
    assert one == other


def test_each_has_chance_of_its_own() -> None:
    said = [run([*DESCRIBED, "fine"], stdin_data="", text=True, **options()).stdout for _ in range(3)]
    assert len({json.loads(line)["chance"] for line in said}) == 3


def test_it_can_be_signalled_from_the_first_moment() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with start([*DESCRIBED, "fine"], stdin=PIPE, **options()) as process:
            process.send_signal(number)
            process.wait(PATIENCE_SECONDS)
        assert process.returncode in {-number, 1}  # 1 is a KeyboardInterrupt that had to be told


def test_what_a_python_reads_when_it_starts_is_read() -> None:
    changed = options(env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    said = json.loads(run([*DESCRIBED, "fine"], stdin_data=b"", **changed).stdout)
    assert said["streams"][1][0] == "iso8859-1"


def test_a_folder_that_is_not_there_and_a_program_that_is_not_there(tmp_path: Path) -> None:
    assert run([str(tmp_path / "nothing")], **options()).returncode == 127
    assert run([*PROGRAM, "--version"], **options(cwd=tmp_path / "nowhere")).returncode != 0
    assert run([*PROGRAM, "--version"], **options()).returncode == 0


def test_it_is_ours_to_wait_for() -> None:
    process = start([*DESCRIBED, "fine"], stdin=PIPE, **options())
    until(lambda: is_alive(process.pid))
    assert process.poll() is None
    process.kill()
    assert os.waitpid(process.pid, 0) == (process.pid, signal.SIGKILL)
    process.communicate()
