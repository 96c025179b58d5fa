"""A traced worker that claims a job and never finishes it. It reports its spans as they end, and its lease."""

import asyncio
import sys
import threading
from typing import Any

import octostore
from tests.processes.workers.talk import say
from tests.support.spans import provider_for

PROVIDER = provider_for(lambda span: say({"span": span}))
TTL_SECONDS = 2


def work(url: str, options: dict[str, Any]) -> None:
    with octostore.connect(url, **options) as store, store.keep(store.claim_next("q", ttl=TTL_SECONDS)) as claim:
        claim.checkpoint("the checkpoint is secret")
        claim.progress("the note is secret")
        say({"lease": claim.lease_id, "traceparent": claim.traceparent})
        threading.Event().wait()


async def work_async(url: str, options: dict[str, Any]) -> None:
    store = await octostore.connect_async(url, **options)
    async with store, store.keep(await store.claim_next("q", ttl=TTL_SECONDS)) as claim:
        await claim.checkpoint("the checkpoint is secret")
        await claim.progress("the note is secret")
        say({"lease": claim.lease_id, "traceparent": claim.traceparent})
        await asyncio.Event().wait()


if __name__ == "__main__":
    url, token, client = sys.argv[1:]
    options = {"token": token or None, "tracing": PROVIDER}
    if client == "async":
        asyncio.run(work_async(url, options))
    else:
        work(url, options)
