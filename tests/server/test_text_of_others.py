"""Users' text comes out of the API as it went in, byte for byte, everywhere."""

import json
from typing import Any

import pytest

from octostore.core.limits import CONTEXT_BYTES, PAYLOAD_BYTES
from tests.support.page_client import Browser
from tests.support.server import ServerProcess
from tests.support.text_of_others import NASTY

SCRIPT = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"&lt;`${a}{{b}}javascript:c()"
CONTROL = "".join(map(chr, [*range(1, 0x20), *range(0x7F, 0xA0)]))
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202eevil\u2066\u2067\u2068\u2069 \u2028\u2029"
TEXTS = {"script": SCRIPT, "control": CONTROL, "bidi": BIDI, "hidden": NASTY}
SECONDS = 600


def encode(document: Any) -> bytes:
    """JSON as the client sends it and the server returns it, with minimal escaping."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


@pytest.fixture(scope="module")
def page(server: ServerProcess) -> Browser:
    browser = Browser(server)
    browser.log_in(token=server.token)
    return browser


def read(server: ServerProcess, page: Browser, path: str) -> bytes:
    """Read from the API, and check that the page gets the same."""
    response = server.get(path)
    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    assert page.get(f"/ui/api{path}").body == response.body
    return response.body


def send(server: ServerProcess, path: str, body: Any) -> Any:
    response = server.request("POST", path, raw=encode(body))
    assert response.status in {200, 201}, response
    return response.json


@pytest.mark.parametrize("kind", TEXTS)
def test_texts_and_documents_come_out_as_they_went_in(server: ServerProcess, page: Browser, kind: str) -> None:
    text, job = TEXTS[kind], f"text-{kind}"
    owner = text if kind == "script" else "someone"
    document = {"text": text, text: [text, None]}
    send(server, "/jobs", {"kind": "build", "queue": job, "job_id": job, "payload": document})
    terms = {"owner": owner, "metadata": document, "ttl_seconds": SECONDS}
    lease = send(server, f"/jobs/{job}/claim", terms)["lease_id"]
    send(server, f"/jobs/{job}/heartbeat", {"lease_id": lease, "progress": text})
    send(server, f"/jobs/{job}/checkpoint", {"lease_id": lease, "data": document})

    held = read(server, page, f"/jobs/{job}")
    for field, value in {"payload": document, "checkpoint": document, "metadata": document, "note": text}.items():
        assert b'"%s":%s' % (field.encode(), encode(value)) in held
    assert json.loads(held)["claim"]["owner"] == owner
    assert b'"metadata":%s' % encode(document) in read(server, page, f"/jobs?prefix={job}&status=claimed")

    ending = {"lease_id": lease, "outcome": "failed", "error": text, "note": text, "retry_after_seconds": 0}
    send(server, f"/jobs/{job}/release", ending)
    (attempt,) = json.loads(read(server, page, f"/jobs/{job}"))["previous"]
    assert (attempt["owner"], attempt["error"], attempt["note"]) == (owner, text, text)
    heir = send(server, f"/queues/{job}/claim", {"owner": "heir", "ttl_seconds": SECONDS})
    assert (heir["payload"], heir["checkpoint"], heir["note"]) == (document, document, text)
    late = server.post(f"/jobs/{job}/heartbeat", {"lease_id": lease})
    assert (late.status, late.json["ended"]["error"], late.json["ended"]["note"]) == (409, text, text)

    events = json.loads(read(server, page, f"/events?job={job}"))["events"]
    failed = next(event["data"] for event in events if event["type"] == "failed")
    assert (failed["owner"], failed["error"], failed["note"]) == (owner, text, text)
    with server.stream(f"/events?job={job}") as stream:
        assert [frame.data for frame in stream.take(len(events))] == events


@pytest.mark.parametrize("kind", ["control", "bidi", "hidden"])
def test_names_and_reasons_with_control_characters_are_refused(server: ServerProcess, kind: str) -> None:
    """People read them, in one line."""
    server.post("/jobs/read/claim", {"owner": "someone", "ttl_seconds": SECONDS})
    seq = server.seq
    for path, body in {
        "/jobs/unread/claim": {"owner": TEXTS[kind]},
        "/jobs/read/force-release": {"reason": TEXTS[kind]},
        "/jobs/requeue": {"reason": TEXTS[kind]},
        "/sessions": {"agent": TEXTS[kind]},
        "/tokens": {"name": TEXTS[kind]},
    }.items():
        refused = server.post(path, body)
        assert (refused.status, refused.json["code"]) == (400, "invalid_input"), path
        assert "control characters" in refused.json["error"]
    assert server.seq == seq


@pytest.mark.parametrize("kind", TEXTS)
def test_documents_of_exactly_the_limit_are_accepted(server: ServerProcess, page: Browser, kind: str) -> None:
    job = f"large-{kind}"
    payload, context = document_of_size(TEXTS[kind], PAYLOAD_BYTES), document_of_size(TEXTS[kind], CONTEXT_BYTES)
    send(server, "/jobs", {"kind": "build", "queue": job, "job_id": job, "payload": payload})
    assert b'"payload":%s' % encode(payload) in read(server, page, f"/jobs/{job}")
    claim = {"owner": "someone", "ttl_seconds": SECONDS}
    assert encode(payload) in server.post(f"/queues/{job}/claim", claim).body
    lease = send(server, "/sessions", {"agent": "ann", "session_id": job, "ttl_seconds": SECONDS})["lease_id"]
    saved = server.request("PUT", f"/sessions/{job}/context", raw=encode({"lease_id": lease, "context": context}))
    assert saved.status == 200
    assert b'"context":%s' % encode(context) in read(server, page, f"/sessions/{job}")
    assert encode(payload) not in read(server, page, f"/jobs?prefix={job}"), "lists leave documents out"
    over = {"kind": "build", "job_id": f"{job}-2", "payload": [*payload, "x" * 8]}
    refused = server.request("POST", "/jobs", raw=encode(over))
    assert (refused.status, refused.json["limit"]) == (400, PAYLOAD_BYTES)


def document_of_size(text: str, size: int) -> list[str]:
    """A document of exactly `size` bytes."""
    each = len(encode(text)) + 1
    texts = [text] * ((size - 8) // each)
    return [*texts, "x" * (size - len(encode([*texts, ""])))]
