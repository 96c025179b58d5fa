"""A traced worker that takes a job and never finishes it. It says its spans as they end, and its lease."""

import asyncio
import sys
import threading
from typing import Any

import octostore
from tests.processes.workers.talk import say
from tests.support.spans import provider_for

PROVIDER = provider_for(lambda span: say({"span": span}))


def handle(claim: octostore.HeldClaim) -> None:
    claim.checkpoint("the checkpoint is secret")
    claim.progress("the note is secret")
    say({"lease": claim.lease_id, "traceparent": claim.traceparent})
    threading.Event().wait()


async def handle_async(claim: octostore.AsyncHeldClaim) -> None:
    await claim.checkpoint("the checkpoint is secret")
    await claim.progress("the note is secret")
    say({"lease": claim.lease_id, "traceparent": claim.traceparent})
    await asyncio.Event().wait()


async def work_async(url: str, options: dict[str, Any]) -> None:
    async with await octostore.connect_async(url, **options) as store:
        await store.work("q", handle_async, ttl=1)


if __name__ == "__main__":
    url, token, client = sys.argv[1:]
    options = {"token": token or None, "tracing": PROVIDER}
    if client == "async":
        asyncio.run(work_async(url, options))
    else:
        with octostore.connect(url, **options) as store:  # type: ignore[arg-type]  # each is what it is
            store.work("q", handle, ttl=1)
