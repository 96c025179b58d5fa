"""One of several agents that share a token: acquires the lock of each task, and reports the ones it got."""

import http.client
import json
import sys

from tests.processes.workers.talk import hear, say


def acquire(connection: http.client.HTTPConnection, token: str, name: str, agent: str) -> bool:
    body = {"ttl_seconds": 3_600, "metadata": f"runner={agent} task=https://github.com/acme/app/issues/1842"}
    connection.request("POST", f"/locks/{name}/acquire", json.dumps(body), {"Authorization": f"Bearer {token}"})
    response = json.loads(connection.getresponse().read())
    return bool(response["status"] == "acquired")


if __name__ == "__main__":
    port, agent, rounds = sys.argv[1:]
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
    say("ready")
    token = (hear() or {})["token"]
    names = [f"github-issue-{number}" for number in range(int(rounds))]
    say([name for name in names if acquire(connection, token, name, agent)])
