"""Opens a store on the test's signal, at the same time as others do, and claims its own job."""

import sys

import octostore
from tests.processes.workers.talk import hear, say

if __name__ == "__main__":
    url, name = sys.argv[1:]
    say("ready")
    if hear() is not None:
        with octostore.connect(url) as store:
            say(store.claim_job(f"job-{name}", name).status)
