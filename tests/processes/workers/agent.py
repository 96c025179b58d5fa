"""An agent in its own process: calls an orchestrator as the test says, and reports the results."""

import sys
from typing import Any

import msgspec

import octostore
from octostore.orchestrator import Orchestrator
from tests.processes.workers.talk import hear, say


def run_call(orchestrator: Orchestrator, call: str, options: dict[str, Any]) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(getattr(orchestrator, call)(**options)))
    except octostore.OctoStoreError as error:
        return {"error": error.code, "said": str(error)}


if __name__ == "__main__":
    retry = octostore.RetryPolicy(base_ms=0, cap_ms=0)
    with octostore.connect(sys.argv[1], retry=retry) as store:
        say("ready")
        while (asked := hear()) is not None:
            say(run_call(Orchestrator(store), asked.pop("call"), asked))
