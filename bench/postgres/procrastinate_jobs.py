"""The jobs with procrastinate."""

import procrastinate

from bench.postgres.laps import Jobs, Laps, Stopwatch

QUEUE = "default"
DONE = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"


async def in_tasks(jobs: Jobs) -> Laps:
    watch = Stopwatch(jobs)
    connector = procrastinate.PsycopgConnector(conninfo=jobs.url, kwargs={"options": f"-csearch_path={jobs.schema}"})
    app = procrastinate.App(connector=connector)

    async def handle(number: int) -> None:
        del number
        watch.handle()

    task = app.task(handle, name="work", queue=QUEUE)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        with watch.lap():
            for group in jobs.payloads():
                await task.batch_defer_async(*group)
        with watch.lap():
            await app.run_worker_async(queues=[QUEUE], concurrency=jobs.workers, wait=False)
    return watch.result(DONE)
