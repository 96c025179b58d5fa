"""The same source builds to the same bytes, anywhere and at any time."""

import hashlib
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from tests.support.processes import ROOT
from tests.support.wheels import build


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


def test_two_builds_are_identical(tmp_path: Path) -> None:
    digests = []
    for number, (umask, seconds, zone) in enumerate(
        [(0o022, 1_000_000_000, "UTC"), (0o077, 1_700_000_000, "Asia/Tokyo")]
    ):
        source = copy_of_the_source(tmp_path / f"{number}" / ("deeper" * number) / "source", umask, seconds)
        built = build(tmp_path / f"dist-{number}", "sdist", "wheel", source=source, TZ=zone)
        digests.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in built})
    assert len(digests[0]) == 2
    assert digests[0] == digests[1]


def test_the_sdist_builds_the_same_wheel(tmp_path: Path) -> None:
    (sdist,) = build(tmp_path / "sdist", "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (there,) = build(tmp_path / "there", "wheel", source=tmp_path / sdist.name.removesuffix(".tar.gz"))
    (here,) = build(tmp_path / "here", "wheel")
    assert there.read_bytes() == here.read_bytes()
