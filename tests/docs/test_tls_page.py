"""The page on TLS and proxies is followed: its CA signs, its Caddy and nginx run, and clients go through them."""

import http.client
import re
import shlex
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.support.connections import Response
from tests.support.documents import Block, Machine, blocks_of, follow, replaced
from tests.support.processes import PATIENCE_SECONDS, ROOT, free_port
from tests.support.proxies import find_program, run_caddy, run_nginx
from tests.support.server import ServerProcess

PAGE = ROOT / "docs" / "how-to" / "tls-and-proxies.md"
NAME = "locks.example.org"
HERE = "localhost"

VISIT = """
import threading
import octostore

store = octostore.connect()
claim = store.claim_job("deploy/eu", owner="me")
assert (claim.status, claim.job_id) == ("claimed", "deploy/eu")

events = store.events(after=claim.fencing_token, job_id="deploy/eu", follow=True)
with octostore.connect() as other:
    waiter = threading.Thread(target=lambda: print(other.claim_job("deploy/eu", wait=60).status))
    waiter.start()
    store.release_job("deploy/eu", claim.lease_id)
    print([next(events).type for _ in range(2)])  # while the stream stays open
    waiter.join()
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """With the CA and the certificate of the page, for a name that resolves to this machine."""
    find_program("openssl")
    with Machine(tmp_path_factory.mktemp("tls") / "machine") as machine:
        make, trust, check = (block for block in blocks_of(PAGE, "sh"))
        assert "SSL_CERT_FILE" in trust.text
        assert "octostore claim deploy/eu" in check.text
        printed = blocks_of(PAGE, "text")[0]
        follow([Block("sh", replaced(make.text, {NAME: HERE})), printed], machine)
        yield machine


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """As the page starts it."""
    (line,) = blocks_of(PAGE, "console")
    with ServerProcess(tmp_path_factory.mktemp("home"), *shlex.split(line.text)[2:]) as process:
        yield process
        process.check_has_not_failed()


def certificates(machine: Machine) -> dict[str, object]:
    return {f"/etc/octostore/tls/{name}": machine.folder / name for name in ("cert.pem", "key.pem")}


@contextmanager
def caddy(folder: Path, machine: Machine, server: ServerProcess, port: int) -> Iterator[None]:
    lines = blocks_of(PAGE, "caddyfile")[0].text
    here = {f"{NAME} {{": f"https://{HERE}:{port} {{", "127.0.0.1:3000": f"127.0.0.1:{server.port}"}
    with run_caddy(folder, replaced(lines, {**here, **certificates(machine)}), port):
        yield


@contextmanager
def nginx(
    folder: Path, machine: Machine, server: ServerProcess, port: int, read_timeout: str = "75s"
) -> Iterator[None]:
    (block,) = blocks_of(PAGE, "nginx")
    lines = replaced(block.text, {"proxy_read_timeout 75s": f"proxy_read_timeout {read_timeout}"})
    here = {"listen 443 ssl": f"listen 127.0.0.1:{port} ssl", "127.0.0.1:3000": f"127.0.0.1:{server.port}", NAME: HERE}
    with run_nginx(folder, replaced(lines, {**here, **certificates(machine)}), port):
        yield


def hurried(check: str) -> str:
    """The check, without the minute that a person waits for `curl`, and with as long as it takes for the event."""
    seen = "until grep -q 'claimed it' seen; do sleep 0.02; done\nkill $!"
    return replaced(
        check, {'"wait_seconds": 60': '"wait_seconds": 1', "--follow &": "--follow > seen &", "kill $!": seen}
    )


Proxy = Callable[[Path, Machine, ServerProcess, int], AbstractContextManager[None]]


def request(port: int, machine: Machine, method: str, path: str, body: str, **headers: str) -> Response:
    context = ssl.create_default_context(cafile=machine.folder / "ca.pem")
    connection = http.client.HTTPSConnection(HERE, port, timeout=PATIENCE_SECONDS, context=context)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        return Response.read_from(connection.getresponse())
    finally:
        connection.close()


@pytest.mark.parametrize("proxy", [caddy, nginx], ids=["caddy", "nginx"])
def test_clients_work_through_the_proxy(proxy: Proxy, machine: Machine, server: ServerProcess, tmp_path: Path) -> None:
    port = free_port()
    token = {"OCTOSTORE_TOKEN": server.token}
    _make, trust, check = blocks_of(PAGE, "sh")
    with proxy(tmp_path, machine, server, port):
        # A client that does not trust the CA sends nothing.
        url = {"OCTOSTORE_URL": f"https://{HERE}:{port}"}
        code, printed = machine.start(["octostore", "owner", "job"], {**token, **url}).end()
        assert (code, "SSL_CERT_FILE" in printed) == (69, True), printed

        # One that does gets streams while they are open, and waits.
        typed = replaced(trust.text, {f"https://{NAME}": url["OCTOSTORE_URL"]})
        code, printed = machine.start(["bash", "-euc", f"{typed}\n{hurried(check.text)}"], token).end()
        assert code == 0, printed
        assert '"status":"held"' in printed
        assert " 200\n" in printed
        server.call_job("deploy/eu", "force-release")
        script = machine.folder / "visit.py"
        script.write_text(VISIT, encoding="utf-8")
        trusting = {**token, **url, "SSL_CERT_FILE": str(machine.folder / "ca.pem")}
        code, printed = machine.start(["python3", str(script)], trusting).end()
        assert (code, sorted(printed.splitlines())) == (0, ["['released', 'claimed']", "claimed"]), printed
        server.call_job("deploy/eu", "force-release")

        # The client cannot spoof its address, and the server knows that it was https.
        bearer = {"Authorization": f"Bearer {server.token}"}
        spoofed = {**bearer, "X_Forwarded_For": "203.0.113.9", "Forwarded": "for=203.0.113.9"}
        claimed = request(port, machine, "POST", "/jobs/deploy%2Feu/claim", '{"owner": "curl"}', **spoofed)
        assert claimed.json["status"] == "claimed"
        assert server.call_job("deploy/eu", "claim", {"owner": "other"}).json["host"] == "127.0.0.1"
        server.call_job("deploy/eu", "force-release")
        refused = request(port, machine, "POST", "/mcp", "{}")
        assert refused.status == 401
        assert f'resource_metadata="https://{HERE}:{port}/' in refused.headers["www-authenticate"]


def test_the_check_shows_a_read_timeout_that_is_too_short(
    machine: Machine, server: ServerProcess, tmp_path: Path
) -> None:
    port = free_port()
    (waiting,) = re.findall(r"^curl .*?[^\\]\n", blocks_of(PAGE, "sh")[-1].text, re.MULTILINE | re.DOTALL)
    server.call_job("deploy/eu", "claim", {"owner": "me"})
    with nginx(tmp_path, machine, server, port, read_timeout="1s"):
        env = {"OCTOSTORE_URL": f"https://{HERE}:{port}", "OCTOSTORE_TOKEN": server.token}
        code, printed = machine.start(["bash", "-euc", waiting], {**env, "SSL_CERT_FILE": "ca.pem"}).end()
    server.call_job("deploy/eu", "force-release")
    assert (code, printed.endswith(" 504\n")) == (0, True), printed


def test_caddy_accepts_the_configuration_for_several_servers(tmp_path: Path) -> None:
    config = tmp_path / "Caddyfile"
    config.write_text(blocks_of(PAGE, "caddyfile")[1].text, encoding="utf-8")
    command = [find_program("caddy"), "adapt", "--config", str(config), "--adapter", "caddyfile"]
    env = {"HOME": str(tmp_path), "PATH": ""}
    adapted = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    assert adapted.stdout.count('"dial"') == 2
    assert '"uri":"/readyz"' in adapted.stdout


def test_nginx_waits_longer_than_a_claim_does() -> None:
    (lines,) = blocks_of(PAGE, "nginx")
    (seconds,) = re.findall(r"proxy_read_timeout (\d+)s;", lines.text)
    assert int(seconds) > 60
