"""Claims every job it can, at the same time as others do, and says which ones it got."""

import sys

import octostore
from tests.processes.workers.talk import hear, say

if __name__ == "__main__":
    path, owner, jobs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with octostore.connect(f"sqlite:///{path}") as store:
        say("ready")
        hear()
        replies = [store.claim_job(f"job-{number}", owner, ttl=3_600) for number in range(jobs)]
        won = {reply.job_id: reply.fencing_token for reply in replies if reply.status == "claimed"}
        say({"won": won, "statuses": sorted({reply.status for reply in replies})})
