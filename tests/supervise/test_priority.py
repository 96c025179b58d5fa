"""The process that must end a command in time runs with priority, and the command does not."""

import json
import os
import sys

import pytest

import octostore as library
from tests.support.losses import UNPRIVILEGED
from tests.support.processes import until
from tests.support.running import PYTHON, Octostore
from tests.support.starting import LATE, SCRIPT

SHOW = (
    "import os, json; print(json.dumps([os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0), os.getppid()]))"
)
OURS = os.getpriority(os.PRIO_PROCESS, 0)
WAIT = "import sys; sys.stdin.readline()"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="policies are Linux's")


def policies(octostore: Octostore, *prefix: str) -> tuple[list[int], list[int]]:
    """The scheduling policy and niceness of the guardian, and of its command."""
    reading, writing = os.pipe()
    command = (*PYTHON, "-c", f"{SHOW}; sys = __import__('sys'); sys.stdout.flush(); {WAIT}")
    with os.fdopen(reading), os.fdopen(writing, "w") as stdin:
        run = octostore.start("run", "job", "--", *command, program=(*prefix, *SCRIPT), stdin=reading)
        guardian = run.guardian
        until(lambda: run.out.endswith("\n"))
        policy, nice, parent = json.loads(run.out)
        assert parent == guardian
        seen = [os.sched_getscheduler(guardian), os.getpriority(os.PRIO_PROCESS, guardian)]
        stdin.write("continue\n")
    assert run.wait().code == 0
    return seen, [policy, nice]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_privileged_guardian_runs_with_priority_and_its_command_does_not(octostore: Octostore) -> None:
    (policy, _), command = policies(octostore)
    assert policy == os.SCHED_RR
    assert command == [os.SCHED_OTHER, OURS]
    assert policies(octostore, "nice", "-n", "5")[1] == [os.SCHED_OTHER, OURS + 5]
    assert policies(octostore, "chrt", "--batch", "0")[1] == [os.SCHED_BATCH, OURS]


def test_an_unprivileged_guardian_works_without_priority(octostore: Octostore) -> None:
    prefix = UNPRIVILEGED if os.geteuid() == 0 else ()
    assert policies(octostore, *prefix) == ([os.SCHED_OTHER, OURS], [os.SCHED_OTHER, OURS])


def test_a_ttl_that_the_machine_cannot_keep_is_refused_before_anything_is_claimed(
    octostore: Octostore, store: library.OctoStore
) -> None:
    store.enqueue("kind")
    for call in (["run", "job"], ["work", "default", "--until-empty"]):
        refused = octostore.start(*call, "--ttl", "4", "--", "true", program=LATE)
        kept = octostore.start(*call, "--ttl", "60", "--", "true", program=LATE)
        code, out, err = refused.wait()
        assert (code, out) == (64, "")
        assert "ttl of 4 seconds is too short" in err
        assert "The shortest safe TTL right now is 4." in err or "The shortest safe TTL right now is 5" in err
        assert kept.wait().code == 0
    assert [event.type for event in store.events()] == ["enqueued", "claimed", "released", "claimed", "done"]
