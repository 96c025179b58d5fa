"""Holds jobs, each in a thread, and checks its claim before each write. `holder.py FOLDER TTL JOB …`."""

import os
import sys
import threading
import time
from pathlib import Path

import octostore
from octostore.client.hold import HeldClaim

PAUSE_SECONDS = 0.005
WAIT_SECONDS = 5
AFTER_A_FAULT_SECONDS = 0.2


def write(claim: HeldClaim, folder: Path) -> None:
    file = os.open(folder / f"{claim.job_id}.{claim.fencing_token}", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    try:
        while True:
            claim.check()
            os.write(file, f"{time.time():.6f}\n".encode())
            time.sleep(PAUSE_SECONDS)
    finally:
        os.close(file)


def own(store: octostore.OctoStore, folder: Path, ttl: float, job_id: str) -> None:
    while True:
        try:
            with store.hold(job_id, ttl=ttl, wait=WAIT_SECONDS) as claim:
                write(claim, folder)
        except octostore.OctoStoreError:
            time.sleep(AFTER_A_FAULT_SECONDS)


if __name__ == "__main__":
    folder, ttl, *jobs = sys.argv[1:]
    with octostore.connect() as store:
        threads = [threading.Thread(target=own, args=(store, Path(folder), float(ttl), job_id)) for job_id in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
