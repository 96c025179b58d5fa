"""On a full disk, a file that nobody has open can still be read."""

from pathlib import Path

import pytest

from tests.support.documents import Machine
from tests.support.mounting import may_mount

STORY = """
mkdir -p disk; mount -t tmpfs -o size=1m none disk; chmod 700 disk
export OCTOSTORE_HOME=$PWD/disk
octostore claim before --owner ann
cp /dev/zero disk/ballast 2> /dev/null || true
octostore backup copy.db || echo no backup, $?
octostore claim full --owner ann || echo ended with $?
octostore list
octostore health
octostore owner before
octostore events
rm disk/ballast
octostore claim after --owner ann
"""


@pytest.mark.skipif(not may_mount(), reason="a small disk cannot be mounted here")
def test_a_file_on_a_full_disk_can_be_read_but_not_claimed_from(tmp_path: Path) -> None:
    with Machine(tmp_path / "machine") as machine:
        code, output = machine.start(["unshare", "--mount", "bash", "-euo", "pipefail", "-c", STORY]).end()
    assert code == 0, output
    before, _, rest = output.partition("ended with 69")
    assert "claimed before" in before
    assert "the disk is full" in before.partition("no backup, 69")[0], output
    for shown in ("before  ann ", "running    1", "ann has before", "ann claimed it", "claimed after"):
        assert shown in rest, output


READER = """
import os, octostore
from octostore.client.read_only import open_read_only

reader = open_read_only(None)
followed = reader.events(follow=True)
print(next(followed).job_id)
os.remove("disk/ballast")
with octostore.connect() as store:
    store.claim_job("after", owner="bob")
    print(next(followed).job_id, reader.get_job("after").status)
reader.close()
"""
FREED = """
mkdir -p disk; mount -t tmpfs -o size=1m none disk; chmod 700 disk
export OCTOSTORE_HOME=$PWD/disk
octostore claim before --owner ann
cp /dev/zero disk/ballast 2> /dev/null || true
python3 reader.py
"""


@pytest.mark.skipif(not may_mount(), reason="a small disk cannot be mounted here")
def test_a_reader_from_a_full_disk_shares_the_file_once_there_is_space(tmp_path: Path) -> None:
    with Machine(tmp_path / "machine") as machine:
        (machine.folder / "reader.py").write_text(READER)
        code, output = machine.start(["unshare", "--mount", "bash", "-euo", "pipefail", "-c", FREED]).end()
    assert code == 0, output
    assert output.endswith("before\nafter claimed\n"), output
