"""Waiting until a job is done or dead."""

import msgspec

from octostore.client.claiming import check_wait
from octostore.client.port import Port
from octostore.core.events import Event
from octostore.core.questions import GetJob, ListEvents
from octostore.core.replies import JobView
from octostore.stores.clock import boottime

RECHECK_SECONDS = 10.0
"""Time alone can make a job dead, but in a quiet store no event says so until someone writes."""


def is_settled(job: JobView) -> bool:
    return job.status in {"done", "dead"}


def may_settle(event: Event) -> bool:
    return event.type == "cancelled" or event.data.get("status") in {"done", "dead"}


def wait_for_job(port: Port, job_id: str, wait: float | None) -> JobView:
    ends_at = boottime() + check_wait(wait)
    question = ListEvents(job_id=job_id)
    while True:
        job = port.ask(GetJob(job_id=job_id))
        left = ends_at - boottime()
        if is_settled(job) or left <= 0:
            return job
        for event in port.follow(question, min(left, RECHECK_SECONDS)):
            question = msgspec.structs.replace(question, after=event.seq)
            if may_settle(event):
                break
