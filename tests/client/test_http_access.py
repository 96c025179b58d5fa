"""Which server a client connects to, where it finds its token, and to whom it does not send it."""

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import octostore
from octostore import InvalidInput, Unreachable
from octostore.client.http.listeners import listening_users
from octostore.client.http.port import HttpPort
from octostore.client.http.server_url import find_server, parse_server_url
from octostore.wire.tokens import new_token
from tests.client.conftest import Connect
from tests.support.cli import run_cli
from tests.support.processes import PATIENCE_SECONDS, ROOT
from tests.support.proxy import Proxy, respond
from tests.support.server import ServerProcess
from tests.support.starting import start

pytestmark = pytest.mark.usefixtures("nothing_set")

REFUSED = respond(401, {"error": "no", "code": "authentication_failed"})
SOURCES = ["argument", "OCTOSTORE_TOKEN", "OCTOSTORE_TOKEN_FILE", "left by the server"]


@pytest.fixture
def listener() -> Iterator[Proxy]:
    """Records every request and refuses it."""
    with Proxy() as proxy:
        yield proxy.always(REFUSED)


def place_token(
    source: str, token: str, home: Path, monkeypatch: pytest.MonkeyPatch, *, mode: int = 0o600, port: int = 3000
) -> dict[str, str]:
    """Put a token where clients look for it; return the arguments that `connect` needs."""
    if source == "argument":
        return {"token": token}
    if source == "OCTOSTORE_TOKEN":
        monkeypatch.setenv(source, token)
        return {}
    home.mkdir(exist_ok=True)
    path = home / f"127.0.0.1:{port}.token"
    if source == "OCTOSTORE_TOKEN_FILE":
        path = home / "some.token"
        monkeypatch.setenv(source, str(path))
    path.write_text(token + "\n")
    path.chmod(mode)
    return {}


# Where the token comes from


@pytest.mark.parametrize("source", SOURCES)
def test_where_the_token_comes_from(
    source: str, connect: Connect, nothing_set: Path, listener: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = {name: new_token() for name in SOURCES}
    options: dict[str, str] = {}
    for name in SOURCES[SOURCES.index(source) :]:  # in order of precedence
        options |= place_token(name, tokens[name], nothing_set, monkeypatch, port=listener.port)
    with pytest.raises(octostore.NotAllowed) as caught:
        connect(listener.url, **options).get_job("job")
    assert [seen.headers["authorization"] for seen in listener.seen] == [f"Bearer {tokens[source]}"]
    assert tokens[source] not in f"{caught.value!r} {caught.value}"


def test_a_client_finds_the_token_of_the_same_users_server(
    connect: Connect, server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTOSTORE_HOME", str(server.home))
    assert connect(server.url).get_job("job").status == "free"
    assert connect(server.url.replace("127.0.0.1", "localhost")).get_job("job").status == "free"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
@pytest.mark.parametrize("source", ["OCTOSTORE_TOKEN_FILE", "left by the server"])
def test_a_token_that_others_can_read_is_refused(
    source: str, mode: int, nothing_set: Path, listener: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = new_token()
    place_token(source, token, nothing_set, monkeypatch, mode=mode, port=listener.port)
    with pytest.raises(InvalidInput, match="chmod 600") as caught:
        octostore.connect(listener.url)
    assert token not in f"{caught.value!r} {caught.value}"
    assert listener.connections == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_a_token_that_systemd_passes_to_a_service_is_accepted(
    nothing_set: Path, listener: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It belongs to another user, and the ACL through which the service reads it looks like group access."""
    place_token("OCTOSTORE_TOKEN_FILE", new_token(), nothing_set, monkeypatch, mode=0o440)
    os.chown(nothing_set / "some.token", 65_534, -1)
    with pytest.raises(octostore.NotAllowed):
        octostore.connect(listener.url).get_job("job")
    assert len(listener.seen) == 1


@pytest.mark.parametrize("source", SOURCES)
def test_a_mistyped_token_is_refused_before_anything_is_sent(
    source: str, connect: Connect, nothing_set: Path, listener: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = new_token()
    for mistyped in (token[:-1], token[:-1] + ("a" if token[-1] != "a" else "b"), token[:9] + token[10:], "hunter2!"):
        options = place_token(source, mistyped, nothing_set, monkeypatch, port=listener.port)
        with pytest.raises(InvalidInput, match=r"(is not|does not contain) an OctoStore token") as caught:
            connect(listener.url, **options)
        assert mistyped not in f"{caught.value!r} {caught.value}"
    assert listener.connections == 0


def test_a_token_file_without_a_token_is_refused(nothing_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place_token("OCTOSTORE_TOKEN_FILE", "", nothing_set, monkeypatch)
    for content in (b"", b"\n", b"\xff\xfe", b"two words"):
        (nothing_set / "some.token").write_bytes(content)
        with pytest.raises(InvalidInput) as caught:
            octostore.connect("http://127.0.0.1:3000")
        assert caught.value.field == "OCTOSTORE_TOKEN_FILE"
        assert f"({nothing_set / 'some.token'}) " in str(caught.value)
    for other in (nothing_set / "nowhere", nothing_set):
        monkeypatch.setenv("OCTOSTORE_TOKEN_FILE", str(other))
        with pytest.raises(InvalidInput, match="cannot be read"):
            octostore.connect("http://127.0.0.1:3000")


def test_an_error_about_a_missing_token_says_where_to_put_one() -> None:
    with pytest.raises(InvalidInput, match="OCTOSTORE_TOKEN") as caught:
        octostore.connect("http://127.0.0.1:3000")
    assert caught.value.field == "token"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:{}", "http://localhost:{}", "http://[::1]:{}", "http://127.0.0.2:{}"]
)
def test_a_servers_token_is_not_used_for_another_address(
    url: str, nothing_set: Path, listener: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    place_token("left by the server", new_token(), nothing_set, monkeypatch, port=listener.port ^ 1)
    with pytest.raises(InvalidInput, match="is required"):
        octostore.connect(url.format(listener.port))
    assert listener.connections == 0


@pytest.mark.parametrize("url", ["https://octostore.example.org", "https://127.0.0.1:3000", "http://[::1]:3000"])
def test_a_servers_token_is_not_used_for_another_server(
    url: str, nothing_set: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place_token("left by the server", new_token(), nothing_set, monkeypatch)
    with pytest.raises(InvalidInput, match="is required"):
        octostore.connect(url)


def test_localhost_means_the_address_with_a_token(
    connect: Connect, nothing_set: Path, listener: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`localhost` may have several addresses, and another user may listen on one of them."""
    place_token("left by the server", new_token(), nothing_set, monkeypatch, port=listener.port)
    with pytest.raises(octostore.NotAllowed):
        connect(f"http://localhost:{listener.port}").get_job("job")
    assert [seen.headers["host"] for seen in listener.seen] == [f"127.0.0.1:{listener.port}"]


STRANGER = """
import socket
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    for _ in range(2):
        with listener.accept()[0] as client:
            print(client.recv(1) or "nothing", flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_token_left_by_a_server_is_not_sent_to_another_users_listener(
    connect: Connect, nothing_set: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["/usr/bin/env", "python3", "-c", STRANGER]  # other users may not be able to run ours
    with start(command, stdout=subprocess.PIPE, text=True, user="nobody", cwd="/") as stranger:
        assert stranger.stdout is not None
        port = int(stranger.stdout.readline())
        place_token("left by the server", new_token(), nothing_set, monkeypatch, port=port)
        store = connect(f"http://127.0.0.1:{port}")
        for _ in range(2):
            with pytest.raises(Unreachable, match="Nothing was sent") as caught:
                store.get_job("job")
            assert caught.value.reason == "other_user"
        heard, _ = stranger.communicate(timeout=PATIENCE_SECONDS)
    assert heard.splitlines() == ["nothing", "nothing"]


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc/net/tcp")
@pytest.mark.parametrize(
    ("bound", "reached", "other"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
        ("0.0.0.0", "127.0.0.1", "::1"),
        ("::1", "::1", "127.0.0.1"),
        ("::", "::1", None),
        ("::", "127.0.0.1", None),
    ],
)
def test_listening_users_come_from_the_system(bound: str, reached: str, other: str | None) -> None:
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    with socket.create_server((bound, 0), family=family, dualstack_ipv6=bound == "::") as listener:
        port = listener.getsockname()[1]
        assert listening_users(reached, port) == {os.geteuid()}
        assert other is None or listening_users(other, port) == set()
    assert listening_users(reached, port) == set()


def test_using_a_remote_server_creates_no_local_folder(nothing_set: Path) -> None:
    with pytest.raises(InvalidInput, match="is required"):
        octostore.connect("https://octostore.example.org")
    assert not nothing_set.exists()


@pytest.mark.parametrize("token", [b"octo_bytes", 5, ""])
def test_an_argument_that_is_not_a_token_is_refused(token: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        octostore.connect("http://127.0.0.1:3000", token=token)  # type: ignore[arg-type]
    assert caught.value.field == "token"


def test_options_of_the_other_kind_of_store_are_refused() -> None:
    with pytest.raises(InvalidInput, match="a file or a database needs none"):
        octostore.connect("memory:", token=new_token())
    with pytest.raises(InvalidInput, match="decided by the server"):
        octostore.connect("http://127.0.0.1:3000", token=new_token(), retry=octostore.RetryPolicy())


# Where the token is sent


@pytest.mark.parametrize(
    "host",
    ["10.0.0.1", "octostore.example.org", "localhost.example.org", "127.0.0.1.example.org", "[fe80::1]", "0.0.0.0"],
)
def test_clear_text_to_another_machine_must_be_allowed(
    host: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, token = f"http://{host}:3000", new_token()
    for value in (None, "", "0", "true"):
        if value is not None:
            monkeypatch.setenv("OCTOSTORE_ALLOW_CLEAR_TEXT", value)
        with pytest.raises(InvalidInput, match="in clear text") as caught:
            connect(url, token=token)
        assert token not in str(caught.value)
    connect(url, token=token, allow_clear_text=True)
    connect(f"https://{host}", token=token)
    monkeypatch.setenv("OCTOSTORE_ALLOW_CLEAR_TEXT", "1")
    connect(url, token=token)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "localhost", "LOCALHOST", "[::1]"])
def test_on_this_machine_clear_text_needs_no_permission(host: str) -> None:
    octostore.connect(f"http://{host}:3000", token=new_token()).close()


@pytest.mark.parametrize("who", ["user:hunter2", ":hunter2", "hunter2"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_password_in_a_url_is_refused_and_not_repeated(scheme: str, who: str, connect: Connect) -> None:
    with pytest.raises(InvalidInput, match="user name or password") as caught:
        connect(f"{scheme}://{who}@127.0.0.1:3000", token=new_token())
    assert "hunter2" not in f"{caught.value!r} {caught.value}"


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http://:3000",
        "http:///jobs",
        "http://127.0.0.1:port",
        "http://127.0.0.1:70000",
        "http://127.0.0.1:0",
        "http://[::1",
        "http://127.0.0.1:3000/?token=hunter2",
        "http://127.0.0.1:3000/#hunter2",
        "http://127.0.0.1:3000/a b",
        "http://127.0.0.1:3000/\xe4",
        "https://a..example.org",
        "https://two words.example.org",
        f"https://{'a' * 64}.example.org",
    ],
)
def test_invalid_urls_are_refused(url: str, connect: Connect) -> None:
    with pytest.raises(InvalidInput) as caught:
        connect(url, token=new_token())
    assert caught.value.field == "url"
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("end", ["", "/"])
def test_a_server_below_a_path(end: str, connect: Connect, server: ServerProcess, job_id: str) -> None:
    with Proxy(server.port, base_path="/teams/one%20two") as proxy:
        store = connect(proxy.url + end, token=server.token)
        name = f"{job_id}/m\xfcller.1"
        assert store.claim_job(name).status == "claimed"
        assert [event.type for event in store.events(job_id=name)] == ["claimed"]
        follower = store.events(job_id=name, follow=True)
        assert next(follower).type == "claimed"
        follower.close()
    path = f"/teams/one%20two/jobs/{job_id}%2Fm%C3%BCller.1/claim"
    assert (proxy.seen[0].method, proxy.seen[0].path) == ("POST", path)
    assert all(seen.path.startswith("/teams/one%20two/events?") for seen in proxy.seen[1:])


def test_a_wrong_base_path_is_unreachable(connect: Connect, server: ServerProcess) -> None:
    with Proxy(server.port, base_path="/teams") as proxy:
        store = connect(proxy.url.replace("/teams", "/groups"), token=server.token)
        with pytest.raises(Unreachable, match="check the URL"):
            store.get_job("job")


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Self-signed, for 127.0.0.1 only, in one file with its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command to make a certificate")
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(path), "-out", str(path) + ".crt"]
    subprocess.run([openssl, *made.split(), *names], check=True, capture_output=True)
    with path.open("a") as file:
        file.write(Path(f"{path}.crt").read_text())
    return path


@pytest.fixture
def secure(certificate: Path, server: ServerProcess) -> Iterator[Proxy]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Proxy(server.port, tls=context) as proxy:
        yield proxy


def test_a_server_without_a_trusted_certificate_gets_no_request(connect: Connect, secure: Proxy) -> None:
    store = connect(secure.url, token=new_token())
    with pytest.raises(Unreachable) as caught:
        store.claim_job("job")
    assert (caught.value.reason, caught.value.is_lasting) == ("certificate", True)
    assert f"the certificate of the server at {secure.url} is not trusted: self-signed certificate" in str(caught.value)
    assert "SSL_CERT_FILE" in str(caught.value)
    with pytest.raises(Unreachable) as following:
        next(iter(store.events(follow=True)))
    assert following.value.reason == "certificate"
    assert secure.connections == 2, "each call tries once"
    assert secure.seen == []


def test_commands_say_at_once_how_to_trust_a_certificate(secure: Proxy, certificate: Path) -> None:
    env = {"OCTOSTORE_URL": secure.url, "OCTOSTORE_TOKEN": new_token()}
    for line in (["owner", "job"], ["run", "job", "--on-unreachable", "wait", "--", "true"]):
        tried = secure.connections
        refused = run_cli(*line, **env)
        assert (refused.code, refused.out) == (69, "")
        assert "octostore:   next  set SSL_CERT_FILE to the file with the CA's certificate" in refused.err
        assert secure.connections == tried + 1
    trusted = run_cli("owner", "job", **env, SSL_CERT_FILE=f"{certificate}.crt")
    assert (trusted.code, secure.seen != []) == (77, True), "the server's own response"


VISIT = """
import asyncio, json, sys
import octostore

url = sys.argv[1]

async def visit():
    async with await octostore.connect_async(url) as store:
        return (await store.get_job("job")).status

with octostore.connect(url) as store:
    results = [store.get_job("job").status for _ in range(3)]
results.append(asyncio.run(visit()))
with octostore.connect(url.replace("127.0.0.1", "localhost")) as store:
    try:
        store.get_job("job")
    except octostore.Unreachable as fault:
        results.append(str(fault))
print(json.dumps(results))
"""


def test_a_server_whose_certificate_is_trusted_is_used(secure: Proxy, server: ServerProcess, certificate: Path) -> None:
    """In its own process, because trusted certificates are read once. Only for the name in the certificate."""
    environment = {"SSL_CERT_FILE": f"{certificate}.crt", "OCTOSTORE_TOKEN": server.token, "PYTHONPATH": "src"}
    done = subprocess.run(
        [sys.executable, "-c", VISIT, secure.url],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *statuses, refusal = json.loads(done.stdout)
    assert statuses == ["free"] * 4
    assert "certificate" in refusal.lower()
    assert [seen.connection for seen in secure.seen] == [1, 1, 1, 2]


# Secrets


def test_no_repr_or_message_contains_a_secret(server: ServerProcess) -> None:
    place = parse_server_url(server.url)
    with octostore.connect(server.url, token=server.token) as store:
        made = store.create_token("shown", scopes=["read", "claim"])
        assert made.token is not None
        claim = store.claim_job("shown", request_id="a-secret-request")
        session = store.open_session("shown")
        with store.hold("shown-held") as held, octostore.connect(server.url, token=made.token) as other:
            shown = [store, other, store._port, place, made, claim, session, session.reply, held, held.reply]
            shown += [store.list_tokens(), store.get_job("shown"), list(store.events()), HttpPort(place, server.token)]
            with pytest.raises(octostore.NotAllowed) as refused:
                other.list_tokens()
            text = f"{shown!r} {shown} {refused.value!r} {refused.value}"
            secrets = [server.token, made.token, claim.lease_id, held.lease_id, session.reply.lease_id, "a-secret"]
    assert [secret for secret in secrets if secret is None or secret in text] == []
    assert find_server(server.url, made.token, None, allow_clear_text=False) == (place, made.token)
