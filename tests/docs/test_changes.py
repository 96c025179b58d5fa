"""CONTRIBUTING lists the files that a change touches: two such changes, made on a copy."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parents[2]
Edits: TypeAlias = dict[str, list[tuple[str, str]]]
"""For each file, texts that occur once and their replacements; for a new file, an empty text and all its content."""

A_COMMAND: Edits = {
    "core/commands.py": [
        (
            "class ForceReleaseJob(",
            (
                "class InspectJob(_OperatorCommand, frozen=True, kw_only=True):\n"
                '    """See how a job stands, and be seen to."""\n\n\n'
                "class ForceReleaseJob("
            ),
        ),
    ],
    "core/decide/operate.py": [
        ("    ForceReleaseJob,\n", "    ForceReleaseJob,\n    InspectJob,\n"),
        (
            "def _known(",
            (
                "@decides(InspectJob, needs.job_with_documents)\n"
                "def inspect_job(ws: WorkingSet, command: InspectJob, sources: Sources) -> JobView:\n"
                "    return views.job_view(ws, _known(ws, command.job_id, sources))\n\n\n"
                "def _known("
            ),
        ),
    ],
    "wire/endpoints.py": [
        (
            '    _row("cancel_job",',
            (
                '    _row("inspect_job", "POST /jobs/{job_id}/inspect", c.InspectJob, r.JobView, '
                "b.ReasonBody, **_ONCE),\n"
                '    _row("cancel_job",'
            ),
        )
    ],
    "client/operating.py": [
        (
            "    @command_method\n    def force_release(",
            (
                "    @command_method\n"
                "    def inspect(self, job_id: str, *, reason: str | None = None) -> c.InspectJob:\n"
                '        """See how a job stands. For operators."""\n'
                "        return c.InspectJob(job_id=job_id, reason=reason)\n\n"
                "    @command_method\n    def force_release("
            ),
        )
    ],
    "server/routes/jobs.py": [
        (
            '    command_route(\n        "cancel_job",',
            (
                '    command_route("inspect_job", summary="How a job stands", example={"params": JOB, **CLAIMED}),\n'
                '    command_route(\n        "cancel_job",'
            ),
        )
    ],
}
USE_THE_COMMAND = """
assert store.claim_job("job", owner="ann").status == "claimed"
assert store.inspect("job", reason="why not").claim.owner == "ann"
assert store.batch([{"command": "inspect_job", "job_id": "job"}])[0].status == "claimed"
try:
    store.inspect("unknown")
    raise AssertionError("it is not there")
except octostore.NotFound:
    pass
"""

COLOUR = "    colour: str | None = None\n"
A_FIELD: Edits = {
    "core/commands.py": [
        ("    lock_delay: float = 0\n", "    lock_delay: float = 0\n" + COLOUR),
        (
            "class ClaimJob(",
            "    CHECKS: ClassVar = {'colour': lambda name, it: limits.check_text(name, it, 10)}\n\n\nclass ClaimJob(",
        ),
    ],
    "core/model.py": [("    progress: Progress | None = None\n", COLOUR + "    progress: Progress | None = None\n")],
    "core/events.py": [("    lock_delay_ms: int = 0\n", "    lock_delay_ms: int = 0\n" + COLOUR)],
    "core/evolve.py": [
        ("        is_lock=details.is_lock,\n", "        is_lock=details.is_lock,\n        colour=details.colour,\n")
    ],
    "core/decide/claim.py": [
        ("        took_over_from=_owner_of", "        colour=command.colour,\n        took_over_from=_owner_of")
    ],
    "core/replies.py": [
        (
            "    progress: ProgressView | None\n    session_id",
            "    colour: str | None\n    progress: ProgressView | None\n    session_id",
        ),
        ('    session: "SessionReply | None" = None\n', '    session: "SessionReply | None" = None\n' + COLOUR),
    ],
    "core/views.py": [
        (
            "        progress=progress_view(claim.progress),\n        session_id",
            "        colour=claim.colour,\n        progress=progress_view(claim.progress),\n        session_id",
        ),
        (
            "        claim.lease_id,\n        replayed=replayed,",
            "        claim.lease_id,\n        colour=claim.colour,\n        replayed=replayed,",
        ),
    ],
    "stores/sqlite/migrations/0010_colour.sql": [("", "ALTER TABLE jobs ADD COLUMN colour TEXT;\n")],
    "stores/postgres/migrations/0009_colour.sql": [("", "ALTER TABLE {schema}.jobs ADD COLUMN colour text;\n")],
    "wire/bodies.py": [
        (
            "    lock_delay_seconds: f.LockDelay = 0\n    host",
            "    lock_delay_seconds: f.LockDelay = 0\n    colour: f.Reason | None = None\n    host",
        )
    ],
    "wire/responses.py": [("    replayed: bool\n    raw", "    replayed: bool\n    colour: str | None\n    raw")],
    "client/job_calls.py": [
        (
            "        lock_delay: float = 0,\n        max_silence: float | None = None,\n        traceparent: ",
            (
                "        lock_delay: float = 0,\n        max_silence: float | None = None,\n"
                "        colour: str | None = None,\n        traceparent: "
            ),
        ),
        (
            "            lock_delay=lock_delay,\n            host=HOST,\n",
            "            lock_delay=lock_delay,\n            colour=colour,\n            host=HOST,\n",
        ),
    ],
}
USE_THE_FIELD = """
assert store.claim_job("job", owner="ann", colour="green").colour == "green"
assert store.get_job_owner("job").colour == "green"
assert store.batch([{"command": "claim_job", "job_id": "other", "colour": "red"}])[0].colour == "red"
assert [event.data["colour"] for event in store.events() if event.type == "claimed"] == ["green", "red"]
"""
TRY = """
import asyncio, sys, threading
from pathlib import Path
import octostore
from octostore.client.async_embedded import AsyncEmbeddedPort
from octostore.server.openapi import build_document
from octostore.server.routes import ROUTES
from tests.support.async_as_sync import Loop, StoreAsSync
from tests.support.served import ServedStore

assert octostore.__file__.startswith(sys.argv[1]), octostore.__file__
folder = Path(sys.argv[2])
build_document(ROUTES)
from octostore.stores.store import open_store

def use(store):
    store.enqueue("first")
USE

use(octostore.connect(f"sqlite:///{folder}/file.db"))
loop = Loop()
async def opened():
    return octostore.AsyncOctoStore(AsyncEmbeddedPort(open_store(f"sqlite:///{folder}/loop.db")))
use(StoreAsSync(loop, loop.run(opened())))
server = ServedStore(open_store(f"sqlite:///{folder}/served.db"), folder)
from octostore.client.http.port import HttpPort
store = octostore.OctoStore(HttpPort(server.place, server.token))
use(store)
store.close()
server.stop()
loop.stop()
"""


def named_files(change: str) -> set[str]:
    """Return the files in its row of the table; of alternatives, only the one named there."""
    row = re.search(rf"^\| {change} \| (.*) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert row is not None, change
    return set(re.findall("`([^`]+)`", row[1]))


def apply(edits: Edits, package: Path) -> None:
    for name, changes in edits.items():
        path = package / name
        text = path.read_text() if path.exists() else ""
        for before, after in changes:
            assert text.count(before) == 1 or not before, f"{name} has {before!r} {text.count(before)} times"
            text = text.replace(before, after, 1)
        path.write_text(text)


@pytest.mark.parametrize(
    ("change", "edits", "use"),
    [
        ("a command", A_COMMAND, USE_THE_COMMAND),
        ("a field of claims, sent and returned", A_FIELD, USE_THE_FIELD),
    ],
    ids=["a command", "a field of claims"],
)
def test_a_change_touches_the_files_in_the_table(tmp_path: Path, change: str, edits: Edits, use: str) -> None:
    assert edits.keys() == named_files(change)
    copy = tmp_path / "src"
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    apply(edits, copy / "octostore")
    script = TRY.replace("USE", "\n".join(f"    {line}" for line in use.strip().splitlines()))
    tried = subprocess.run(
        [sys.executable, "-c", script, str(copy), str(tmp_path)],
        cwd=ROOT,
        env={"PYTHONPATH": f"{copy}:{ROOT}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert tried.returncode == 0, tried.stderr
