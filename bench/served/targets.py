"""Who is asked for claims, and in which words: OctoStore, a handler that does nothing, etcd and Redis."""

import json
import shlex
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.served.processes import LOOPBACK, free_port, python, running

NAME = "NAME"
NAME_LENGTH = 24
"""All names have the same length, so that requests can be made by putting one into a finished text."""

TTL_SECONDS = 3_600
"""Long enough that nothing expires while it is measured."""

CLAIM = {"owner": "agent-3", "metadata": {"branch": "main"}, "ttl_seconds": TTL_SECONDS}


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """A request with `NAME` in the place of the name, and what the answer must begin with and have in it."""

    request: bytes
    start: bytes
    content: bytes
    is_http: bool = True
    in_base64: bool = False


class Target(NamedTuple):
    title: str
    port: int
    words: Words
    command: list[str]
    asked: str
    """A claim, for people to read."""
    process: "subprocess.Popen[bytes]"
    token: str = ""


@contextmanager
def octostore(folder: Path) -> Iterator[Target]:
    with _our_server("octostore", folder, "/jobs/NAME/claim", "OctoStore") as target:
        yield target


@contextmanager
def nothing(folder: Path) -> Iterator[Target]:
    with _our_server("bench.served.nothing", folder, "/nothing/NAME/claim", "nothing") as target:
        yield target


@contextmanager
def etcd(folder: Path) -> Iterator[Target]:
    """A claim is a key that is put, on a lease, if there is none: one transaction, through the HTTP gateway."""
    port, peer = free_port(), free_port()
    clients, peers = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{peer}"
    command = [
        *("etcd", "--data-dir", str(folder / "data"), "--log-level", "error", "--logger", "zap"),
        *("--listen-client-urls", clients, "--advertise-client-urls", clients),
        *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}"),
    ]
    with running(command, folder, port, http_request("GET", "/health"), b"true") as process:
        # One lease for all, as a client's session has it: granting one for each claim would be a second request.
        lease = json.loads(_post(port, "/v3/lease/grant", {"TTL": TTL_SECONDS}))["ID"]
        value = b64encode(_compact(CLAIM).encode()).decode()
        transaction = {
            "compare": [{"key": NAME, "target": "CREATE", "result": "EQUAL", "create_revision": "0"}],
            "success": [{"requestPut": {"key": NAME, "value": value, "lease": lease}}],
        }
        length = len(b64encode(bytes(NAME_LENGTH)))
        request = http_request("POST", "/v3/kv/txn", transaction, name_length=length)
        words = Words(request=request, start=b"HTTP/1.1 200", content=b'"succeeded":true', in_base64=True)
        yield Target("etcd", port, words, command, f"POST /v3/kv/txn {_compact(transaction)}", process)


@contextmanager
def redis(folder: Path) -> Iterator[Target]:
    port = free_port()
    command = [
        *("redis-server", "--bind", LOOPBACK, "--port", str(port), "--dir", str(folder)),
        *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
    ]
    with running(command, folder, port, b"PING\r\n", b"+PONG") as process:
        parts = ["SET", NAME, _compact(CLAIM), "NX", "PX", str(TTL_SECONDS * 1_000)]
        lengths = [NAME_LENGTH if part == NAME else len(part) for part in parts]
        request = f"*{len(parts)}\r\n" + "".join(
            f"${length}\r\n{part}\r\n" for length, part in zip(lengths, parts, strict=True)
        )
        words = Words(request=request.encode(), start=b"+OK\r\n", content=b"", is_http=False)
        yield Target("Redis", port, words, command, shlex.join(parts), process)


def installed(program: str) -> bool:
    return shutil.which(program) is not None


def version(program: str) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return said.splitlines()[0]


def http_request(
    method: str, path: str, body: object = None, *, token: str = "", name_length: int = len(NAME)
) -> bytes:
    """`body` may have names in it; its length is told as if they were there, with `name_length` bytes each."""
    content = "" if body is None else _compact(body)
    length = len(content) + content.count(NAME) * (name_length - len(NAME))
    head = [f"{method} {path} HTTP/1.1", f"Host: {LOOPBACK}", f"Content-Length: {length}"]
    if body is not None:
        head.append("Content-Type: application/json")
    if token:
        head.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*head, "", content]).encode()


@contextmanager
def _our_server(module: str, folder: Path, path: str, title: str) -> Iterator[Target]:
    port = free_port()
    limits = ("--requests-per-second", "1000000", "--max-connections", "20000")
    command = python(module, "serve", "--port", str(port), *limits)
    with running(command, folder, port, http_request("GET", "/livez"), b"200 OK") as process:
        token = (folder / "admin.token").read_text().strip()
        request = http_request("POST", path, CLAIM, token=token)
        words = Words(request=request, start=b"HTTP/1.1 200", content=b'"status":"claimed"')
        yield Target(title, port, words, command, f"POST {path} {_compact(CLAIM)}", process, token)


def _compact(body: object) -> str:
    return json.dumps(body, separators=(",", ":"))


def _post(port: int, path: str, body: object) -> bytes:
    connection = HTTPConnection(LOOPBACK, port, timeout=10)
    try:
        connection.request("POST", path, json.dumps(body))
        return connection.getresponse().read()
    finally:
        connection.close()
