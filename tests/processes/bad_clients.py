"""Fifty clients at work, alone and then beside many that misbehave: `python -m tests.processes.bad_clients`.

The good clients lose nothing that was acknowledged, the bad ones are all cut off, and a table shows the cost.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.processes.ledger import Ledger
from tests.processes.workers.good_clients import CLAIMERS, FOLLOWERS
from tests.support.processes import Worker
from tests.support.server import ServerProcess
from tests.support.soundness import assert_sound, read_contents

CALLS = ("claim", "heartbeat", "release", "event")
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Run(NamedTuple):
    seconds: dict[str, list[float]]
    """How long good clients waited for each reply; for events, their age on arrival."""
    manners: list[dict[str, Any]]
    """What happened to the bad clients."""
    cpu_share: float
    memory_mib: float
    """The server's growth during the run."""


def run(home: Path, seconds: float, *options: str, with_bad: bool, patience: float) -> Run:
    """Raise `AssertionError` if anything is lost, or if a bad client is not cut off."""
    with _served(home, *options) as server, ExitStack() as stack:
        good = stack.enter_context(Worker("good_clients", server.url, server.seq))
        assert good.hear() == "ready"
        bad = stack.enter_context(_bad_clients(server)) if with_bad else None
        good.tell("go")
        before, began_at = _used(server), time.monotonic()
        time.sleep(seconds)
        after, took = _used(server), time.monotonic() - began_at
        manners = _stopped(bad, patience) if bad is not None else []  # while there are still events to follow
        good.tell("stop")
        report = good.rest()
        assert good.exit_code() == 0
        _check_bad(manners)
        server.check_has_not_failed()
    _check_nothing_lost(home, report)
    _check_unread_claims_undone(home, sum(manner["left with a claim"] for manner in manners))
    waited = {line["call"]: line["seconds"] for line in report if "call" in line}
    return Run(waited, manners, (after[0] - before[0]) / took, after[1] - before[1])


@contextmanager
def _served(home: Path, *options: str) -> Iterator[ServerProcess]:
    with ServerProcess(home, *options) as server:
        before = os.environ.get("OCTOSTORE_TOKEN")
        os.environ["OCTOSTORE_TOKEN"] = server.token
        try:
            yield server
        finally:
            del os.environ["OCTOSTORE_TOKEN"]
            if before is not None:
                os.environ["OCTOSTORE_TOKEN"] = before


def _bad_clients(server: ServerProcess) -> Worker:
    tokens = [server.new_token("bad"), *(server.new_token(f"reader-{number}", "read") for number in range(2))]
    worker = Worker("bad_clients", server.port, *tokens)
    assert worker.hear() == "ready"
    return worker


def _stopped(bad: Worker, patience: float) -> list[dict[str, Any]]:
    bad.tell("stop")
    report = [bad.hear(patience)]
    report += bad.rest()
    assert bad.exit_code() == 0
    return report


def _used(server: ServerProcess) -> tuple[float, float]:
    """Seconds of CPU, and MiB of memory."""
    folder = Path(f"/proc/{server.process.pid}")
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    pages = int((folder / "statm").read_text().split()[1])
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS, pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _check_bad(manners: list[dict[str, Any]]) -> None:
    for manner in manners:
        assert manner["left" if manner["leaves"] else "cut off"] > 0, manner


def _check_unread_claims_undone(home: Path, delivered: int) -> None:
    """Claims of clients that left are undone, except those whose reply was delivered: it may have been read."""
    gone = [entry.type for entry in assert_sound(home / "octostore.db") if b'"owner":"gone"' in entry.details]
    assert gone.count("claimed") - gone.count("undone") <= delivered


def _check_nothing_lost(home: Path, report: list[dict[str, Any]]) -> None:
    assert [line["fault"] for line in report if "fault" in line] == []
    acks = [ack for line in report for ack in line.get("acks", [])]
    path = home / "octostore.db"
    ledger = Ledger(partial(read_contents, path))
    ledger.check(acks)
    ledger.check_tokens(acks)
    assert_sound(path)
    assert len({ack["thread"] for ack in acks}) == CLAIMERS
    seen = [line["seqs"] for line in report if "seqs" in line]
    assert len(seen) == FOLLOWERS
    for first, last, count in seen:
        assert count == last - first + 1, "no event is missing, and none arrives twice"
        assert last >= max(ack["token"] for ack in acks)


# The command


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.processes.bad_clients", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="how long each of the two runs takes (120)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="octostore-bad-clients-") as folder:
        runs = {}
        for title, with_bad in (("alone", False), ("with bad clients", True)):
            home = Path(folder) / title.replace(" ", "-")
            home.mkdir()
            runs[title] = run(home, given.seconds, with_bad=with_bad, patience=120)
    _show(runs)


def _show(runs: dict[str, Run]) -> None:
    print(f"{CLAIMERS + FOLLOWERS} good clients; milliseconds; for events, their age on arrival")
    print(f"{'':10}" + "".join(f"{title:>40}" for title in runs))
    print(f"{'':10}" + "".join(f"{'calls':>13}{'p50':>9}{'p99':>9}{'worst':>9}" for _ in runs))
    for call in CALLS:
        print(f"{call:10}" + "".join(_cells(sorted(each.seconds[call])) for each in runs.values()))
    for title, each in runs.items():
        print(f"{title}: the server used {each.cpu_share:.0%} of a core, and took {each.memory_mib:+.0f} MiB")
    for manner in runs["with bad clients"].manners:
        outcome = f"{manner['left']:,} left" if manner["leaves"] else f"{manner['cut off']:,} cut off"
        print(f"  {manner['manner']:30}{outcome:>18}   after {manner['ms'] / 1_000:.1f} s at most")
    print("nothing was lost")


def _cells(sorted_seconds: list[float]) -> str:
    count = len(sorted_seconds)
    spread = [sorted_seconds[count // 2], sorted_seconds[int(count * 0.99)], sorted_seconds[-1]]
    return f"{count:>13,}" + "".join(f"{1_000 * value:>9.1f}" for value in spread)


if __name__ == "__main__":
    main()
