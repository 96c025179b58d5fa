"""A server on a Unix socket."""

import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE_SECONDS, until
from tests.support.server import ServerProcess


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "http.sock"


@contextmanager
def connected(path: Path) -> Iterator[socket.socket]:
    with closing(socket.socket(socket.AF_UNIX)) as connection:
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect(str(path))
        yield connection


def is_alive(path: Path) -> bool:
    with connected(path) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return connection.recv(64).startswith(b"HTTP/1.1 200 ")


def is_accepting(path: Path) -> bool:
    try:
        with connected(path):
            return True
    except (ConnectionRefusedError, FileNotFoundError):
        return False


def test_the_socket_is_removed_when_the_server_stops(tmp_path: Path, path: Path) -> None:
    with ServerProcess(tmp_path, "--uds", str(path), port=None) as server:
        assert is_alive(path)
        assert server.stop() == 0
        assert not path.exists()


def test_a_server_that_stops_leaves_the_socket_of_the_next_one(tmp_path: Path, path: Path) -> None:
    with ServerProcess(tmp_path, "--uds", str(path), port=None) as first, connected(path) as connection:
        head = f"POST /batch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {first.token}\r\n"
        connection.sendall(f"{head}Expect: 100-continue\r\nContent-Length: 9\r\n\r\n".encode())
        assert connection.recv(64).startswith(b"HTTP/1.1 100 ")  # a request that keeps it from ending
        first.process.send_signal(signal.SIGTERM)
        until(lambda: not is_accepting(path))
        with ServerProcess(tmp_path, "--uds", str(path), port=None):
            connection.close()
            assert first.process.wait(PATIENCE_SECONDS) == 0
            assert is_alive(path)
