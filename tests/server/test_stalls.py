"""A store that stalls delays only the callers that wait for it."""

import select
import sys
import time
from pathlib import Path

import apsw

from octostore.stores import pace
from tests.support.connections import Connection
from tests.support.processes import until
from tests.support.server import ServerProcess


def claim(server: ServerProcess, connection: Connection, name: str) -> None:
    connection.request("POST", f"/jobs/{name}/claim", {}, token=server.token)


def has_response(connection: Connection) -> bool:
    return bool(select.select([connection.socket], [], [], 0)[0])


def check_lives(server: ServerProcess) -> None:
    """Reads get responses, and streams start."""
    assert server.get("/livez").status == 200
    assert server.get("/jobs/other").json["status"] == "free"
    with server.stream("/events?after=0") as stream:
        assert stream.next().id == "1"


def test_a_long_write_of_another_process_delays_only_writers(own_server: ServerProcess) -> None:
    other = apsw.Connection(str(own_server.home / "octostore.db"))
    with own_server.connect() as connection:
        claim(own_server, connection, "first")
        assert connection.response().json["status"] == "claimed"
        other.execute("BEGIN IMMEDIATE")
        claim(own_server, connection, "second")
        check_lives(own_server)
        assert not has_response(connection)
        other.execute("ROLLBACK")
        assert connection.response().json["status"] == "claimed"
    other.close()


def test_a_stalling_disk_delays_others_for_one_commit_at_most(tmp_path: Path) -> None:
    stall, stalled = tmp_path / "stall", tmp_path / "stalled"
    with (
        ServerProcess(tmp_path, program=[sys.executable, "-m", "tests.support.slow_disk"]) as server,
        server.connect() as connection,
    ):
        claim(server, connection, "quick")
        assert connection.response().json["status"] == "claimed"
        stall.touch()
        claim(server, connection, "first")
        until(stalled.exists)
        time.sleep(10 * pace.MOMENT_SECONDS)
        stall.unlink()
        assert connection.response().json["status"] == "claimed"
        stalled.unlink()
        stall.touch()
        for name in ("second", "third"):
            claim(server, connection, name)
            until(stalled.exists)
            check_lives(server)
            assert not has_response(connection)
            stall.unlink()
            assert connection.response().json["status"] == "claimed"
            stalled.unlink()
            stall.touch()
        stall.unlink()
