"""How soon a waiting claim gets the job, after a release and after an expiry."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import octostore
from bench.served import peers
from bench.tables import show
from bench.timing import percentile

TTL_SECONDS = 1
PROMISED_MS = 250


def report(scratch: Path, waiters: int) -> None:
    with peers.ours(scratch / "wakes-octostore") as target:
        store = octostore.connect(f"http://127.0.0.1:{target.port}", token=target.token)
        with ThreadPoolExecutor(waiters) as threads:
            late = {
                "release": list(
                    threads.map(lambda number: _after_release(store, f"released-{number}"), range(waiters))
                ),
                "expiry": list(threads.map(lambda number: _after_expiry(store, f"expired-{number}"), range(waiters))),
            }
        store.close()
    title = (
        f"Waiting claims, until each has its job ({waiters} at once, by the store's own clock; "
        f"promised: {PROMISED_MS} ms)"
    )
    rows = [
        [what, f"{percentile(ms, 50):.0f}", f"{percentile(ms, 99):.0f}", f"{max(ms):.0f}"] for what, ms in late.items()
    ]
    show(title, ["after", "p50 ms", "p99 ms", "max ms"], rows)


def _after_release(store: octostore.OctoStore, job_id: str) -> float:
    held = store.claim_job(job_id, "holder")
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(store.claim_job, job_id, "waiter", wait=30)
        store.claim_job(f"{job_id}-meanwhile")  # after this round trip, it is in line
        released = store.release_job(job_id, held.lease_id or "")
        return _late_ms(waiting.result(), released.released_at)


def _after_expiry(store: octostore.OctoStore, job_id: str) -> float:
    held = store.claim_job(job_id, "holder", ttl=TTL_SECONDS)
    return _late_ms(store.claim_job(job_id, "waiter", wait=30), held.expires_at)


def _late_ms(claim: octostore.ClaimReply, since: datetime | None) -> float:
    if claim.status != "claimed" or claim.claimed_at is None or since is None:
        raise AssertionError(f"the waiter got {claim.status}")
    return (claim.claimed_at - since) / timedelta(milliseconds=1)
