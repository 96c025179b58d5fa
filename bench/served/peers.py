"""The systems compared, started for the benchmark: our server, other versions of it, etcd and Redis."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from bench.served import words
from bench.served.processes import LOOPBACK, ROOT, Usage, free_port, python, python_of, running
from bench.served.words import TTL_SECONDS, Talk

LIMITS = ("--requests-per-second", "1000000", "--max-connections", "20000")
MANY_STREAMS = ("--max-streams", "20000")
"""Earlier versions do not have this option."""
BEFORE = os.environ.get("OCTOSTORE_BENCH_BEFORE")
"""Another checkout with its own .venv: the server to compare ours with."""
ORIGINAL = os.environ.get("OCTOSTORE_BENCH_ORIGINAL")
"""The binary of the original, in Rust."""


class Peer(NamedTuple):
    title: str
    port: int
    process: "subprocess.Popen[bytes]"
    command: list[str]
    token: str = ""
    etcd_lease: str = ""

    def usage(self) -> Usage:
        return Usage(self.process.pid)

    def locks(self) -> Talk:
        """How to acquire and release a lock."""
        if self.etcd_lease:
            return words.etcd(self.etcd_lease)
        return words.locks(self.token) if self.token else words.redis(1)


def with_locks(folder: Path) -> Iterator[AbstractContextManager[Peer]]:
    """All available systems that speak HTTP, ours first."""
    yield ours(folder / "ours")
    if BEFORE:
        yield before(folder / "before", BEFORE)
    if ORIGINAL:
        yield original(folder / "original", Path(ORIGINAL))
    if is_installed("etcd"):
        yield etcd(folder / "etcd")


def missing() -> list[str]:
    absent = [f"{program}: not measured; it is not installed" for program in PROGRAMS if not is_installed(program)]
    if not BEFORE:
        absent.append("before: not measured; OCTOSTORE_BENCH_BEFORE is not set")
    if not ORIGINAL:
        absent.append("original: not measured; OCTOSTORE_BENCH_ORIGINAL is not set")
    return absent


def ours(folder: Path, url: str | None = None) -> AbstractContextManager[Peer]:
    return octostore("ours", folder, python("octostore"), url, MANY_STREAMS)


def before(folder: Path, checkout: str) -> AbstractContextManager[Peer]:
    return octostore("before", folder, python("octostore", python_of(checkout)))


@contextmanager
def octostore(
    title: str, folder: Path, program: list[str], url: str | None = None, options: tuple[str, ...] = ()
) -> Iterator[Peer]:
    port, place = free_port(), ["--url", url] if url else []
    command = [*program, "serve", "--port", str(port), *place, *LIMITS, *options]
    settings = {"PYTHONPATH": str(ROOT)}  # for the benchmark's own programs
    hello = words.request("GET", "/livez")
    with running(command, folder, port, hello=hello, welcome=b"200 OK", settings=settings) as process:
        yield Peer(title, port, process, command, next(folder.glob("*admin.token")).read_text().strip())


@contextmanager
def original(folder: Path, binary: Path) -> Iterator[Peer]:
    port, token = free_port(), token_hex(16)
    settings = {
        "BIND_ADDR": f"{LOOPBACK}:{port}",
        "DATABASE_URL": str(folder / "original.db"),
        "STATIC_TOKENS": f"bench:{token}",
        "RUST_LOG": "error",
    }
    command, health = [str(binary), "serve"], words.request("GET", "/health")
    with running(command, folder, port, hello=health, welcome=b"200 OK", settings=settings) as process:
        yield Peer("original", port, process, command, token)


@contextmanager
def etcd(folder: Path) -> Iterator[Peer]:
    port, peer = free_port(), free_port()
    clients, peers = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{peer}"
    command = [
        *("etcd", "--data-dir", str(folder / "data"), "--log-level", "error", "--logger", "zap"),
        *("--listen-client-urls", clients, "--advertise-client-urls", clients),
        *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}"),
    ]
    with running(command, folder, port, hello=words.request("GET", "/health"), welcome=b"true") as process:
        # One lease for all, like a client's session: a lease per claim would be a second request.
        lease = _post(port, "/v3/lease/grant", {"TTL": TTL_SECONDS})["ID"]
        yield Peer("etcd", port, process, command, etcd_lease=lease)


@contextmanager
def redis(folder: Path) -> Iterator[Peer]:
    port = free_port()
    command = [
        *("redis-server", "--bind", LOOPBACK, "--port", str(port), "--dir", str(folder)),
        *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
    ]
    with running(command, folder, port, hello="PING\r\n", welcome=b"+PONG") as process:
        yield Peer("Redis", port, process, command)


PROGRAMS = ("etcd", "redis-server")


def is_installed(program: str) -> bool:
    return shutil.which(program) is not None


def versions() -> list[str]:
    said = [
        subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
        for program in PROGRAMS
        if is_installed(program)
    ]
    return [line.partition(" sha=")[0] for line in said]


def _post(port: int, path: str, body: object) -> dict[str, str]:
    connection = HTTPConnection(LOOPBACK, port, timeout=10)
    try:
        connection.request("POST", path, json.dumps(body))
        response: dict[str, str] = json.loads(connection.getresponse().read())
        return response
    finally:
        connection.close()
