"""Opens a store when it is told to, at the same time as others do, and claims a job of its own."""

import sys

import octostore
from tests.processes.workers.talk import hear, say

if __name__ == "__main__":
    url, name = sys.argv[1:]
    say("ready")
    if hear() is not None:
        with octostore.connect(url) as store:
            say(store.claim_job(f"job-{name}", name).status)
