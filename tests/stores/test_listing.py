"""Lists are complete also where much of what is looked through turns out to be something else by now."""

from octostore.core.commands import ClaimJob, ClaimNext, Enqueue, ReleaseJob
from octostore.core.questions import ListJobs
from octostore.core.replies import JobPage
from tests.support.world import World


def names(page: JobPage) -> list[str]:
    return [job.job_id for job in page.jobs]


def test_what_is_found_behind_many_that_have_become_something_else(world: World) -> None:
    """Claims that have expired may have any status now, and more than a page of them comes first."""
    for number in range(7):
        world.do(Enqueue(job_id=f"a-{number}", kind="build", queue="ci"))
    for _ in range(7):
        assert world.do(ClaimNext(owner="dead", queue="ci", ttl=10)).status == "claimed"
    for name in ("y", "z"):
        lease_id = world.do(ClaimJob(job_id=name, owner="ann")).lease_id or ""
        world.do(ReleaseJob(job_id=name, lease_id=lease_id))
    world.advance(10)
    assert "expired" not in world.event_types(), "nobody has written it down"
    first = world.ask(ListJobs(status="free", limit=1))
    assert (names(first), first.cursor) == (["y"], "y")
    assert names(world.ask(ListJobs(status="free", limit=1, cursor=first.cursor))) == ["z"]
    assert names(world.ask(ListJobs(status="free", limit=2))) == ["y", "z"]
    assert names(world.ask(ListJobs(status="queued", limit=100))) == [f"a-{number}" for number in range(7)]
    assert names(world.ask(ListJobs(status="claimed", limit=2))) == []
