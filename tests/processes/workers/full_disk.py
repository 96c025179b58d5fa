"""Uses a store on its own small disk (a tmpfs in this process's mount namespace), and fills it up."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import octostore
from tests.processes.workers.talk import say


def fill(ballast: Path) -> None:
    with ballast.open("ab", buffering=0) as file:
        for size in (65_536, 4_096, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


def make_room(ballast: Path) -> None:
    os.truncate(ballast, 0)


def reason(call: Callable[[], object]) -> str:
    try:
        call()
    except octostore.Unreachable as fault:
        return fault.reason
    return "works"


def live(folder: Path) -> None:
    ballast = folder / "ballast"
    url = f"sqlite:///{folder / 'octostore.db'}"

    fill(ballast)
    say({"when": "making a store", "reason": reason(lambda: octostore.connect(url).claim_job("first"))})
    make_room(ballast)

    with octostore.connect(url) as store:
        acknowledged = [store.claim_job(f"before-{number}").job_id for number in range(50)]
        fill(ballast)
        for number in range(5):
            full = reason(lambda number=number: store.claim_job(f"full-{number}", metadata="x" * 1_000))  # type: ignore[misc]
            say({"when": "claiming", "reason": full})
        say({"when": "reading", "reason": reason(lambda: store.get_job("before-1"))})
        say({"when": "listing", "claimed": [owner.job_id for owner in store.list_claimed_jobs()]})
        make_room(ballast)
        acknowledged.append(store.claim_job("after").job_id)

    fill(ballast)
    say({"when": "opening it again", "reason": reason(lambda: octostore.connect(url).claim_job("full-again"))})
    make_room(ballast)
    with octostore.connect(url) as store:
        say({"when": "at last", "reason": reason(lambda: store.claim_job("at-last"))})
        acknowledged.append("at-last")
        events = [(event.seq, event.job_id) for event in store.events()]
        say({"acknowledged": acknowledged, "events": events})


if __name__ == "__main__":
    mount_point = Path(sys.argv[1])
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", mount_point], check=True)
    say("mounted")
    live(mount_point)
    # Checked here, because the disk disappears with this process.
    say({"integrity": octostore.connect(f"sqlite:///{mount_point / 'octostore.db'}").get_job("after").status})
