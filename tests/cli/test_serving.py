"""Set up: a server, and who may use it."""

import json
import signal
import socket
from pathlib import Path

import pytest

from octostore.wire.tokens import check_token
from tests.cli.conftest import Cli
from tests.support.cli import LiveCli, run_cli
from tests.support.server import ServerProcess


def test_a_server_and_a_client_of_the_same_user(clean: Path) -> None:
    with LiveCli("serve", "--port", "0", "--json") as serving:
        greeting = json.loads(serving.line())
        assert set(greeting) == {"url", "data", "token_file", "page", "api_page", "example"}
        assert greeting["data"] == str(clean / "octostore" / "octostore.db")
        claim = run_cli("claim", "J", "--owner", "ann", "--json", "--url", greeting["url"])
        assert (claim.code, claim.json["principal"]) == (0, "admin")
        assert run_cli("owner", "J", "--json").json["owner"] == "ann", "the same file, without the server"
        token = Path(greeting["token_file"]).read_text().strip()
        serving.process.send_signal(signal.SIGTERM)
        ended = serving.finish()
    assert (ended.code, ended.out) == (0, "")
    assert token not in ended.err


def test_ctrl_c_ends_a_server() -> None:
    with LiveCli("serve", "--port", "0") as serving:
        greeting = serving.line()
        assert greeting.startswith("OctoStore listens on  http://127.0.0.1:")
        assert run_cli("list", "--url", greeting.split()[-1]).code == 0
        ended = serving.interrupt()
    assert ended.code == 0, "that is a clean stop"
    assert "Traceback" not in ended.err


def test_a_server_on_all_interfaces_warns_about_plain_http_and_prints_urls_that_work() -> None:
    with LiveCli("serve", "--port", "0", "--host", "0.0.0.0", "--json") as serving:
        greeting = json.loads(serving.line())
        ended = serving.interrupt()
    port = greeting["url"].rpartition(":")[2]
    assert greeting["url"] == f"http://0.0.0.0:{port}"
    assert greeting["api_page"] == f"http://127.0.0.1:{port}/docs"
    assert greeting["page"] == f"http://127.0.0.1:{port}/"
    assert greeting["example"].endswith(f"http://127.0.0.1:{port}/jobs/hello/claim")
    assert "WARNING plain_http: " in ended.err


@pytest.mark.parametrize("arguments", [[], ["--host", "0.0.0.0", "--trusted-proxy", "10.0.0.0/8"]])
def test_a_server_on_loopback_or_behind_a_proxy_does_not_warn_about_plain_http(arguments: list[str]) -> None:
    with LiveCli("serve", "--port", "0", "--json", *arguments) as serving:
        serving.line()
        ended = serving.interrupt()
    assert "plain_http" not in ended.err


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["--port", "65536"], 64, "'65536' is not a whole number from 0 to 65535"),
        (["--port", "http"], 64, "'http' is not a whole number"),
        (["--max-locks", "0"], 64, "argument --max-locks: '0' is not a whole number of at least 1"),
        (["--idle-seconds", "-1"], 64, "argument --idle-seconds: "),
        (["--url", "http://127.0.0.1:1"], 64, "the store's URL is that of a server; "),
        (["--tokens-file", "/missing"], 64, "/missing"),
        (["--uds", "http.sock", "--port", "8080"], 64, "--uds cannot be combined with --host or --port"),
        (["--uds", "http.sock", "--host", "0.0.0.0"], 64, "--uds cannot be combined with --host or --port"),
        (["--base-path", "octo"], 64, "must look like /octo"),
        (["--base-path", "/a%20b"], 64, "must look like /octo"),
        (["--base-path", "/x/.."], 64, "must look like /octo"),
        (["--base-path", "/jobs/octo"], 64, "--base-path must not begin with /jobs"),
        (
            ["--port", "0", "--host", "192.0.2.1"],
            69,
            "cannot listen on 192.0.2.1:0: Cannot assign requested address; choose",
        ),
    ],
)
def test_a_server_that_cannot_start_says_why(arguments: list[str], code: int, problem: str) -> None:
    done = run_cli("serve", *arguments, "--json")
    assert done.code == code
    assert problem in done.err
    assert problem in done.json["error"]
    assert "Traceback" not in done.err


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_cli("serve", "--port", str(taken.getsockname()[1]))
    assert (done.code, done.out) == (69, "")
    assert "Address already in use" in done.err
    assert "choose another address with --host, --port or --uds" in done.err


def test_tokens(cli: Cli) -> None:
    name = cli.new_name("ci")
    made = cli.run("token", "create", name, "--prefix", "deploy-", "--expires-in", "90d")
    assert (made.code, made.err) == (0, "")
    first, id_line, token_line, last = made.out.splitlines()
    assert first.startswith(f"{name}'s token: read and claim for jobs named deploy-…, valid until 20")
    assert last == "This token is not shown again. Keep it where only its user can read it."
    token_id, token = id_line.split()[1], token_line.split()[1]
    assert token.startswith("octo_")

    listed = cli.run("token", "list")
    assert (listed.code, listed.err) == (0, "")
    (row,) = (line for line in listed.out.splitlines() if token_id in line)
    assert row.split()[:5] == [token_id, name, "read,", "claim", "deploy-"]
    assert row.endswith("valid")
    assert token not in listed.out

    over = cli.run("token", "revoke", token_id)
    assert (over.code, over.out) == (0, f"revoked token {token_id} ({name})\n")
    assert next(line for line in cli.call("token", "list").out.splitlines() if token_id in line).endswith("revoked")
    assert cli.call("token", "revoke", "tok-nobodys").code == 64


def test_json_goes_before_and_after_the_command(cli: Cli) -> None:
    name = cli.new_name("ci")
    for line in (["--json", "token", "list"], ["token", "--json", "list"], ["token", "list", "--json"]):
        assert "tokens" in cli.call(*line).json
    made = cli.json("token", "create", name, "--scope", "read", "--scope", "admin")
    assert sorted(made["scopes"]) == ["admin", "read"]
    assert cli.json("token", "create", name, "--secret")["name"] == name, "--json is JSON, whatever else is asked for"
    assert cli.json("token", "revoke", made["token_id"])["revoked_at"] is not None


def test_the_secret_alone_is_a_token(server: ServerProcess) -> None:
    admin = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.token}
    made = run_cli("token", "create", "dashboard", "--scope", "read", "--secret", **admin)
    assert made.code == 0
    user = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": made.out.strip()}
    assert run_cli("list", **user).code == 0
    assert run_cli("claim", "J", **user).code == 77
    assert run_cli("token", "list", **user).code == 77
    (token,) = (one for one in run_cli("token", "list", "--json", **admin).json["tokens"] if one["name"] == "dashboard")
    assert run_cli("token", "revoke", token["token_id"], **admin).code == 0
    assert run_cli("list", **user).code == 77


def test_a_rotated_token(clean: Path, server: ServerProcess) -> None:
    path = clean / "ci.token"
    path.write_text(server.new_token("ci", "read") + "\n")
    path.chmod(0o600)
    env = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN_FILE": str(path)}
    old = path.read_text().strip()
    done = run_cli("token", "rotate", "--to", str(path), **env)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"wrote ci's new token to {path}; the old one no longer works\n"
    assert path.read_text().strip() != old
    assert path.stat().st_mode & 0o777 == 0o600
    assert run_cli("list", **env).code == 0
    assert run_cli("list", OCTOSTORE_URL=server.url, OCTOSTORE_TOKEN=old).code == 77

    secret = run_cli("token", "rotate", "--secret", **env).out.strip()
    user = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": secret}
    shown = run_cli("token", "rotate", **user)
    first, token_line, last = shown.out.splitlines()
    assert first == "rotated ci's token; the old one no longer works"
    assert last == "This token is not shown again. Keep it where only its user can read it."
    user["OCTOSTORE_TOKEN"] = token_line.split()[1]
    assert run_cli("token", "rotate", "--json", **user).json["name"] == "ci"


def test_a_rotated_admin_token_needs_no_saving(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        env = {"OCTOSTORE_URL": server.url, "OCTOSTORE_HOME": str(server.home)}
        done = run_cli("token", "rotate", **env)
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith("rotated admin's token; the old one no longer works; the server saved the new one ")
        assert "octo_" not in done.out
        assert run_cli("list", **env).code == 0


def test_a_rotated_admin_token_is_shown_if_the_server_did_not_save_it(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        env = {"OCTOSTORE_URL": server.url, "OCTOSTORE_HOME": str(server.home)}
        (link,) = server.home.glob("127.0.0.1:*.token")
        old = link.read_text()
        link.unlink()
        link.touch(mode=0o600)
        link.write_text(old)  # a copy, as a restored folder has it
        done = run_cli("token", "rotate", **env)
        assert done.code == 0
        token = done.out.splitlines()[1].split()[1]
        assert run_cli("list", **env, OCTOSTORE_TOKEN=token).code == 0


def test_a_token_cannot_be_rotated_without_a_server_or_over_another_file(clean: Path, server: ServerProcess) -> None:
    refused = run_cli("token", "rotate", OCTOSTORE_URL="sqlite:///jobs.db")
    assert (refused.code, "must name a server" in refused.err) == (64, True), refused
    path = clean / "notes.txt"
    path.write_text("not a token")
    token = server.new_token("ci", "read")
    done = run_cli("token", "rotate", "--to", str(path), OCTOSTORE_URL=server.url, OCTOSTORE_TOKEN=token)
    assert (done.code, "does not contain a token" in done.err) == (64, True), done
    assert path.read_text() == "not a token"
    assert run_cli("list", OCTOSTORE_URL=server.url, OCTOSTORE_TOKEN=token).code == 0, "it was not rotated"


def test_a_token_is_not_rotated_if_it_cannot_be_written(clean: Path, server: ServerProcess) -> None:
    env = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.new_token("ci", "read")}
    done = run_cli("token", "rotate", "--to", str(clean / "no-such-folder" / "ci.token"), **env)
    assert (done.code, done.out) == (64, ""), "it is not printed instead"
    assert "cannot be written: there is no such folder, or you may not write there; nothing was rotated" in done.err
    assert run_cli("list", **env).code == 0, "it was not rotated"


def test_rotating_a_token_follows_a_link(clean: Path, server: ServerProcess) -> None:
    path, link = clean / "ci.token", clean / "link.token"
    path.touch(mode=0o600)
    path.write_text(server.new_token("ci", "read") + "\n")
    link.symlink_to(path.name)
    env = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN_FILE": str(path)}
    assert run_cli("token", "rotate", "--to", str(link), **env).code == 0
    assert link.is_symlink()
    assert run_cli("list", **env).code == 0, "others who use the file have the new token"


def test_tokens_for_a_tokens_file(clean: Path, server: ServerProcess) -> None:
    done = run_cli("token", "generate", "ci", "--scope", "claim", "--prefix", "deploy-")
    name, scopes, token, prefix = done.out.split()
    assert (done.code, name, scopes, prefix) == (0, "ci", "claim", "deploy-")
    check_token("token", token)
    assert run_cli("token", "generate", "ci").out.split()[1] == "read,claim"
    assert run_cli("token", "generate", "ci", "--secret").out.startswith("octo_")
    assert run_cli("token", "generate", "ci", "--json").json["prefix"] == ""
    for wrong in (["two words"], ["ci", "--prefix", "a#b"]):
        assert run_cli("token", "generate", *wrong).code == 64
    assert not any(clean.rglob("*.db")), "no store is needed"
    refused = run_cli("list", OCTOSTORE_URL=server.url, OCTOSTORE_TOKEN=token)
    assert refused.code == 77, "a token is useless until a server reads the file"


@pytest.mark.usefixtures("empty_store")
def test_a_token_does_not_overwrite_another(clean: Path) -> None:
    path = clean / "ci.token"
    assert run_cli("token", "create", "ci", "--to", str(path)).code == 0
    before = path.read_text()
    done = run_cli("token", "create", "other", "--to", str(path))
    assert (done.code, "already exists and was left unchanged" in done.err) == (64, True), done
    assert path.read_text() == before
    assert [token["name"] for token in run_cli("token", "list", "--json").json["tokens"]] == ["ci"]


def test_a_token_from_a_file(clean: Path, server: ServerProcess) -> None:
    path = clean / "my.token"
    path.write_text(server.new_token("reader", "read") + "\n")
    path.chmod(0o600)
    env = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN_FILE": str(path)}
    assert run_cli("list", **env).code == 0
    path.chmod(0o644)
    refused = run_cli("list", **env)
    assert refused.code == 64
    assert f"chmod 600 {path}" in refused.err


# Folders that others can write to


def test_a_home_that_others_can_write_to_is_refused(empty_store: str, server: ServerProcess) -> None:
    home = Path(empty_store).parent
    home.chmod(0o777)
    advice = f"chmod go-w {home}"
    for command in (["list"], ["claim", "job"], ["serve", "--port", "0"], ["restore", "--forward"]):
        done = run_cli(*command)
        assert (done.code, advice in done.err) == (64, True), done
    looked = run_cli("doctor")
    assert (looked.code, advice in looked.out) == (64, True), looked
    (home / f"127.0.0.1:{server.port}.token").symlink_to(server.token_file)
    done = run_cli("list", OCTOSTORE_URL=server.url)
    assert (done.code, advice in done.err) == (64, True), done
    home.chmod(0o700)
    assert run_cli("list", OCTOSTORE_URL=server.url).code == 0


@pytest.mark.usefixtures("empty_store")
def test_no_token_is_created_in_a_folder_that_others_can_write_to(clean: Path) -> None:
    shared = clean / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    done = run_cli("token", "create", "ci", "--to", str(shared / "ci.token"))
    assert (done.code, f"chmod go-w {shared}" in done.err) == (64, True), done
    assert run_cli("token", "list", "--json").json["tokens"] == []
