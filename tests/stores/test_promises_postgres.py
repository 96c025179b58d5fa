"""The same random histories on PostgreSQL: the same replies and the same log as the memory store."""

from typing import Any

from hypothesis import HealthCheck, settings

from octostore.core.commands import Probe
from octostore.core.questions import ListEvents, ListJobs, Question
from octostore.stores.base import Backend
from octostore.stores.postgres.backend import PostgresBackend
from octostore.stores.postgres.connection import parse_address
from tests.stores.test_promises import Histories
from tests.support.postgres import empty_store, put_back
from tests.support.world import DatabaseClock, World


class PostgresPromises(Histories):
    def __init__(self) -> None:
        self.url = empty_store()
        super().__init__()
        self.run([Probe()])  # the others store the first moment anyway, because they have not seen their clock before

    def new_store(self) -> World:
        return World(self.reopened(), DatabaseClock())

    def reopened(self) -> Backend:
        return PostgresBackend(parse_address(self.url), lambda: self.clock.now_ms)

    def all_questions(self) -> list[Question[Any]]:
        jobs = [ListJobs(limit=2), *(ListJobs(status=status, limit=3) for status in ("free", "queued", "dead"))]
        return [*super().all_questions(), ListEvents(limit=7), *jobs]

    def teardown(self) -> None:
        super().teardown()
        put_back(self.url)


TestPostgresPromises = PostgresPromises.TestCase
TestPostgresPromises.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
