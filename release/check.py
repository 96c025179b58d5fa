"""Check everything that a release consists of, and say what was found, a line for each."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from octostore._version import __version__
from release import sbom

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
BIN = Path(sys.executable).parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
COMPOSE = sorted((ROOT / "examples" / "deploy").glob("compose*.yaml"))
MANIFESTS = sorted((ROOT / "examples" / "deploy").glob("kubernetes*.yaml"))
BUILDERS = ("docker", "podman")


class Skip(Exception):  # it is not an error
    """What is missing for a check."""


class Failed(Exception):
    """What a check found."""


def run(*command: object, cwd: Path = ROOT) -> str:
    """Return what a program of our environment, or of the system, prints."""
    words = [str(word) for word in command]
    local = BIN / words[0]
    words[0] = str(local) if local.exists() else words[0]
    done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"`{' '.join(map(str, command))}` says:\n{done.stdout.rstrip()}")
    return done.stdout


def version(expected: str) -> str:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not expected:
        return f"{__version__} (VERSION=… also checks the changelog)"
    if expected != __version__:
        raise Failed(f"src/octostore/_version.py says {__version__}, not {expected}")
    if not re.search(rf"^## \[{re.escape(expected)}\]", changelog, re.MULTILINE):
        raise Failed(f"CHANGELOG.md has no section for {expected}")
    return f"{expected}, as in the changelog"


def project_urls() -> str:
    (wheel,) = DIST.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        urls = re.findall("^Project-URL: (.+)$", archive.read(name).decode(), re.MULTILINE)
    if not urls:
        raise Skip("set OCTOSTORE_REPOSITORY_URL, as the release workflow does")
    return "; ".join(urls)


def lock() -> str:
    run("uv", "lock", "--check", "--quiet")
    return "uv.lock is what pyproject.toml resolves to"


def packages() -> str:
    """Builds, contents, types, extras: the tests know."""
    options = ("-q", "-p", "no:cacheprovider", "-n", "4", "--dist", "load")  # most of them wait for the network
    return run("pytest", *options, "tests/packages").rstrip().rpartition("\n")[2]


def metadata() -> str:
    shutil.rmtree(DIST, ignore_errors=True)
    run("hatchling", "build", "-d", DIST)
    built = sorted(path for path in DIST.iterdir() if path.suffix in {".whl", ".gz"})
    run("twine", "check", "--strict", *built)
    return ", ".join(path.name for path in built)


def bill_of_materials() -> str:
    text = sbom.write().read_text(encoding="utf-8")
    document = json.loads(text)
    for component in document["components"]:  # one file of each: hundreds of URLs alike take a minute to check
        component["externalReferences"] = component["externalReferences"][:1]
    problem = JsonStrictValidator(SchemaVersion.V1_5).validate_str(json.dumps(document))
    if problem is not None:
        raise Failed(str(problem))
    missing = [name for name in ("apsw", "msgspec", "psycopg", "uvloop") if f"pkg:pypi/{name}@" not in text]
    if missing:
        raise Failed(f"it lacks {', '.join(missing)}")
    return f"{len(document['components'])} components, valid CycloneDX 1.5"


def workflows() -> str:
    run("zizmor", "--offline", "--no-progress", "--quiet", "--persona", "pedantic", *WORKFLOWS)
    run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS)
    loose = [
        line
        for path in WORKFLOWS
        for line in re.findall(r"uses: (?!\S+@[0-9a-f]{40} # v)(.*)", path.read_text("utf-8"))
    ]
    if loose:
        raise Failed(f"not pinned to a commit: {', '.join(loose)}")
    return ", ".join(path.name for path in WORKFLOWS)


def deployments() -> str:
    run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", *COMPOSE)
    run("kubernetes-validate", "--strict", *MANIFESTS)
    return ", ".join(path.name for path in [*COMPOSE, *MANIFESTS])


def container_file() -> str:
    run("hadolint", ROOT / "Containerfile")
    return "Containerfile"


def image() -> str:
    for builder in BUILDERS:
        if (
            shutil.which(builder)
            and subprocess.run([builder, "info"], capture_output=True, check=False).returncode == 0
        ):
            run(builder, "build", "--file", "Containerfile", "--tag", "octostore:release-check", ".")
            return f"built with {builder}"
    raise Skip(f"no builder runs here ({' or '.join(BUILDERS)})")


def benchmark() -> str:
    """Only that every part runs: the numbers of such short runs mean nothing."""
    ended = re.findall(r"^\((\w+): \d+ s\)$", run("python", "bench/run.py", "--quick"), re.MULTILINE)
    return ", ".join(ended)


def checks(expected: str) -> Sequence[tuple[str, Callable[[], str]]]:
    return [
        ("version", lambda: version(expected)),
        ("lock", lock),
        ("metadata", metadata),
        ("project URLs", project_urls),
        ("SBOM", bill_of_materials),
        ("workflows", workflows),
        ("deployments", deployments),
        ("Containerfile", container_file),
        ("image", image),
        ("packages", packages),
        ("benchmark", benchmark),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="", help="the version that is about to be released")
    arguments = parser.parse_args()
    failures = 0
    os.environ["NO_COLOR"] = "1"  # what programs print is quoted
    for name, check in checks(arguments.version):
        started = time.monotonic()
        try:
            status, text = "ok", check()
        except Skip as missing:
            status, text = "skipped", str(missing)
        except Failed as problem:
            status, text = "FAILED", str(problem)
            failures += 1
        print(f"{status:8} {name:14} {text} ({time.monotonic() - started:.0f} s)", flush=True)
    print(f"{failures} of these failed" if failures else "ready to release")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
