"""Stdin, stdout and stderr belong to the command; the end of stderr is saved with the job."""

import os
import random
import subprocess
from pathlib import Path
from typing import BinaryIO

import pytest

import octostore as library
from tests.support.processes import PATIENCE_SECONDS
from tests.support.running import PYTHON, Octostore
from tests.support.starting import PROGRAM, run

ERROR_BYTES = 2_048
NUMBERS = 2_000


def test_every_byte_arrives_as_it_was_written(octostore: Octostore) -> None:
    sent = random.Random(1).randbytes(3_000_000)
    for options in ([], ["--no-stderr"]):
        done = run(
            [*PROGRAM, "run", "job", *options, "--", "tee", "/dev/stderr"],
            env=octostore.env,
            stdin_data=sent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_SECONDS,
        )
        assert (done.returncode, done.stdout == sent, done.stderr == sent) == (0, True, True)


def test_lines_of_both_streams_keep_their_order_if_they_share_a_target(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    count = f"import os\nfor n in range({NUMBERS}): os.write(1 + n % 2, b'%d\\n' % n)\nos._exit(3)"
    expected = "".join(f"{number}\n" for number in range(NUMBERS))
    for job_id, options in (("kept", []), ("not", ["--no-stderr"])):
        command = [*PROGRAM, "run", job_id, *options, "--", *PYTHON, "-c", count]
        done = run(
            command,
            env=octostore.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_SECONDS,
        )
        assert (done.returncode, done.stdout.decode()) == (3, expected)
        with (tmp_path / job_id).open("wb") as log:
            run(command, env=octostore.env, stdout=log, stderr=log, timeout=PATIENCE_SECONDS)
        assert (tmp_path / job_id).read_text() == expected
    assert str(NUMBERS - 1) in (store.get_job("kept").error or "")


def test_the_command_gets_the_very_same_streams_and_is_their_only_reader(octostore: Octostore, tmp_path: Path) -> None:
    identities = "import os; print(*(os.fstat(n).st_ino for n in range(3)))"
    (tmp_path / "in").write_text("first\nsecond\n")
    with (tmp_path / "in").open() as source, (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        expected = [os.fstat(stream.fileno()).st_ino for stream in (source, out, err)]
        subprocess.run(
            [*PROGRAM, "run", "job", "--no-stderr", "--", *PYTHON, "-c", identities],
            env=octostore.env,
            stdin=source,
            stdout=out,
            stderr=err,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
    assert list(map(int, (tmp_path / "out").read_text().split())) == expected
    rest = octostore.shell("printf 'first\\nsecond\\n' | { octostore run job -- bash -c 'read x; echo got $x'; cat; }")
    assert rest.wait().out == "got first\nsecond\n"


def test_a_reader_that_has_enough_ends_the_command(octostore: Octostore) -> None:
    script = "octostore run job -- yes | head -1; echo ${PIPESTATUS[0]}"
    both = "octostore run job -- bash -c 'yes >&2; exit $?' 2>&1 >/dev/null | head -1; echo ${PIPESTATUS[0]}"
    runs = [octostore.shell(script), octostore.shell(both.replace("job", "other"))]
    assert [run.wait().out for run in runs] == ["y\n141\n", "y\n141\n"]


def test_a_full_disk_does_not_end_the_command(octostore: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    """Its log is on that disk. Without us, it would get an error that it can ignore."""
    write = "import os; os.write(2, bytes(1_000_000)); os.write(2, b'the end'); open('finished', 'w'); os._exit(3)"
    with Path("/dev/full").open("wb") as full:
        done = run(
            [*PROGRAM, "run", "job", "--", *PYTHON, "-c", write],
            env=octostore.env,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=full,
            timeout=PATIENCE_SECONDS,
        )
    assert (done.returncode, (tmp_path / "finished").exists()) == (3, True)
    assert (store.get_job("job").error or "").endswith("the end")


def unread_pipe() -> BinaryIO:
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "wb")


@pytest.mark.parametrize("is_full", [True, False], ids=["full disk", "no reader"])
def test_messages_that_nobody_can_read_do_not_fail_a_job(
    octostore: Octostore, store: library.OctoStore, is_full: bool
) -> None:
    """A worker reports the start and end of each job, on stderr."""
    for name in ("first", "second"):
        store.enqueue("build", job_id=name, queue="ci")
    with Path("/dev/full").open("wb") if is_full else unread_pipe() as stderr:
        worked = run(
            [*PROGRAM, "work", "ci", "--max-jobs", "2", "--", "echo", "7"],
            env=octostore.env,
            stdin=subprocess.DEVNULL,
            stderr=stderr,
            timeout=PATIENCE_SECONDS,
        )
        ran = run(
            [*PROGRAM, "run", "third", "--max-run", "0.5", "--", "sleep", "60"],
            env=octostore.env,
            stderr=stderr,
            timeout=PATIENCE_SECONDS,
        )
    assert [store.get_job(name).result for name in ("first", "second")] == [7, 7]
    assert (worked.returncode, ran.returncode) == (0, 143)
    assert "still running" in (store.get_job("third").error or "")


def test_a_closed_stream_is_not_replaced_by_another_file(octostore: Octostore, store: library.OctoStore) -> None:
    # The next file opened would get its number: the socket to the guardian, or the store itself.
    scripts = {
        "stdin": "octostore run stdin -- bash -c 'cat; echo $? >&2' <&-",
        "stdout": "octostore run stdout -- bash -c 'echo lost; echo 0 >&2' >&-",
        "stderr": "octostore run stderr -- bash -c 'echo lost >&2; echo 0' 2>&- >&3",
        "all": "octostore run all -- bash -c 'cat; echo lost; echo lost >&2; echo 0 > last' <&- >&- 2>&-; cat last >&2",
        "work": "octostore work queue --until-empty -- bash -c 'cat >&2; echo 0 >&2' <&- >&-",
    }
    store.enqueue("kind", None, job_id="work", queue="queue")
    runs = {name: octostore.shell(f"exec 3>&2; {script}") for name, script in scripts.items()}
    done = {name: run.wait() for name, run in runs.items()}
    assert {name: (one.code, one.out, one.err.split()[-1]) for name, one in done.items()} == dict.fromkeys(
        scripts, (0, "", "0")
    )
    assert {store.get_job(name).last_outcome for name in scripts} == {"released", "done"}


# The environment


def test_the_environment_arrives_whatever_is_in_it(octostore: Octostore) -> None:
    wanted = {b"NO_TEXT": b"\xff\xfe", b"LINES": b"one\ntwo", b"EMPTY": b"", b"EQUALS": b"a=b=c"}
    long = {f"LONG_{number}".encode(): b"x" * 100_000 for number in range(8)}
    done = subprocess.run(
        [*PROGRAM, "run", "job", "--", "env", "-0"],
        env={os.fsencode(name): os.fsencode(value) for name, value in octostore.env.items()} | wanted | long,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    arrived = dict(variable.split(b"=", 1) for variable in done.stdout.split(b"\0") if variable)
    assert wanted.items() <= arrived.items()
    assert long.items() <= arrived.items()


# The end of stderr


def test_a_failure_is_saved_with_the_end_of_stderr(octostore: Octostore, store: library.OctoStore) -> None:
    long = "import sys; sys.stderr.write('ä' * 500_000 + 'the end'); sys.exit(3)"
    commands = {
        "short": ["bash", "-c", "echo said; echo first >&2; echo 'no disk' >&2; exit 3"],
        "long": [*PYTHON, "-X", "utf8", "-c", long],
        "binary": ["bash", "-c", "printf '\\xff\\0\\xfe oops' >&2; exit 3"],
        "silent": ["bash", "-c", "exit 3"],
        "killed": ["bash", "-c", "echo last >&2; kill -KILL $$"],
        "fine": ["bash", "-c", "echo careful >&2"],
    }
    runs = {job_id: octostore.start("run", job_id, "--", *command) for job_id, command in commands.items()}
    runs["off"] = octostore.start("run", "off", "--no-stderr", "--", *commands["short"])
    dull = "octostore run dull -- bash -c 'echo said; echo error >&2; exit 3' >/dev/null 2>&1"
    runs["dull"] = octostore.shell(dull)
    done = {job_id: run.wait() for job_id, run in runs.items()}
    errors = {job_id: store.get_job(job_id).error for job_id in runs}
    assert errors["short"] == "exit code 3\nfirst\nno disk"
    assert (done["short"].out, done["short"].err) == ("said\n", "first\nno disk\n")
    assert errors["off"] == errors["silent"] == "exit code 3"
    assert done["off"].err == "first\nno disk\n"
    assert errors["killed"] == "killed by SIGKILL\nlast"
    assert errors["binary"] == "exit code 3\n\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER} oops"
    assert errors["dull"] == "exit code 3\nerror"
    assert errors["fine"] is None
    long_error = errors["long"] or ""
    assert long_error.startswith("exit code 3\nä")
    assert long_error.endswith("äthe end")
    assert ERROR_BYTES - 2 <= len(long_error.encode()) <= ERROR_BYTES
    assert {store.get_job(job_id).last_outcome for job_id in runs.keys() - {"fine"}} == {"failed"}
