"""Milliseconds inside, aware datetimes outside."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.core.errors import InvalidInput
from octostore.core.moments import to_datetime, to_moment


@given(st.integers(0, 253_402_300_799_999))
def test_a_moment_survives_the_round_trip(moment_ms: int) -> None:
    assert to_moment("run_at", to_datetime(moment_ms)) == moment_ms


def test_time_zones_are_converted() -> None:
    noon_in_tokyo = datetime(2026, 11, 15, 12, tzinfo=timezone(timedelta(hours=9)))
    assert to_datetime(to_moment("run_at", noon_in_tokyo)) == datetime(2026, 11, 15, 3, tzinfo=UTC)


@pytest.mark.parametrize("bad", [datetime(2026, 11, 15, 12), datetime(1969, 1, 1, tzinfo=UTC), "2026-11-15T12:00:00Z"])  # noqa: DTZ001
def test_a_time_without_a_zone_or_out_of_range_is_refused(bad: datetime) -> None:
    with pytest.raises(InvalidInput):
        to_moment("run_at", bad)
