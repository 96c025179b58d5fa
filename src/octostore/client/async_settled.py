"""Waiting until a job is done or dead, for asyncio."""

import asyncio
from contextlib import aclosing, suppress
from typing import Any

import msgspec

from octostore.client.claiming import check_wait
from octostore.client.port import AsyncPort
from octostore.client.settled import RECHECK_SECONDS, is_settled, may_settle
from octostore.core.questions import GetJob, ListEvents
from octostore.core.replies import JobView
from octostore.stores.clock import boottime


async def wait_for_job_async(port: AsyncPort, job_id: str, wait: float | None) -> JobView:
    ends_at = boottime() + check_wait(wait)
    question = ListEvents(job_id=job_id)
    while True:
        job = await port.ask(GetJob(job_id=job_id))
        left = ends_at - boottime()
        if is_settled(job) or left <= 0:
            return job
        events: Any = port.follow(question)
        with suppress(TimeoutError):
            async with asyncio.timeout(min(left, RECHECK_SECONDS)), aclosing(events):
                async for event in events:
                    question = msgspec.structs.replace(question, after=event.seq)
                    if may_settle(event):
                        break
