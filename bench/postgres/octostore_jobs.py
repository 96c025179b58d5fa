"""The jobs with OctoStore's library, in threads and in tasks."""

from asyncio import gather

import octostore
from bench.postgres.laps import Jobs, Laps, Stopwatch

QUEUE = "default"
DONE = "SELECT count(*) FROM jobs WHERE status = 'done'"


def in_threads(jobs: Jobs) -> Laps:
    watch = Stopwatch(jobs)
    with octostore.connect(jobs.store_url) as store:
        store.open_session("bench").close()  # the first write creates the store
        with watch.lap():
            for group in jobs.payloads():
                store.enqueue_many({"kind": "work", "payload": payload} for payload in group)
        with watch.lap():
            store.work(QUEUE, lambda _: _note(watch), concurrency=jobs.workers, until_empty=True)
    return watch.result(DONE)


async def in_tasks(jobs: Jobs) -> Laps:
    watch = Stopwatch(jobs)

    async def handle(_: octostore.AsyncHeldClaim) -> None:
        watch.handle()

    async with await octostore.connect_async(jobs.store_url) as store:
        await (await store.open_session("bench")).close()
        with watch.lap():
            for group in jobs.payloads():
                if hasattr(store, "enqueue_many"):
                    await store.enqueue_many({"kind": "work", "payload": payload} for payload in group)
                else:  # an earlier version
                    await gather(*(store.enqueue("work", payload) for payload in group))
        with watch.lap():
            await store.work(QUEUE, handle, concurrency=jobs.workers, until_empty=True)
    return watch.result(DONE)


def _note(watch: Stopwatch) -> None:
    watch.handle()
