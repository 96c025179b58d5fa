"""Bounds that random histories are too short to reach."""

from octostore.core import commands as c
from tests.model.histories import SideBySide

MORE_THAN_KEPT = 103


def test_a_hundred_lost_jobs_are_remembered() -> None:
    both = SideBySide()
    both.run([c.OpenSession(session_id="s", agent="ann", ttl=5)])
    names = [f"job-{number}" for number in range(MORE_THAN_KEPT)]
    both.run([c.ClaimJob(job_id=name, owner="ann", session_id="s") for name in names])
    both.clock.advance(5)
    both.run([c.Recover()])
    both.compare_reads()
    (resumed,) = both.run([c.OpenSession(session_id="s", agent="bob")])
    assert [lost.job_id for lost in resumed.in_flight] == names[-100:]
