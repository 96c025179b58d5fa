"""A line that is not a message gets an error, and the next message gets its response."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import PATIENCE_SECONDS
from tests.support.starting import PROGRAM, start

PARSE_ERROR, INVALID_REQUEST = -32_700, -32_600
HELLO = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
MEGABYTE = b"x" * 2**20
CASES: dict[str, tuple[bytes, int, str | int | None]] = {
    "half a surrogate pair": (rb'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"\ud800"}}', PARSE_ERROR, 7),
    "the other half": (rb'{"jsonrpc":"2.0","id":"a","method":"ping","params":{"\udc00x":1}}', PARSE_ERROR, "a"),
    "as the id": (rb'{"jsonrpc":"2.0","id":"\ud800","method":"ping"}', PARSE_ERROR, None),
    "not UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\xff\xfe"}}', PARSE_ERROR, None),
    "a surrogate in UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}', PARSE_ERROR, 1),
    "cut off": (b'{"jsonrpc":"2.0","id":1,"method":"pi', PARSE_ERROR, None),
    "words": (b"hello?", PARSE_ERROR, None),
    "NUL": (b"\0", PARSE_ERROR, None),
    "too deep": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":' + b"[" * 100_000, PARSE_ERROR, None),
    "an invalid number": (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"x":01}}', PARSE_ERROR, None),
    "a list": (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID_REQUEST, None),
    "an empty list": (b"[]", INVALID_REQUEST, None),
    "a number": (b"5", INVALID_REQUEST, None),
    "another version": (b'{"jsonrpc":"1.0","id":3,"method":"ping"}', INVALID_REQUEST, 3),
    "no version": (b'{"id":4,"method":"ping"}', INVALID_REQUEST, 4),
    "no method": (b'{"jsonrpc":"2.0","id":5}', INVALID_REQUEST, 5),
    "a list of arguments": (b'{"jsonrpc":"2.0","id":6,"method":"ping","params":[1]}', INVALID_REQUEST, 6),
    "an id that is null": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID_REQUEST, None),
    "an id that is not a whole number": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID_REQUEST, None),
    "an id that is too large": (b'{"jsonrpc":"1.0","id":' + b"9" * 999 + b',"method":"ping"}', INVALID_REQUEST, None),
    "too long": (b'{"jsonrpc":"2.0","id":1,"method":"' + 9 * MEGABYTE + b'"}', INVALID_REQUEST, None),
}


class Talk:
    def __init__(self, folder: Path) -> None:
        pipe = subprocess.PIPE
        env = {**os.environ, "OCTOSTORE_HOME": str(folder)}
        self.process = start([*PROGRAM, "mcp"], stdin=pipe, stdout=pipe, stderr=pipe, env=env)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout

    def say(self, line: bytes) -> None:
        self._stdin.write(line + b"\n")
        self._stdin.flush()

    def hear(self) -> Any:
        return json.loads(self._stdout.readline())


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    """One for all cases, so each also shows that the previous one did no harm."""
    talk = Talk(tmp_path_factory.mktemp("store"))
    talk.say(json.dumps(HELLO).encode())
    assert talk.hear()["id"] == "hello"
    yield talk
    out, err = talk.process.communicate(timeout=PATIENCE_SECONDS)
    assert (talk.process.returncode, out, err) == (0, b"", b"")


@pytest.mark.parametrize("case", CASES)
def test_a_line_that_is_not_a_message_gets_an_error(talk: Talk, case: str) -> None:
    line, code, request_id = CASES[case]
    talk.say(line)
    response = talk.hear()
    assert (response["jsonrpc"], response["id"], response["error"]["code"]) == ("2.0", request_id, code)
    assert "this is not " in response["error"]["message"] or "at most 4,194,304 bytes" in response["error"]["message"]
    talk.say(b'{"jsonrpc":"2.0","id":"next","method":"ping"}')
    assert talk.hear() == {"jsonrpc": "2.0", "id": "next", "result": {}}


def test_cancelling_an_unknown_request_does_nothing(talk: Talk) -> None:
    for nothing in ("7", "[]", "{}", "null", "true", '"next"'):
        cancel = f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{nothing}}}}}'
        talk.say(cancel.encode() + b'\n{"jsonrpc":"2.0","id":1,"result":{}}\n')  # neither does an unexpected response
    talk.say(b'{"jsonrpc":"2.0","method":"notifications/cancelled"}')
    talk.say(b'{"jsonrpc":"2.0","id":"next","method":"ping"}')
    assert talk.hear() == {"jsonrpc": "2.0", "id": "next", "result": {}}


def test_a_cancellation_that_crosses_the_response_releases_what_was_claimed(tmp_path: Path) -> None:
    """A client that cancels drops the response, so its agent would not know what it holds."""
    talk = Talk(tmp_path)
    calls = {
        "claim": {"name": "claim_job", "arguments": {"job_id": "crossing"}},
        "open": {"name": "open_session", "arguments": {"session_id": "crossing"}},
    }
    received: list[str] = []
    for name, call in calls.items():
        talk.say(json.dumps({"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": call}).encode())
        result = talk.hear()["result"]
        assert result["isError"] is False
        received += [notice["text"] for notice in result["content"][1:]]
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": name}}
        talk.say(json.dumps(cancel).encode())
    look = {"name": "get_job_owner", "arguments": {"job_id": "crossing"}}
    ends_at = time.monotonic() + PATIENCE_SECONDS
    for number in count():
        if len(received) == len(calls) or time.monotonic() > ends_at:
            break
        talk.say(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": look}).encode())
        reply, *notices = talk.hear()["result"]["content"]
        received += [notice["text"] for notice in notices]
    assert json.loads(reply["text"])["status"] == "free"
    assert sorted(text.split(" because")[0] for text in received) == [
        "lease_lost: 'crossing' was released",
        "lease_lost: session 'crossing', with every claim bound to it, was released",
    ]
    _, err = talk.process.communicate(timeout=PATIENCE_SECONDS)
    assert (talk.process.returncode, err) == (0, b"octostore: released crossing\n")


def test_too_many_requests_and_one_id_twice(talk: Talk) -> None:
    wait = {"name": "claim_next_job", "arguments": {"queue": "nothing-here", "wait": 600}}
    for number in (*range(200), 0, 200):
        request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": wait}
        talk.say(json.dumps(request).encode())
    twice, too_many = talk.hear(), talk.hear()
    assert (twice["id"], twice["error"]["code"]) == (0, INVALID_REQUEST)
    assert (too_many["id"], too_many["error"]["code"]) == (200, -32_000)
    for number in range(200):
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        talk.say(json.dumps(cancel).encode())
    ping = b'{"jsonrpc":"2.0","id":"next","method":"ping"}'
    talk.say(ping)
    while (response := talk.hear()).get("error"):
        talk.say(ping)  # cancelling takes a moment
    assert response == {"jsonrpc": "2.0", "id": "next", "result": {}}


def test_blank_lines_are_ignored(talk: Talk) -> None:
    talk.say(b'\n  \r\n{"jsonrpc":"2.0","id":"next","method":"ping"}')
    assert talk.hear() == {"jsonrpc": "2.0", "id": "next", "result": {}}


def test_null_parameters_count_as_none(talk: Talk) -> None:
    """Some clients send null for what they leave out."""
    talk.say(b'{"jsonrpc":"2.0","method":"notifications/initialized","params":null}')
    talk.say(b'{"jsonrpc":"2.0","id":"next","method":"ping","params":null}')
    assert talk.hear() == {"jsonrpc": "2.0", "id": "next", "result": {}}


def test_tools_can_still_be_called(talk: Talk) -> None:
    payload = {"text": "ä" * 200_000, "more": "\U0001f419\x00"}
    call = {"name": "enqueue_job", "arguments": {"kind": "import", "payload": "\\u00e4" * 10}}
    talk.say(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode())
    assert talk.hear()["result"]["isError"] is False
    call = {"name": "enqueue_job", "arguments": {"kind": "import", "payload": payload}}
    talk.say(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}).encode())
    assert talk.hear()["result"]["isError"] is True, "the tool says that it is too large"
