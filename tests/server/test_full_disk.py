"""A server logs that its disk is full, and that there is room again; it needs no restart."""

from pathlib import Path

import pytest

from tests.support.documents import Machine
from tests.support.mounting import may_mount
from tests.support.processes import free_port

STORY = """
wait_for() { until grep -q "$1" serve.log; do sleep 0.01; done; }
mkdir -p disk; mount -t tmpfs -o size=4m none disk; chmod 700 disk
export OCTOSTORE_HOME=$PWD/disk
octostore serve --port $PORT 2> serve.log > serve.out & server=$!
until grep -q "^try: " serve.out; do sleep 0.01; done
export OCTOSTORE_URL=http://127.0.0.1:$PORT
octostore claim before --owner ann
cp /dev/zero disk/ballast 2> /dev/null || true
octostore claim full --owner ann || echo ended with $?
wait_for store_lost
OCTOSTORE_URL=sqlite:///other.db octostore claim else --owner ann
OCTOSTORE_URL=sqlite:///other.db octostore backup disk/copy.db || echo no backup: $?
rm disk/ballast
wait_for store_back
octostore claim after --owner ann
octostore list
kill $server; wait $server
"""


@pytest.mark.skipif(not may_mount(), reason="a small disk cannot be mounted here")
def test_a_server_logs_when_its_disk_is_full_and_when_it_has_room_again(tmp_path: Path) -> None:
    with Machine(tmp_path / "machine", PORT=free_port()) as machine:
        code, output = machine.start(["unshare", "--mount", "bash", "-euo", "pipefail", "-c", STORY]).end()
    assert code == 0, output
    assert "ended with 69" in output
    before, _, after = output.partition("ended with 69")
    assert "claimed before" in before
    assert "claimed after" in after
    assert "there is not enough disk space" in after
    assert "no backup: 69" in after
    (lost,) = [line for line in (machine.folder / "serve.log").read_text().splitlines() if "store_lost" in line]
    assert "reason=disk_full" in lost
