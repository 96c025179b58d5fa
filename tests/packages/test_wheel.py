"""The built wheel alone, with each extra and without any: what works, and how to install what is missing."""

import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from release.sbom import user_extras
from tests.support.postgres import new_schema
from tests.support.processes import ROOT
from tests.support.server import ServerProcess
from tests.support.wheels import Installed, build, run_checked

EXTRAS = user_extras()
ASYNC = {"async", "mcp"}
"""Each installs what the other needs."""
BAD_INPUT = 64
LIST_ASYNC = """
import asyncio, octostore, sys
async def main():
    try:
        async with await octostore.connect_async() as store:
            print((await store.list_jobs()).jobs)
    except octostore.InvalidInput as error:
        print(error)
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (wheel,) = build(tmp_path_factory.mktemp("dist"), "wheel")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    installed = Installed(tmp_path_factory.mktemp("wheel") / "env")
    installed.make_alone(wheel)
    return installed


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as server:
        yield server


# Contents


def test_it_contains_the_package_its_types_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"octostore"}
    assert "octostore/py.typed" in names
    assert not [name for name in names if "__pycache__" in name]
    sources = {path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {str(path.relative_to(ROOT / "src")) for path in sources} <= set(names)


# Without a network: only declared dependencies can be imported, copied from the environment of the tests


def test_nothing_comes_from_the_source_tree(installed: Installed) -> None:
    installed.add_copies()
    assert installed.python_prints("import octostore; print(octostore.__file__)").startswith(str(installed.folder))
    assert str(ROOT) not in installed.python_prints("import sys; print(sys.path)")


def test_the_demo(installed: Installed) -> None:
    installed.add_copies()
    check_demo(installed)


@pytest.mark.parametrize("extras", [*((extra,) for extra in EXTRAS), tuple(EXTRAS)], ids="+".join)
def test_what_each_extra_adds(extras: tuple[str, ...], installed: Installed, server: ServerProcess) -> None:
    installed.add_copies(*extras)
    check_added(installed, set(extras), server)


def test_without_an_extra_the_message_says_what_to_type(installed: Installed, server: ServerProcess) -> None:
    installed.add_copies()
    check_missing(installed, set(), server)


def test_commands_without_an_extra(installed: Installed) -> None:
    installed.add_copies()
    check_commands(installed)


# With a network


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_installed_from_the_index(extra: str, wheel: Path, server: ServerProcess, tmp_path: Path) -> None:
    installed = Installed(tmp_path / "env")
    installed.make(f"{wheel}[{extra}]" if extra else wheel)
    check_demo(installed)
    check_commands(installed)
    check_added(installed, {extra}, server)
    check_missing(installed, {extra}, server)


@pytest.mark.slow
def test_running_the_suggested_command_is_enough(wheel: Path, tmp_path: Path) -> None:
    installed = Installed(tmp_path / "env")
    installed.make(wheel)
    refused = installed.run("serve")
    assert refused.returncode == BAD_INPUT
    subprocess.run(command_in(refused.stderr), check=True, capture_output=True, env=installed.environment)
    with installed.serving():
        pass


# Types


@pytest.mark.slow
def test_a_program_that_uses_it_passes_mypy_strict(installed: Installed, tmp_path: Path) -> None:
    """The wheel declares that it has types, and the public names have them."""
    installed.add_copies(*EXTRAS)
    shutil.copy(ROOT / "tests" / "packages" / "consumer.py", tmp_path)
    options = ("--strict", "--config-file=", "--python-executable", installed.python)
    run_checked(sys.executable, "-m", "mypy", *options, "consumer.py", cwd=tmp_path)


# Helpers


def check_demo(installed: Installed) -> None:
    done = installed.run("demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "took over" in done.stdout


def check_commands(installed: Installed) -> None:
    """`run`, `work` and `mcp` on a file need no extra."""
    ran = installed.run("run", "job", "--", "echo", "it ran")
    assert (ran.returncode, ran.stdout) == (0, "it ran\n"), ran.stderr
    assert installed.run("enqueue", "build", "--queue", "builds").returncode == 0
    worked = installed.run("work", "builds", "--until-empty", "--", "mkdir", "it-worked")
    assert worked.returncode == 0, worked.stderr
    (installed.home / "it-worked").rmdir()
    assert not installed.mcp().get("isError")


def check_added(installed: Installed, extras: set[str], server: ServerProcess) -> None:
    at_server = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.token}
    if "server" in extras:
        with installed.serving():
            pass
    if "postgres" in extras:
        done = installed.run("run", "job", "--", "true", OCTOSTORE_URL=new_schema())
        assert done.returncode == 0, done.stderr
    if "otel" in extras:
        done = installed.run("run", "job", "--", "true", OCTOSTORE_TRACING="1")
        assert done.returncode == 0, done.stderr
    if extras & ASYNC:
        assert not installed.mcp(**at_server).get("isError")
        printed = installed.python_prints(LIST_ASYNC, **at_server)
        assert printed.startswith("["), printed


def check_missing(installed: Installed, extras: set[str], server: ServerProcess) -> None:
    """Check that each extra that is not in `extras` is reported."""
    at_server = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.token}
    if "server" not in extras:
        done = installed.run("serve", "--port", "1")
        assert_says(done.returncode, done.stderr, "server", installed)
    if "postgres" not in extras:
        url = "postgresql://octostore@db.example.org/jobs"
        done = installed.run("run", "job", "--", "true", OCTOSTORE_URL=url)
        assert_says(done.returncode, done.stderr, "postgres", installed)
    if "otel" not in extras:
        done = installed.run("run", "job", "--", "true", OCTOSTORE_TRACING="1")
        assert_says(done.returncode, done.stderr, "otel", installed)
    if not extras & ASYNC:
        done = installed.run("mcp", given="", **at_server)
        assert_says(done.returncode, done.stderr, "mcp", installed)
        assert_says(BAD_INPUT, installed.python_prints(LIST_ASYNC, **at_server), "async", installed)


def assert_says(code: int, text: str, extra: str, installed: Installed) -> None:
    assert code == BAD_INPUT, text
    command = command_in(text)
    assert str(installed.python) in command
    assert command[-1].endswith(f".whl[{extra}]")
    assert Path(command[-1].removesuffix(f"[{extra}]")).is_file()


def command_in(text: str) -> list[str]:
    """The command that a message ends with."""
    line = next(line for line in text.splitlines() if "to install it: " in line)
    return shlex.split(line.partition("to install it: ")[2])
