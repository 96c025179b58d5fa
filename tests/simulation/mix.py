"""Who the clients are."""

from collections.abc import Awaitable, Callable
from itertools import cycle, islice
from typing import NamedTuple

from tests.simulation import async_scripts, lock_scripts, scripts
from tests.simulation.client import Client


class Role(NamedTuple):
    name: str
    scripts: tuple[Callable[[Client], None], ...] = ()
    async_scripts: tuple[Callable[[Client], Awaitable[None]], ...] = ()
    is_embedded: bool = False
    principal: str = "ann"


HOLDER = Role("holder", (scripts.hold_a_job,))
CALLER = Role("caller", (scripts.claim_explicitly, scripts.claim_explicitly, scripts.claim_several), principal="bob")
WAITER = Role("waiter", (scripts.wait_for_a_job,))
WORKER = Role("worker", (scripts.work_a_queue,))
PICKER = Role("picker", (scripts.claim_next_explicitly,), principal="bob")
PRODUCER = Role("producer", (scripts.enqueue_jobs,))
CREW = Role("crew", (scripts.use_a_session, scripts.take_a_task))
LOCKER = Role("locker", (lock_scripts.use_a_lock,))
OPERATOR = Role("operator", (scripts.operate, scripts.read, scripts.read, scripts.pause_a_queue))
ASYNC = Role(
    "async",
    async_scripts=(
        async_scripts.claim_with_a_timeout,
        async_scripts.claim_with_a_timeout,
        async_scripts.claim_next_with_a_timeout,
        async_scripts.hold_async,
    ),
)
EMBEDDED = Role(
    "embedded",
    (scripts.hold_a_job, scripts.claim_explicitly, scripts.wait_for_a_job, scripts.claim_next_explicitly),
    is_embedded=True,
)
ASYNC_EMBEDDED = ASYNC._replace(name="async-embedded", is_embedded=True)

ROLES = (
    *(HOLDER, CALLER, WAITER, ASYNC, CREW, WORKER, PRODUCER, OPERATOR, EMBEDDED, ASYNC_EMBEDDED),
    *(HOLDER, CALLER, WAITER, ASYNC, CREW, WORKER, PICKER, CALLER, LOCKER, LOCKER),
)
"""Twenty. The first ten cover nearly all roles."""


def named_roles(how_many: int) -> list[tuple[str, Role]]:
    return [(f"{role.name}-{number}", role) for number, role in enumerate(islice(cycle(ROLES), how_many), 1)]
