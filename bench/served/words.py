"""The requests that acquire and release a lock on each system."""

import json
from base64 import b64encode

import msgspec

from bench.served.processes import LOOPBACK

NAME = "NAME"
NAME_LENGTH = 24
LEASE = "LEASE"
LEASE_LENGTH = 36
"""All names have the same length, and so do all leases, so a request is a fixed text with both filled in."""

TTL_SECONDS = 3_600
"""Long enough that nothing expires during the measurement."""

OWNER = "agent-3"
METADATA = {"branch": "main"}
VALUE = {"owner": OWNER, "metadata": METADATA}


class Step(msgspec.Struct, frozen=True):
    """A request for `times` names, with placeholders; a correct response contains `expect` once per name."""

    request: str
    expect: str
    times: int = 1


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    steps: tuple[Step, ...]
    size: int = 1
    """Names per request."""
    is_http: bool = True
    in_base64: bool = False


def locks(token: str) -> Talk:
    acquire = {"ttl_seconds": TTL_SECONDS, "metadata": compact(METADATA)}
    return Talk(
        steps=(
            Step(_post("/locks/NAME/acquire", acquire, token), '"status":"acquired"'),
            Step(_post("/locks/NAME/release", {"lease_id": LEASE}, token), "null"),
        )
    )


def jobs(token: str) -> Talk:
    claim = {**VALUE, "ttl_seconds": TTL_SECONDS}
    return Talk(
        steps=(
            Step(_post("/jobs/NAME/claim", claim, token), '"status":"claimed"'),
            Step(_post("/jobs/NAME/release", {"lease_id": LEASE}, token), '"status":"free"'),
        )
    )


def batch(token: str, size: int) -> Talk:
    claim = {"command": "claim_job", "job_id": NAME, **VALUE, "ttl_seconds": TTL_SECONDS}
    release = {"command": "release_job", "job_id": NAME, "lease_id": LEASE}
    steps = [
        Step(_post("/batch", {"commands": [command] * size, "atomic": True}, token), expect, size)
        for command, expect in ((claim, '"status":"claimed"'), (release, '"status":"free"'))
    ]
    return Talk(steps=tuple(steps), size=size)


def etcd(lease: str) -> Talk:
    """Put a key on a lease if it does not exist, in one transaction through the HTTP gateway; then delete it."""
    length = len(b64encode(bytes(NAME_LENGTH)))
    put = {"key": NAME, "value": b64encode(compact(VALUE).encode()).decode(), "lease": lease}
    create = {
        "compare": [{"key": NAME, "target": "CREATE", "result": "EQUAL", "create_revision": "0"}],
        "success": [{"requestPut": put}],
    }
    return Talk(
        steps=(
            Step(request("POST", "/v3/kv/txn", create, name_length=length), '"succeeded":true'),
            Step(request("POST", "/v3/kv/deleterange", {"key": NAME}, name_length=length), '"deleted":"1"'),
        ),
        in_base64=True,
    )


def redis(size: int) -> Talk:
    put = _command("SET", NAME, compact(VALUE), "NX", "PX", str(TTL_SECONDS * 1_000))
    steps = (Step(put * size, "+OK\r\n", size), Step(_command("DEL", NAME) * size, ":1\r\n", size))
    return Talk(steps=steps, size=size, is_http=False)


def request(method: str, path: str, body: object = None, *, token: str = "", name_length: int = NAME_LENGTH) -> str:
    """Content-Length is that of `body` with names and leases filled in."""
    content = "" if body is None else compact(body)
    length = len(content)
    for word, real in ((NAME, name_length), (LEASE, LEASE_LENGTH)):
        length += content.count(word) * (real - len(word))
    head = [f"{method} {path} HTTP/1.1", f"Host: {LOOPBACK}", f"Content-Length: {length}"]
    if body is not None:
        head.append("Content-Type: application/json")
    if token:
        head.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*head, "", content])


def compact(body: object) -> str:
    return json.dumps(body, separators=(",", ":"))


def _post(path: str, body: object, token: str) -> str:
    return request("POST", path, body, token=token)


def _command(*parts: str) -> str:
    lengths = [NAME_LENGTH if part == NAME else len(part) for part in parts]
    lines = [f"${length}\r\n{part}\r\n" for length, part in zip(lengths, parts, strict=True)]
    return f"*{len(parts)}\r\n{''.join(lines)}"
