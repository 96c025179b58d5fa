"""Claims every job it can, at the same time as others do, and reports the ones it got."""

import sys
from concurrent.futures import ThreadPoolExecutor

import octostore
from tests.processes.workers.talk import hear, say

if __name__ == "__main__":
    target, owner = sys.argv[1:3]
    jobs, threads = map(int, (*sys.argv[3:], "1")[:2])
    url = target if "://" in target else f"sqlite:///{target}"
    with octostore.connect(url) as store, ThreadPoolExecutor(threads) as pool:
        say("ready")
        hear()
        replies = list(pool.map(lambda number: store.claim_job(f"job-{number}", owner, ttl=3_600), range(jobs)))
        won = {reply.job_id: reply.fencing_token for reply in replies if reply.status == "claimed"}
        say({"won": won, "statuses": sorted({reply.status for reply in replies})})
