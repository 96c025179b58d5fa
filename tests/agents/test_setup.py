"""`setup` in every kind of folder: what was there is unchanged, and `--remove` restores every byte."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from octostore.agents.setup import plan
from octostore.agents.setup.clients import CLIENTS, HOOK_LINE
from octostore.agents.setup.plan import CannotEdit, Scope, removed, set_up, status_of
from octostore.cli.main import main
from octostore.core.errors import InvalidInput
from tests.agents.configurations import BROKEN, CONFIGURATIONS, Configuration
from tests.agents.reading import read_settings, without_ours
from tests.support.cli import Done
from tests.support.starting import SCRIPT

every_client = pytest.mark.parametrize("client", CLIENTS)
every_configuration = pytest.mark.parametrize(
    ("client", "configuration"),
    [
        pytest.param(client, configuration, id=f"{client}-{configuration.name}")
        for client, configurations in CONFIGURATIONS.items()
        for configuration in configurations
    ],
)
every_broken_file = pytest.mark.parametrize(
    ("client", "path", "text"),
    [
        pytest.param(client, path, text, id=f"{path}-{name}")
        for client, files in BROKEN.items()
        for path, name, text in files
    ],
)


def scope_of(client: str, folder: Path) -> Scope:
    return Scope(CLIENTS[client], folder, is_global=False)


def write(folder: Path, files: dict[str, bytes | None]) -> None:
    for name, content in files.items():
        if content is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def tree(folder: Path) -> dict[str, bytes | str | None]:
    """Everything below it: the bytes of files, where links lead, and folders."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


@pytest.fixture
def octostore(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PATH", str(Path(SCRIPT[0]).parent))

    def call(*arguments: str) -> Done:
        capsys.readouterr()
        code = main(arguments)
        return Done(code, *capsys.readouterr())

    return call


# Every kind of folder


def test_there_are_enough_configurations_for_each_client() -> None:
    assert CONFIGURATIONS.keys() == CLIENTS.keys()
    assert all(len(configurations) >= 20 for configurations in CONFIGURATIONS.values())


@every_configuration
def test_set_up_twice_and_removed(client: str, configuration: Configuration, project: Path) -> None:
    write(project, configuration.files)
    servers, hooks = [project / name for name in configuration.files if not name.endswith(".md")]
    scope, before = scope_of(client, project), tree(project)
    settings_before = [without_ours(read_settings(path)) for path in (servers, hooks)]

    set_up(scope)
    once = tree(project)
    check_all_is_there(read_settings(servers), read_settings(hooks))
    assert (project / "AGENTS.md").read_text(encoding="utf-8").count("octostore:begin v2") == 1
    settings = [without_ours(read_settings(path)) for path in (servers, hooks)]
    if client == "cursor" and is_blank(configuration.files[".cursor/hooks.json"]):
        assert settings[1].pop("version") == 1
    assert settings == settings_before

    assert {change.done for change in set_up(scope)} == {"unchanged"}
    assert tree(project) == once
    assert status_of(scope)[0] == "current"

    removed(scope)
    assert tree(project) == before
    assert status_of(scope)[0] != "current"


def is_blank(content: bytes | None) -> bool:
    return (content or b"").removeprefix(b"\xef\xbb\xbf").strip() == b""


def check_all_is_there(servers: dict[str, Any], hooks: dict[str, Any]) -> None:
    ours = (servers.get("mcpServers") or servers.get("mcp_servers") or {})["octostore"]
    assert ours.get("command") == "octostore" or "url" in ours
    lines = [line for line in json.dumps(hooks["hooks"]).split('"') if line.startswith("command -v octostore")]
    events = [line.rpartition(" ")[2] for line in lines]
    assert sorted(events) == ["compaction", "session-end", "session-start", "stop", "tool-use"]
    assert ": null" not in json.dumps([ours, [group for groups in hooks["hooks"].values() for group in groups]])


# What cannot be edited safely


@every_broken_file
def test_nothing_is_changed_if_one_file_cannot_be(client: str, path: str, text: bytes, project: Path) -> None:
    write(project, {path: text, "AGENTS.md": b"# Rules\n"})
    before = tree(project)
    with pytest.raises(CannotEdit, match=Path(path).name) as raised:
        set_up(scope_of(client, project))
    assert tree(project) == before
    assert [str(problem.path.relative_to(project)) for problem in raised.value.problems] == [path]


@every_client
def test_a_read_only_file_is_refused_with_the_command_that_helps(client: str, project: Path, octostore: Any) -> None:
    path = project / CLIENTS[client].parts(False)[0].path
    write(project, {str(path.relative_to(project)): b""})
    path.chmod(0o444)
    before = tree(project)
    done = octostore("setup", client)
    assert done.code == 64
    assert f"chmod u+w {path}" in done.err
    assert f"what belongs in {path.relative_to(project)}" in done.err
    assert "octostore" in done.err
    assert done.out == ""
    assert tree(project) == before


def test_a_failed_removal_shows_what_to_remove(project: Path, octostore: Any) -> None:
    assert octostore("setup", "claude").code == 0
    write(project, {".mcp.json": b'{"octostore'})
    before = tree(project)
    done = octostore("setup", "claude", "--remove")
    assert done.code == 64
    assert "what to remove from .mcp.json:" in done.err
    assert "(it is not valid JSON: line 1, column " in done.err
    assert tree(project) == before


@every_client
def test_a_read_only_folder_is_refused(client: str, project: Path) -> None:
    folder = project / f".{client}"
    folder.mkdir()
    folder.chmod(0o555)
    with pytest.raises(CannotEdit, match="chmod u\\+w"):
        set_up(scope_of(client, project))
    folder.chmod(0o755)
    assert tree(project) == {f".{client}": None}


@every_client
def test_a_file_that_others_can_write_to_is_refused(client: str, project: Path) -> None:
    (project / "AGENTS.md").touch()
    (project / "AGENTS.md").chmod(0o666)
    with pytest.raises(CannotEdit, match="chmod go-w"):
        set_up(scope_of(client, project))


@every_client
def test_a_link_to_elsewhere_is_left_alone(client: str, project: Path, home: Path) -> None:
    (home / "AGENTS.md").write_text("# mine\n", encoding="utf-8")
    (project / "AGENTS.md").symlink_to(home / "AGENTS.md")
    before = tree(project)
    with pytest.raises(CannotEdit, match="symbolic link"):
        set_up(scope_of(client, project))
    assert tree(project) == before
    assert (home / "AGENTS.md").read_text(encoding="utf-8") == "# mine\n"


@every_client
def test_a_folder_that_is_a_link_to_elsewhere_is_refused(client: str, project: Path, home: Path) -> None:
    (project / f".{client}").symlink_to(home)
    with pytest.raises(CannotEdit, match="symbolic link"):
        set_up(scope_of(client, project))
    assert list(home.iterdir()) == []


@every_client
def test_a_link_within_the_folder_stays_a_link(client: str, project: Path) -> None:
    write(project, {"docs/AGENTS.md": b"# Rules"})
    (project / "AGENTS.md").symlink_to("docs/AGENTS.md")
    before = tree(project)
    set_up(scope_of(client, project))
    assert (project / "AGENTS.md").is_symlink()
    assert "octostore" in (project / "docs" / "AGENTS.md").read_text(encoding="utf-8")
    removed(scope_of(client, project))
    assert tree(project) == before


def test_a_claude_md_that_is_a_link_to_agents_md_does_not_import_itself(project: Path) -> None:
    write(project, {"AGENTS.md": b"# Rules\n"})
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    before = tree(project)
    set_up(scope_of("claude", project))
    assert "@AGENTS.md" not in (project / "AGENTS.md").read_text(encoding="utf-8")
    removed(scope_of("claude", project))
    assert tree(project) == before


@every_client
def test_a_folder_in_place_of_a_file_is_refused(client: str, project: Path) -> None:
    (project / "AGENTS.md").mkdir()
    with pytest.raises(CannotEdit, match="not a regular file"):
        set_up(scope_of(client, project))


@every_client
def test_a_skill_of_the_same_name_that_is_not_ours_is_left_alone(client: str, project: Path) -> None:
    (skill,) = [part.path for part in CLIENTS[client].parts(False) if part.path.endswith("SKILL.md")]
    write(project, {skill: b"---\nname: octostore\n---\nmine\n"})
    before = tree(project)
    with pytest.raises(CannotEdit, match="not written by octostore setup"):
        set_up(scope_of(client, project))
    assert tree(project) == before
    removed(scope_of(client, project))
    assert tree(project) == before


@every_client
def test_file_modes_are_kept(client: str, project: Path) -> None:
    path = project / CLIENTS[client].parts(False)[0].path
    write(project, {str(path.relative_to(project)): b""})
    path.chmod(0o600)
    set_up(scope_of(client, project))
    assert path.stat().st_mode & 0o777 == 0o600


@every_client
def test_a_disk_that_fails_halfway_leaves_everything_as_it_was(
    client: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, {"AGENTS.md": b"# Rules\n"})
    before, scope = tree(project), scope_of(client, project)
    real = Path.replace

    def fail_at_the_end(self: Path, target: Path) -> Path:
        if Path(target).name == "AGENTS.md":
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", fail_at_the_end)
    with pytest.raises(InvalidInput, match=r"AGENTS\.md cannot be written: No space left"):
        set_up(scope)
    assert tree(project) == before


# Over time


@every_client
def test_an_outdated_setup_is_updated(client: str, project: Path) -> None:
    scope = scope_of(client, project)
    set_up(scope)
    now = tree(project)
    for path in [path for path in project.rglob("*") if path.is_file()]:
        text = path.read_text(encoding="utf-8")
        text = text.replace("octostore:begin v2", "octostore:begin v1").replace("Other agents work here too. ", "")
        text = text.replace("octostore hook", "octostore-old hook").replace('"timeout": 5', '"timeout": 60')
        text = text.replace("# OctoStore: one owner for each job", "# OctoStore")
        path.write_text(text, encoding="utf-8")
    assert tree(project) != now
    assert status_of(scope)[0] == "outdated"
    set_up(scope)
    assert tree(project) == now
    removed(scope)
    assert tree(project) == {}


@every_client
def test_additions_to_our_files_are_kept(client: str, project: Path) -> None:
    scope = scope_of(client, project)
    set_up(scope)
    hooks = project / CLIENTS[client].parts(False)[1].path
    settings = json.loads(hooks.read_text(encoding="utf-8"))
    settings["hooks"]["Notification"] = [{"command": "./ring.sh"}]
    hooks.write_text(json.dumps(settings, indent=4), encoding="utf-8")
    with (project / "AGENTS.md").open("a", encoding="utf-8") as file:
        file.write("\n# Ours\n")
    removed(scope)
    assert read_settings(hooks)["hooks"] == {"Notification": [{"command": "./ring.sh"}]}
    assert (project / "AGENTS.md").read_text(encoding="utf-8") == "\n# Ours\n"


def test_variables_for_our_server_can_be_added(project: Path) -> None:
    scope = scope_of("claude", project)
    set_up(scope)
    path = project / ".mcp.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["mcpServers"]["octostore"]["env"] = {"OCTOSTORE_URL": "https://locks.example.org"}
    path.write_text(json.dumps(settings), encoding="utf-8")
    assert status_of(scope)[0] == "current"
    removed(scope)
    assert not (project / ".claude").exists()
    assert read_settings(path).get("mcpServers", {}) == {}


def test_a_table_that_somebody_has_added_to_ours_is_not_torn_apart(project: Path) -> None:
    scope = scope_of("codex", project)
    set_up(scope)
    path = project / ".codex" / "config.toml"
    with path.open("a", encoding="utf-8") as file:
        file.write("startup_timeout_sec = 20\n")
    before = tree(project)
    with pytest.raises(CannotEdit, match="other settings depend on"):
        removed(scope)
    assert tree(project) == before


def test_clients_share_the_lines_for_agents(project: Path) -> None:
    write(project, {"AGENTS.md": b"# Rules\n"})
    before = tree(project)
    for client in CLIENTS:
        set_up(scope_of(client, project))
    text = (project / "AGENTS.md").read_text(encoding="utf-8")
    assert text.count("octostore:begin") == 1
    for client in CLIENTS:
        assert (project / "AGENTS.md").read_text(encoding="utf-8") == text
        removed(scope_of(client, project))
    assert tree(project) == before


def test_a_removal_leaves_settings_alone_that_are_not_ours(project: Path) -> None:
    write(project, {".codex/config.toml": b"mcp_servers = 3\n"})
    before = tree(project)
    removed(scope_of("codex", project))
    assert tree(project) == before
    with pytest.raises(CannotEdit, match="not valid TOML"):
        set_up(scope_of("codex", project))
    assert tree(project) == before


# The command


@every_client
def test_the_command(client: str, project: Path, octostore: Any) -> None:
    assert octostore("setup", client, "--check").code == 64
    assert tree(project) == {}
    done = octostore("setup", client)
    assert (done.code, done.err) == (0, "")
    assert "created" in done.out
    assert "next: " in done.out
    assert octostore("setup", client, "--check").code == 0
    again = octostore("setup", client)
    assert {line.split()[0] for line in again.out.splitlines()} == {"unchanged"}
    done = octostore("setup", client, "--remove", "--json")
    assert {file["status"] for file in done.json["files"]} == {"deleted"}
    assert tree(project) == {}
    assert octostore("setup", client, "--remove").out == "there is nothing to remove\n"


def test_a_program_that_clients_will_not_find_is_reported(
    project: Path, octostore: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = octostore("setup", "claude")
    assert (done.code, "octostore is not on your PATH, so clients will not find it; add /" in done.err) == (0, True)
    assert octostore("setup", "claude", "--remove").err == ""
    assert tree(project) == {}


@every_client
def test_printing_changes_nothing(client: str, project: Path, octostore: Any) -> None:
    done = octostore("setup", client, "--print")
    assert tree(project) == {}
    assert "octostore hook session-start" in done.out
    files = octostore("setup", client, "--print", "--json").json["files"]
    set_up(scope_of(client, project))
    for file in files:
        if file["path"] != "CLAUDE.md":
            assert (project / file["path"]).read_text(encoding="utf-8").strip() == file["text"].strip()


def test_a_store_is_named_where_agents_start(project: Path, octostore: Any) -> None:
    """Not only in the settings of the MCP server: hooks and commands would use another store."""
    done = octostore("setup", "claude", "--url", "https://locks.example.org")
    assert (done.code, "set OCTOSTORE_URL" in done.err) == (64, True)
    assert list(project.iterdir()) == []


def test_other_clients_are_shown_what_to_paste(octostore: Any) -> None:
    for arguments in (["--print"], ["windsurf", "--print"]):
        done = octostore("setup", *arguments)
        assert done.code == 0
        assert '"mcpServers"' in done.out
        assert "octostore:begin" in done.out
    done = octostore("setup", "windsurf")
    assert done.code == 64
    assert "octostore setup --print" in done.err


@every_client
def test_setup_for_all_projects_of_a_user(client: str, home: Path, project: Path, octostore: Any) -> None:
    write(home, {".claude.json": b'{"numStartups": 7}', ".codex/config.toml": b'model = "gpt-5"\n'})
    before = tree(home)
    done = octostore("setup", client, "--global")
    assert done.code == 0
    assert "~/" in done.out
    next_step = done.out.partition("\nnext: ")[2]
    assert CLIENTS[client].title in next_step
    assert not re.search(r"\bhere\b|this folder|the project", next_step)
    assert tree(project) == {}
    assert tree(home) != before
    assert octostore("setup", client, "--global", "--check").code == 0
    assert octostore("setup", client, "--global", "--remove").code == 0
    assert tree(home) == before


def test_a_client_may_keep_its_settings_elsewhere(home: Path, octostore: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(home / "elsewhere"))
    assert octostore("setup", "codex", "--global").code == 0
    assert (home / "elsewhere" / "config.toml").exists()
    assert octostore("setup", "codex", "--global", "--remove").code == 0
    assert tree(home) == {}


# Text that somebody else wrote


@every_client
def test_a_server_of_the_same_name_is_left_alone_and_reported(client: str, project: Path, octostore: Any) -> None:
    path = CLIENTS[client].parts(False)[0].path
    (theirs,) = [one.files[path] for one in CONFIGURATIONS[client] if one.name == "their-own-octostore"]
    write(project, {path: theirs})
    line = f"{path} (the MCP server; your own entry octostore is left alone)\n"
    assert f"unchanged {line}" in octostore("setup", client).out
    assert f"current   {line}" in octostore("setup", client, "--check").out
    assert f"unchanged {line}" in octostore("setup", client, "--remove").out
    assert tree(project)[path] == theirs
    (file,) = [file for file in octostore("setup", client, "--json").json["files"] if file["path"] == path]
    assert (file["status"], file["note"]) == ("unchanged", "your own entry octostore is left alone")


@every_client
@pytest.mark.usefixtures("project")
def test_our_own_entry_is_not_reported_as_somebody_elses(client: str, octostore: Any) -> None:
    for _ in range(2):
        assert {file["note"] for file in octostore("setup", client, "--json").json["files"]} == {None}


@pytest.mark.parametrize("command", ["{ours}; ./mine.sh", "command -v octostore >/dev/null && octostore list"])
def test_hooks_about_octostore_that_somebody_else_wrote_are_kept(project: Path, command: str) -> None:
    theirs = {"type": "command", "command": command.format(ours=HOOK_LINE.format(event="stop"))}
    text = json.dumps({"hooks": {"Stop": [{"hooks": [theirs]}]}}).encode()
    write(project, {".claude/settings.json": text})
    scope = scope_of("claude", project)
    set_up(scope)
    assert {"hooks": [theirs]} in read_settings(project / ".claude" / "settings.json")["hooks"]["Stop"]
    removed(scope)
    assert tree(project)[".claude/settings.json"] == text


@pytest.mark.parametrize("end_of_line", ["\n", "\r\n"])
def test_lines_that_somebody_wrote_between_our_marks_are_kept(project: Path, end_of_line: str) -> None:
    scope, path = scope_of("claude", project), project / "AGENTS.md"
    write(project, {"AGENTS.md": f"# Ours{end_of_line}".encode()})
    set_up(scope)
    text = path.read_bytes().decode()
    path.write_bytes(text.replace("## Shared", f"No work on Fridays.{end_of_line}## Shared").encode())
    assert status_of(scope)[0] == "outdated"
    set_up(scope)
    assert path.read_bytes().decode() == f"{text}No work on Fridays.{end_of_line}"
    assert status_of(scope)[0] == "current"
    path.write_bytes(text.replace("## Shared", f"No work on Fridays.{end_of_line}## Shared").encode())
    removed(scope)
    assert path.read_bytes().decode() == end_of_line.join(("# Ours", "", "No work on Fridays.", ""))


@pytest.mark.parametrize(
    "text",
    [
        "# Ours\n<!-- octostore:begin v1 -->\nwithout an end\n",
        "<!-- octostore:begin v1 -->\n",
        "<!-- octostore:end -->\n",
        "in a line <!-- octostore:begin v1 -->\nand <!-- octostore:end -->",
    ],
)
def test_marks_that_are_not_ours_are_kept(project: Path, text: str) -> None:
    write(project, {"AGENTS.md": text.encode()})
    set_up(scope_of("claude", project))
    assert (project / "AGENTS.md").read_text(encoding="utf-8").startswith(text)
    removed(scope_of("claude", project))
    assert tree(project) == {"AGENTS.md": text.encode()}


def test_a_block_that_was_moved_does_not_join_the_lines_around_it(project: Path) -> None:
    set_up(scope_of("claude", project))
    path = project / "AGENTS.md"
    path.write_text(f"# Before\n{path.read_text(encoding='utf-8')}# After\n", encoding="utf-8")
    removed(scope_of("claude", project))
    assert tree(project) == {"AGENTS.md": b"# Before\n# After\n"}


def test_two_clients_can_be_set_up_at_the_same_time(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, {"AGENTS.md": b"# Ours\n"})
    before = tree(project)
    written = plan._write

    def between(*arguments: Any) -> bool:
        monkeypatch.setattr(plan, "_write", written)
        set_up(scope_of("claude", project))
        set_up(scope_of("codex", project))
        return written(*arguments)

    monkeypatch.setattr(plan, "_write", between)
    set_up(scope_of("claude", project))
    assert all(status_of(scope_of(client, project))[0] == "current" for client in ("claude", "codex"))
    for client in ("claude", "codex"):
        removed(scope_of(client, project))
    assert tree(project) == before


def test_a_file_in_place_of_our_temporary_one_is_kept(project: Path) -> None:
    path = project / f".AGENTS.md.{os.getpid()}"
    path.write_text("theirs", encoding="utf-8")
    with pytest.raises(InvalidInput, match="changed nothing"):
        set_up(scope_of("claude", project))
    assert tree(project) == {path.name: b"theirs"}


@every_client
def test_changes_that_somebody_makes_at_the_same_time_are_kept(
    client: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading a file and writing or deleting it."""
    scope, path = scope_of(client, project), project / "AGENTS.md"
    write(project, {"AGENTS.md": b"# Ours\n"})
    before = tree(project)
    written, theirs = plan._write, [b"# Changed\n"]

    def late(*arguments: Any) -> bool:
        path.write_bytes(theirs[-1])
        return written(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(plan, "_write", late)
        with pytest.raises(InvalidInput, match="run this again"):
            set_up(scope)
    assert tree(project) == before | {"AGENTS.md": b"# Changed\n"}
    set_up(scope)
    before = tree(project)
    theirs.append(b"# Changed again\n")
    monkeypatch.setattr(plan, "_write", late)
    with pytest.raises(InvalidInput, match="run this again"):
        removed(scope)
    assert tree(project) == before | {"AGENTS.md": theirs[-1]}


def seconds_for(project: Path, servers: int) -> float:
    """CPU seconds to set up and remove, in settings with this many servers and a text that grows with them."""
    listed = ",\n".join(f'"server-{number}": {{}}' for number in range(servers))
    text = "x" * (50 * servers)
    write(project, {".mcp.json": f'{{"mcpServers": {{{listed}}}, "text": "{text}"}}'.encode()})
    before = tree(project)
    scope = scope_of("claude", project)
    started = time.process_time()
    set_up(scope)
    removed(scope)
    assert tree(project) == before
    return time.process_time() - started


def test_large_settings_are_read_in_one_go(project: Path) -> None:
    """The time grows with the size of the file, not with its square."""
    assert seconds_for(project, 8_000) < 8 * seconds_for(project, 2_000)
