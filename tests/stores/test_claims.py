"""The search for recent claims is bounded, and the reply says if it left any out."""

from typing import Any

import pytest

from octostore.core.commands import ClaimJob, ForceReleaseJob, ReleaseJob
from octostore.core.questions import ListClaims
from octostore.stores import finding_claims
from tests.support.world import World


def claim(world: World, job_id: str, **terms: Any) -> str:
    return world.do(ClaimJob(job_id=job_id, owner="ann", **terms)).lease_id or ""


@pytest.mark.parametrize("world", ["sqlite", "postgres"], indirect=True)  # the memory store has no limit
def test_the_search_stops_at_its_limits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        name = f"done-{number}"
        world.do(ReleaseJob(job_id=name, lease_id=claim(world, name), outcome="done"))
    for number in range(4):
        claim(world, f"lost-{number}")
        world.advance(1)
        world.do(ForceReleaseJob(job_id=f"lost-{number}"))
    for number in range(4):
        claim(world, f"live-{number}")
    everything = world.ask(ListClaims())
    assert (len(everything.rows), everything.more) == (12, False)
    for limit, value in (("LIVE_LOOKED_AT", 3), ("LOSSES_LOOKED_AT", 2), ("EVENTS_LOOKED_AT", 16)):
        monkeypatch.setattr(finding_claims, limit, value)
    page = world.ask(ListClaims())
    # Of 20 events the last 16 are searched, which include all losses and two of the other ends.
    expected = ["lost-3", "lost-2", "lost-1", "lost-0", "live-0", "live-1", "live-2", "done-2", "done-3"]
    assert ([row.job_id for row in page.rows], page.more) == (expected, True)
    lost = world.ask(ListClaims(lost=True))
    assert ([row.job_id for row in lost.rows], lost.more) == (["lost-3", "lost-2"], True)
