"""The same source builds to the same bytes, anywhere and at any time."""

import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

from octostore._version import __version__
from tests.support.processes import ROOT
from tests.support.wheels import build


def copy_of_the_source(folder: Path, umask: int, seconds: int) -> Path:
    """Copy the files of a fresh clone, with this umask and this time of change."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    for name in map(os.fsdecode, filter(None, names)):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
        is_program = os.access(ROOT / name, os.X_OK)
        target.chmod((0o777 if is_program else 0o666) & ~umask)
        os.utime(target, (seconds, seconds))
    return folder


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Path]]:
    """The sdist and the wheel, by kind, built twice under different conditions."""
    folder = tmp_path_factory.mktemp("builds")
    found = []
    for number, (umask, seconds, zone) in enumerate(
        [(0o022, 1_000_000_000, "UTC"), (0o077, 1_700_000_000, "Asia/Tokyo")]
    ):
        source = copy_of_the_source(folder / f"{number}" / ("deeper" * number) / "source", umask, seconds)
        built = build(folder / f"dist-{number}", "sdist", "wheel", source=source, TZ=zone)
        found.append({path.suffix: path for path in built})
    return found


def test_two_builds_are_identical(builds: list[dict[str, Path]]) -> None:
    one, other = builds
    assert set(one) == {".gz", ".whl"}
    assert {path.name: path.read_bytes() for path in one.values()} == {
        path.name: path.read_bytes() for path in other.values()
    }


def test_the_sdist_builds_the_same_wheel(builds: list[dict[str, Path]], tmp_path: Path) -> None:
    sdist, wheel = builds[0][".gz"], builds[0][".whl"]
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (there,) = build(tmp_path / "there", "wheel", source=tmp_path / sdist.name.removesuffix(".tar.gz"))
    assert there.read_bytes() == wheel.read_bytes()


# Where the project lives


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def test_packages_link_to_the_repository_that_built_them(tmp_path: Path) -> None:
    repository = "https://git.example.org/you/octostore"
    wheel, sdist = build(tmp_path / "dist", "sdist", "wheel", OCTOSTORE_REPOSITORY_URL=f"{repository}/")

    metadata = metadata_of(wheel)
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    assert all(url.startswith(repository) for url in urls.values())
    tagged = f"{repository}/blob/v{__version__}/"
    assert not [url for url in urls.values() if url.startswith(tagged) and not (ROOT / url[len(tagged) :]).exists()]

    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (rebuilt,) = build(tmp_path / "rebuilt", "wheel", source=tmp_path / sdist.name.removesuffix(".tar.gz"))
    assert rebuilt.read_bytes() == wheel.read_bytes(), "a build from the sdist must keep the URLs"

    readme = metadata.get_payload()
    assert isinstance(readme, str)
    assert readme.count(f"{repository}/raw/v{__version__}/docs/pictures/") == 2
    assert f"({tagged}docs/quickstart.md)" in readme
    targets = re.findall(r'(?:\]\(|src=\"|srcset=\")([^)"]+)', readme)
    assert not [target for target in targets if not target.startswith("https://")]


def test_without_a_repository_packages_have_no_urls_and_the_readme_as_it_is(builds: list[dict[str, Path]]) -> None:
    metadata = metadata_of(builds[0][".whl"])
    assert "Project-URL" not in metadata
    assert metadata.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
