"""A process that the tests fork behaves like one that was started normally."""

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
def test_a_forked_process_has_the_same_state_and_output(how: str, has_session: bool) -> None:
    same = options(text=True, start_new_session=has_session)
    forked = run([*DESCRIBED, how], stdin_data="hello", timeout=PATIENCE_SECONDS, **same)
    real = subprocess.run([*DESCRIBED, how], input="hello", timeout=PATIENCE_SECONDS, check=False, **same)
    assert forked.returncode == real.returncode
    assert forked.stderr.splitlines()[-1] == real.stderr.splitlines()[-1]
    (one, *rest), (other, *others) = forked.stdout.splitlines(), real.stdout.splitlines()
    assert rest == others
    one, other = json.loads(one), json.loads(other)
    assert one.pop("random") != other.pop("random")
    assert one == other


def test_each_has_its_own_random_seed() -> None:
    said = [run([*DESCRIBED, "fine"], stdin_data="", text=True, **options()).stdout for _ in range(3)]
    assert len({json.loads(line)["random"] for line in said}) == 3


def test_it_can_be_signalled_from_the_first_moment() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with start([*DESCRIBED, "fine"], stdin=PIPE, **options()) as process:
            process.send_signal(number)
            process.wait(PATIENCE_SECONDS)
        assert process.returncode in {-number, 1}  # 1: a KeyboardInterrupt with a traceback


def test_pythons_startup_variables_are_read() -> None:
    changed = options(env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    said = json.loads(run([*DESCRIBED, "fine"], stdin_data=b"", **changed).stdout)
    assert said["streams"][1][0] == "iso8859-1"


def test_a_missing_folder_and_a_missing_program(tmp_path: Path) -> None:
    assert run([str(tmp_path / "nothing")], **options()).returncode == 127
    assert run([*PROGRAM, "--version"], **options(cwd=tmp_path / "nowhere")).returncode != 0
    assert run([*PROGRAM, "--version"], **options()).returncode == 0


def test_it_is_a_child_of_the_test() -> None:
    process = start([*DESCRIBED, "fine"], stdin=PIPE, **options())
    until(lambda: is_alive(process.pid))
    assert process.poll() is None
    process.kill()
    assert os.waitpid(process.pid, 0) == (process.pid, signal.SIGKILL)
    process.communicate()
