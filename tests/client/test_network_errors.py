"""What a person reads when a server cannot be reached, and the owner name if the environment has none."""

import errno
import os
import pwd
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from octostore.client.http.connections import Connections
from octostore.client.http.responses import connection_failed
from octostore.client.http.server_url import parse_server_url
from octostore.client.owner import person
from octostore.stores.base import TryAgain


def message_for(error: OSError) -> str:
    failed = connection_failed("https://locks.example.org", error)
    assert isinstance(failed, TryAgain)
    return str(failed.fault)


def test_the_reason_comes_without_the_errno() -> None:
    refused = ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    assert message_for(refused) == "cannot communicate with the server at https://locks.example.org: Connection refused"


def test_a_program_that_does_not_speak_http_was_reached_all_the_same() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        connections = Connections(parse_server_url(url), "token")
        with ThreadPoolExecutor() as threads, closing(connections):
            asking = threads.submit(connections.call, "GET", "/", None, 5)
            speaker, _ = listener.accept()
            speaker.sendall(b"220 mail.example.org ESMTP\r\n\r\n")
            with pytest.raises(TryAgain) as caught:
                asking.result()
            speaker.close()
    assert str(caught.value.fault) == f"cannot communicate with the server at {url}: its response is not HTTP"


def test_https_to_a_server_that_speaks_http_says_so() -> None:
    wrong = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)")
    assert message_for(wrong).endswith("; does the server use plain http://?")


def test_without_a_user_in_the_environment_the_account_names_the_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("USER", "LOGNAME", "OCTOSTORE_OWNER"):
        monkeypatch.delenv(name, raising=False)
    assert person() == f"{pwd.getpwuid(os.getuid()).pw_name}@{os.uname().nodename}"
