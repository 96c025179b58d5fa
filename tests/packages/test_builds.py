"""The same source builds to the same bytes, anywhere and at any time."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.support.processes import ROOT
from tests.support.wheels import build

pytestmark = pytest.mark.xdist_group("builds")


def copy_of_the_source(folder: Path, umask: int, seconds: int) -> Path:
    """As a fresh clone would have it, made with another umask and at another time."""
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
    """The sdist and the wheel, by kind, built twice under different circumstances."""
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
