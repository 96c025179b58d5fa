"""A test that another one kills in the middle. What it has started is written down for that one to look after."""

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
        told = Path(os.environ["TOLD"])
        told.with_suffix(".new").write_text(f"{' '.join(map(str, ours))} {postmaster} {connection.info.backend_pid}")
        told.with_suffix(".new").rename(told)
        signal.pause()
