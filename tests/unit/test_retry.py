"""Backoff is a pure function of the policy, the number of failures and the jitter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.core.errors import InvalidInput
from octostore.core.limits import RETRY_AFTER_MAX_MS
from octostore.core.retry import RetryPolicy, backoff_ms

policies = st.builds(
    RetryPolicy,
    base_ms=st.integers(0, 60_000),
    factor=st.floats(1, 10),
    cap_ms=st.integers(60_000, 86_400_000),
    jitter=st.floats(0, 1),
)
unit = st.floats(0, 1, exclude_max=True)


@given(policies, st.integers(1, 10_000), unit)
def test_a_delay_is_never_above_the_cap_nor_shortened_by_more_than_the_jitter(
    policy: RetryPolicy, failures: int, jitter: float
) -> None:
    full = backoff_ms(policy, failures, 0)
    delay = backoff_ms(policy, failures, jitter)
    assert 0 <= delay <= full <= policy.cap_ms
    assert delay >= round(full * (1 - policy.jitter)) - 1


@given(policies, st.integers(1, 200), unit)
def test_delays_never_get_shorter(policy: RetryPolicy, failures: int, jitter: float) -> None:
    assert backoff_ms(policy, failures, jitter) <= backoff_ms(policy, failures + 1, jitter)


def test_the_first_delays_of_the_default_policy() -> None:
    assert [backoff_ms(RetryPolicy(), failures, 0) for failures in (1, 2, 3, 4)] == [2_000, 4_000, 8_000, 16_000]


def test_the_default_policy_is_capped_at_15_minutes_and_its_jitter_is_a_quarter() -> None:
    assert backoff_ms(RetryPolicy(), 1_000, 0) == 15 * 60_000
    assert backoff_ms(RetryPolicy(), 1, 1) == 1_500


def test_no_delay_is_longer_than_a_job_may_be_put_off() -> None:
    RetryPolicy(cap_ms=RETRY_AFTER_MAX_MS)
    with pytest.raises(InvalidInput):
        RetryPolicy(cap_ms=RETRY_AFTER_MAX_MS + 1)


@pytest.mark.parametrize(
    "bad", [{"base_ms": -1}, {"base_ms": 10, "cap_ms": 5}, {"factor": 0.5}, {"jitter": 2}, {"factor": float("nan")}]
)
def test_a_policy_that_makes_no_sense_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        RetryPolicy(**bad)  # type: ignore[arg-type]
