"""The Containerfile and the files that deploy it. No image is built: its steps run on this machine."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.support.processes import ROOT, free_port, until
from tests.support.starting import PROGRAM, run, start
from tests.support.wheels import is_alive, run_checked

DEPLOY = ROOT / "examples" / "deploy"
CONTAINERFILE = (ROOT / "Containerfile").read_text(encoding="utf-8")
USER = 10_001
AS_USER = f"setpriv --reuid {USER} --regid {USER} --clear-groups --inh-caps=-all,{{0}} --ambient-caps=-all,{{0}}"
# The user may read everything, because this Python may be in a folder of root's, but write only its own files.
READ_ONLY = f'mount --bind "$1" "$1"; mount -o remount,ro,bind /; shift; exec {AS_USER.format("+dac_read_search")} "$@"'


def instructions(name: str) -> list[str]:
    """All instructions of one kind, each on one line."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", CONTAINERFILE, flags=re.MULTILINE))
    return re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)


def servers() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(DEPLOY.glob("compose*.yaml")):
        services = yaml.safe_load(path.read_text(encoding="utf-8"))["services"]
        yield from ((f"{path.name}: {name}", it) for name, it in services.items() if it["image"] == "octostore")


def test_it_never_runs_as_root() -> None:
    assert instructions("USER") == [f"{USER}:{USER}"]
    assert CONTAINERFILE.rindex("\nUSER ") > CONTAINERFILE.rindex("\nRUN ")


def test_the_data_is_in_a_volume() -> None:
    assert instructions("VOLUME") == ["/data"]
    assert "OCTOSTORE_HOME=/data" in CONTAINERFILE


def test_both_stages_have_the_same_base() -> None:
    assert len({base.split()[0] for base in instructions("FROM")}) == 1


@pytest.mark.parametrize(("name", "service"), [pytest.param(*it, id=it[0]) for it in servers()])
def test_compose_runs_it_with_few_rights(name: str, service: dict[str, Any]) -> None:
    assert service["read_only"] is True, name
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_kubernetes_runs_it_with_few_rights() -> None:
    deployment, *_ = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == USER
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "/data" in {mount["mountPath"] for mount in container["volumeMounts"]}


@pytest.mark.parametrize("arguments", [service["command"] for _, service in servers() if "command" in service])
def test_compose_uses_options_that_exist(arguments: list[str]) -> None:
    _check_options(arguments)


def test_kubernetes_and_the_image_use_options_that_exist() -> None:
    deployment, *_ = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
    _check_options(deployment["spec"]["template"]["spec"]["containers"][0]["args"])
    _check_options(yaml.safe_load(instructions("CMD")[-1]))


def _check_options(words: list[str]) -> None:
    """Check that `octostore serve` has every option."""
    assert words[:2] == ["octostore", "serve"]
    assert {word for word in words if word.startswith("--")} <= set(re.findall(r"--[a-z-]+", _help_of_serve()))


@cache
def _help_of_serve() -> str:
    command = (*PROGRAM, "serve", "--help")
    done = run(command, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0
    return str(done.stdout)


@pytest.mark.slow
def test_its_steps_build_a_server_that_runs_unprivileged_on_a_read_only_root(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "opt"
    _copy_context(source)
    environment = {"UV_PROJECT_ENVIRONMENT": str(target), "UV_PYTHON": sys.executable}
    for step in instructions("RUN"):
        if step.startswith("uv sync "):
            run_checked(
                "sh", "-c", f"cd {shlex.quote(str(source))} && {sys.executable} -m {step}", environment=environment
            )
    shutil.rmtree(source)  # the last stage does not have it
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("only root can make the root file system read-only for one process")
    with TemporaryDirectory(prefix="octostore-data-") as data:  # not pytest's folder, which the user cannot enter
        os.chown(data, USER, USER)
        _check_that_it_serves(target / "bin", Path(data))


def _copy_context(folder: Path) -> None:
    """What `.dockerignore` lets in."""
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if line.startswith("!"):
            found = ROOT / line[1:]
            copy = shutil.copytree if found.is_dir() else shutil.copy2
            target = folder / line[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            copy(found, target)


def _check_that_it_serves(programs: Path, data: Path) -> None:
    """Start the image's command as its user, with only its data writable, and run its health check."""
    port = str(free_port())
    command = [word.replace("3000", port) for word in yaml.safe_load(instructions("CMD")[-1])]
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(data), "OCTOSTORE_HOME": str(data)}
    with start(
        ["unshare", "--mount", "sh", "-ec", READ_ONLY, "sh", str(data), *command],
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            until(lambda: server.poll() is not None or is_alive(f"http://127.0.0.1:{port}"))
            assert server.poll() is None, server.communicate()[1]
            health = yaml.safe_load(instructions("HEALTHCHECK")[0].partition("CMD ")[2])
            run_checked(*(word.replace("3000", port) for word in health), environment=environment)
        finally:
            server.terminate()
    assert {path.lstat().st_uid for path in data.iterdir()} == {USER}
