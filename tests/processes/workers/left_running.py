"""A test that another test kills in the middle, after it has written the pids of the processes it started."""

import os
import signal
from pathlib import Path

import psycopg

from tests.support.postgres import postgres_url
from tests.support.processes import Worker
from tests.support.server import ServerProcess
from tests.support.starting import SCRIPT


def test_it_never_ends(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "forked") as forked,
        ServerProcess(tmp_path / "real", program=SCRIPT) as real,
        Worker("puppet", f"sqlite:///{tmp_path}/octostore.db") as puppet,
        psycopg.connect(postgres_url()) as connection,
    ):
        (data,) = connection.execute("SHOW data_directory").fetchone() or ()
        (postmaster, *_) = Path(data, "postmaster.pid").read_text().splitlines()
        ours = [os.getpid(), forked.process.pid, real.process.pid, puppet._process.pid]
        pids_file = Path(os.environ["PIDS_FILE"])
        pids_file.with_suffix(".new").write_text(
            f"{' '.join(map(str, ours))} {postmaster} {connection.info.backend_pid}"
        )
        pids_file.with_suffix(".new").rename(pids_file)
        signal.pause()
