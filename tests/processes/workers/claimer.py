"""Makes one claim, and reports the result."""

import sys

import octostore
from tests.processes.workers.talk import hear, say

if __name__ == "__main__":
    url, job_id, request_id = sys.argv[1:]
    with octostore.connect(url) as store:
        say("ready")
        hear()
        reply = store.claim_job(job_id, "claimer", request_id=request_id)
        say({"status": reply.status, "token": reply.fencing_token})
