"""The same random histories on PostgreSQL: it answers and writes down what the memory store does."""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, rule

from octostore.core.commands import AnyCommand, Probe
from octostore.core.questions import GetFigures, ListEvents, ListJobs, ListTokens, Question
from octostore.stores.postgres.backend import PostgresBackend
from octostore.stores.postgres.connection import parse_place
from tests.stores.test_promises import LISTS_OF_SESSIONS, Promises, comparable, timeless
from tests.support.postgres import drop_schema, new_schema
from tests.support.world import DatabaseClock, World


class PostgresPromises(Promises):
    def __init__(self) -> None:
        super().__init__()
        self.place = parse_place(new_schema())
        self.postgres = World(self.open_postgres(), DatabaseClock())
        self.run([Probe()])  # the others keep the first moment in any case, because their clock is new to them

    def open_postgres(self) -> PostgresBackend:
        return PostgresBackend(self.place, lambda: self.clock.now_ms)

    def teardown(self) -> None:
        self.postgres.backend.close()
        drop_schema(self.place)
        super().teardown()

    def run(self, batch: list[AnyCommand]) -> list[Any]:
        answers = super().run(batch)
        assert list(map(comparable, answers)) == list(map(comparable, self.postgres.batch(batch)))
        return answers

    @rule()
    def the_store_is_restarted(self) -> None:
        super().the_store_is_restarted()
        self.postgres.backend.close()
        self.postgres.backend = self.open_postgres()

    @invariant()
    def postgres_tells_the_same_of_everything_together(self) -> None:
        lists: list[Question[Any]] = [
            ListJobs(limit=2),
            *(ListJobs(status=s, limit=3) for s in ("free", "queued", "dead")),
        ]
        for question in [GetFigures(), ListTokens(), ListEvents(limit=7), *lists, *LISTS_OF_SESSIONS]:
            assert timeless(self.memory.ask(question)) == timeless(self.postgres.ask(question))
        assert self.memory.log() == self.postgres.log()


TestPostgresPromises = PostgresPromises.TestCase
TestPostgresPromises.settings = settings(
    max_examples=4, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
