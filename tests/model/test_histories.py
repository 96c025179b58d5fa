"""Random histories of all commands: every reply, read and event of the real system is what the model says.

`tests/stores/test_promises.py` shows that all stores agree. This shows that their rules are those of the documents.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec import UNSET

from octostore.core import commands as c
from octostore.core.commands import AnyCommand
from tests.model.job_rules import NEWEST
from tests.model.session_rules import SessionRules
from tests.model.untidy import UntidySideBySide
from tests.support.commands import any_command, locks, releases, task_claims, tokens


class Histories(SessionRules):
    @rule(drawn=st.lists(any_command(), min_size=1, max_size=4))
    def commands_arrive(self, drawn: list[AnyCommand]) -> None:
        self.run(*drawn)

    @rule(drawn=any_command() | releases() | task_claims(st.none()))
    def a_command_arrives(self, drawn: AnyCommand) -> None:
        self.run(drawn)

    @rule(number=NEWEST, principal=st.sampled_from([None, None, "local", "guest"]), drawn=st.none() | any_command())
    def a_call_is_repeated(self, number: int, principal: str | None, drawn: AnyCommand | None) -> None:
        if number < len(self.calls):
            call = self.calls[-1 - number]
            if principal is not None:
                call = msgspec.structs.replace(call, principal=principal)
            self.run(*([drawn] if drawn else []), call)

    @rule(drawn=any_command())
    def a_call_arrives_twice_at_once(self, drawn: AnyCommand) -> None:
        self.run(drawn, drawn)

    @rule(seconds=st.sampled_from([0.001, 0.999, 1, 2, 3, 4, 5, 7, 31, 61]))
    def time_passes(self, seconds: float) -> None:
        self.both.clock.advance(seconds)

    @rule(number=st.integers(0, 2), is_early=st.booleans())
    def time_passes_until_a_job_is_free(self, number: int, is_early: bool) -> None:
        """Or until one millisecond before."""
        model = self.both.model
        moments = [(job.available_at, job.name) for job in model.jobs.values() if job.claim is None]
        moments += [(model.expiry(job.claim), job.name) for job in model.jobs.values() if job.claim]
        future = sorted(moment for moment in moments if moment[0] > self.both.clock.now_ms + 1)
        if future:
            at, name = future[number % len(future)]
            self.both.clock.now_ms = at - is_early
            self.run(c.ClaimJob(job_id=name, owner="bob"), c.ClaimNext(owner="bob"))

    @rule(seconds=st.sampled_from([1, 50]))
    def the_clock_is_set_back(self, seconds: float) -> None:
        self.both.clock.advance(-seconds)

    @rule(drawn=st.lists(locks() | st.just(c.ReleaseLock(job_id="a", lease_id="#0")), min_size=2, max_size=4))
    def locks_are_acquired(self, drawn: list[AnyCommand]) -> None:
        self.run(*drawn)

    @rule(drawn=st.lists(tokens(), min_size=1, max_size=6))
    def tokens_are_made(self, drawn: list[AnyCommand]) -> None:
        self.run(*drawn)


TestHistories = pytest.mark.timeout(600)(Histories.TestCase)  # shrinking can take this long
TestHistories.settings = settings(
    max_examples=90,
    stateful_step_count=40,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)


class UntidyHistories(Histories):
    """Expiries are recorded as late as possible."""

    side_by_side = UntidySideBySide

    def the_clock_is_set_back(self) -> None:
        """Not here: the time would depend on when something was last recorded."""

    def run(self, *batch: AnyCommand) -> list[Any]:
        """Without queue limits: a claim counts against them until its expiry is recorded."""
        return super().run(*(command for command in batch if getattr(command, "max_claimed", UNSET) is UNSET))


TestUntidyHistories = pytest.mark.timeout(600)(UntidyHistories.TestCase)
TestUntidyHistories.settings = settings(TestHistories.settings, max_examples=60)


class LongHistories(Histories):
    """More of the same, for `make faults`."""


class LongUntidyHistories(UntidyHistories):
    pass


TestLongHistories = pytest.mark.timeout(1_800)(pytest.mark.slow(LongHistories.TestCase))
TestLongUntidyHistories = pytest.mark.timeout(1_800)(pytest.mark.slow(LongUntidyHistories.TestCase))
TestLongHistories.settings = TestLongUntidyHistories.settings = settings(TestHistories.settings, max_examples=1_000)
