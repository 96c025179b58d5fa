"""The jobs with pgqueuer."""

import asyncpg
import msgspec
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.postgres.laps import Jobs, Laps, Stopwatch

ENTRYPOINT = "work"
DONE = "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful' AND NOT EXISTS (SELECT FROM pgqueuer)"


async def in_tasks(jobs: Jobs) -> Laps:
    return await _run(jobs, batch_size=jobs.workers)


async def singly(jobs: Jobs) -> Laps:
    return await _run(jobs, batch_size=1)


async def _run(jobs: Jobs, batch_size: int) -> Laps:
    watch = Stopwatch(jobs)
    connection = await asyncpg.connect(jobs.url, server_settings={"search_path": jobs.schema})
    driver = AsyncpgDriver(connection)
    queries = Queries(driver)
    await queries.install()
    await queries.optimize_autovacuum()
    worker = PgQueuer(driver)

    async def handle(_: Job) -> None:
        if watch.handle():
            worker.shutdown.set()  # it exits once everything is written

    worker.entrypoint(ENTRYPOINT)(handle)
    with watch.lap():
        for group in jobs.payloads():
            size = len(group)
            await queries.enqueue([ENTRYPOINT] * size, list(map(msgspec.json.encode, group)), [0] * size)
    with watch.lap():
        # It requires a limit of at least twice the batch.
        await worker.run(batch_size=batch_size, max_concurrent_tasks=2 * jobs.workers)
    return watch.result(DONE)
