"""An agent's day: claim, work, release; and what others see of it."""

import os
import re
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw

from tests.mcp.conftest import World
from tests.support.processes import until

TTL_SECONDS = 1.2
WAIT_SECONDS = 2.5 * TTL_SECONDS


class Heard:
    """What a server reports during a call."""

    def __init__(self) -> None:
        self.said: list[tuple[float, float | None, str | None]] = []
        self.something = threading.Event()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.said.append((progress, total, message))
        self.something.set()


def types_of(world: World, job: str) -> list[str]:
    return [event.type for event in world.store.events(job_id=job)]


def test_a_name_that_nobody_has_used_differs_from_a_free_job(world: World) -> None:
    name = f"acme/{world.new_name()}#12"
    world.store.enqueue("build", job_id=name)
    asked = world.ann.call("get_job_owner", job_id=name[:-1])
    assert (asked.document["is_known"], asked.document["similar"]) == (False, [name])
    assert "Nobody has ever claimed or enqueued it" in asked.text
    assert "Nobody has ever claimed or enqueued it" in world.ann.call("get_job", job_id=name[:-1]).text
    known = world.ann.call("get_job_owner", job_id=name)
    assert known.document == {"job_id": name, "status": "queued", "held_here": False}


def test_a_job_has_one_owner_and_the_other_agent_sees_who(world: World) -> None:
    job = world.new_name()
    mine = world.ann.call("claim_job", job_id=job, metadata={"branch": "fix"})
    assert (mine.is_error, mine.status, mine.document["attempt"]) == (False, "claimed", 1)
    assert "heartbeats for you" in mine.next
    world.ann.call("report_progress", job_id=job, note="running tests", percent=40)

    theirs = world.bob.call("claim_job", job_id=job)
    assert (theirs.is_error, theirs.status, theirs.document["owner"]) == (False, "held", "ann")
    assert theirs.document["metadata"] == {"branch": "fix"}
    assert theirs.document["held_here"] is False
    assert "Do not work on it" in theirs.next
    progress = theirs.document["progress"]
    assert (progress["note"], progress["percent"]) == ("running tests", 40)
    seen = world.bob.call("get_job_owner", job_id=job).document
    assert (seen["status"], seen["claim"]["owner"], seen["held_here"]) == ("claimed", "ann", False)
    assert seen["claim"]["host"] == theirs.document["host"] == os.uname().nodename
    assert seen["claim"]["pid"] == theirs.document["pid"] > 1
    listed = world.bob.call("list_claimed_jobs", prefix=job).document
    assert [claim["owner"] for claim in listed["claimed"]] == ["ann"]

    assert world.ann.call("checkpoint", job_id=job, data={"step": 3}).is_error is False
    done = world.ann.call("release_job", job_id=job, outcome="done", result={"pr": 77})
    assert (done.document["outcome"], done.document["status"]) == ("done", "done")
    late = world.bob.call("claim_job", job_id=job)
    assert (late.is_error, late.status, late.document["result"]) == (False, "done", {"pr": 77})
    assert world.bob.call("claim_job", job_id=job, again=True).status == "claimed"
    world.bob.call("release_job", job_id=job)
    assert types_of(world, job) == ["claimed", "done", "claimed", "released"]


def test_a_second_claim_through_the_same_server_does_not_make_a_second_owner(world: World) -> None:
    job = world.new_name()
    world.ann.call("claim_job", job_id=job)
    again = world.ann.call("claim_job", job_id=job)
    assert (again.status, again.document["held_here"]) == ("held", True)
    assert "If you claimed it" in again.next
    assert world.ann.call("get_job_owner", job_id=job).document["held_here"] is True
    mine = world.ann.call("my_claims").document["claims"]
    assert [(claim["job_id"], claim["status"]) for claim in mine] == [(job, "claimed")]
    world.ann.call("release_job", job_id=job)
    assert world.ann.call("my_claims").document == {"claims": []}


def test_an_agent_cannot_write_to_what_it_does_not_hold(world: World) -> None:
    job = world.new_name()
    world.ann.call("claim_job", job_id=job)
    writes: dict[str, dict[str, Any]] = {
        "release_job": {"outcome": "done"},
        "report_progress": {"note": "mine"},
        "checkpoint": {"data": 1},
    }
    for tool, arguments in writes.items():
        refused = world.bob.call(tool, job_id=job, **arguments)
        assert (refused.is_error, refused.status) == (True, "not_held")
        assert refused.document["holder"]["owner"] == "ann"
    world.ann.call("release_job", job_id=job)
    assert "nobody has it" in world.bob.call("release_job", job_id=job).text
    assert types_of(world, job) == ["claimed", "released"]


def test_a_release_can_be_repeated_and_a_late_write_learns_why(world: World) -> None:
    job = world.new_name()
    world.ann.call("claim_job", job_id=job)
    first = world.ann.call("release_job", job_id=job, outcome="failed", error="tests are red")
    assert world.ann.call("release_job", job_id=job, outcome="failed", error="tests are red") == first
    late = world.ann.call("report_progress", job_id=job, note="still here")
    assert (late.is_error, late.status, late.document["ended"]["how"]) == (True, "lease_lost", "failed")
    assert types_of(world, job) == ["claimed", "failed"]


def test_the_server_heartbeats_for_its_agent(world: World) -> None:
    job = world.new_name()
    world.ann.call("claim_job", job_id=job, ttl=TTL_SECONDS)
    assert world.bob.call("claim_job", job_id=job, wait=WAIT_SECONDS).document["owner"] == "ann"
    assert world.ann.call("report_progress", job_id=job).next == "It is still yours."
    world.ann.call("release_job", job_id=job)
    assert types_of(world, job) == ["claimed", "released"]


def test_an_agent_that_hangs_is_stuck_although_its_server_lives(world: World) -> None:
    job = world.new_name()
    world.ann.call("claim_job", job_id=job, max_silence=1)
    until(lambda: types_of(world, job) == ["claimed", "stuck"])
    until(lambda: world.ann.call("my_claims").document["claims"][0]["stuck"])  # since its next heartbeat
    assert world.ann.call("my_claims").document["claims"][0]["status"] == "claimed"
    assert world.bob.call("get_job_owner", job_id=job).document["claim"]["stuck"]
    world.ann.call("checkpoint", job_id=job, data={"step": 3})
    world.ann.call("release_job", job_id=job)
    assert types_of(world, job)[:2] == ["claimed", "stuck"]


def test_a_stop_request_arrives_with_the_next_reply(world: World) -> None:
    job, other = world.new_name(), world.new_name()
    world.ann.call("claim_job", job_id=job, ttl=6)
    world.store.request_stop(job, reason="the branch is gone")
    more: list[str] = []

    def has_arrived() -> bool:
        more.extend(world.ann.call("get_job", job_id=other).more)
        return bool(more)

    until(has_arrived)
    (notice,) = more
    assert notice.startswith(f"stop_requested: an operator wants you to stop working on '{job}'.")
    assert "'the branch is gone'" in notice
    assert world.ann.call("get_job", job_id=other).more == []
    mine = world.ann.call("my_claims")
    assert (mine.document["claims"][0]["status"], mine.document["claims"][0]["is_to_stop"]) == ("claimed", True)
    assert world.ann.call("report_progress", job_id=job, note="winding up").next == "It is still yours."
    assert world.ann.call("release_job", job_id=job).document["status"] == "free"


def test_an_agent_that_loses_a_job_learns_it_and_who_holds_it(world: World) -> None:
    job, other = world.new_name(), world.new_name()
    world.ann.call("claim_job", job_id=job, ttl=TTL_SECONDS)
    world.store.force_release(job, reason="an operator said so")
    assert world.bob.call("claim_job", job_id=job).status == "claimed"
    until(lambda: f"the lease on {job} is lost" in world.ann.stderr)

    (notice,) = world.ann.call("get_job", job_id=other).more
    assert notice.startswith(f"lease_lost: you lost the lease on '{job}'")
    assert world.ann.call("get_job", job_id=other).more == []
    (mine,) = world.ann.call("my_claims").document["claims"]
    assert (mine["status"], mine["holder"]["owner"]) == ("lost", "bob")
    assert "an operator said so" in mine["why"]
    writes: dict[str, dict[str, Any]] = {
        "report_progress": {"note": "on"},
        "checkpoint": {"data": 2},
        "release_job": {},
    }
    for tool, arguments in writes.items():
        refused = world.ann.call(tool, job_id=job, **arguments)
        assert (refused.is_error, refused.status, refused.document["holder"]["owner"]) == (True, "lease_lost", "bob")
        assert "Stop working" in refused.next
    assert world.ann.call("my_claims").document == {"claims": []}
    world.bob.call("release_job", job_id=job)
    assert world.ann.call("claim_job", job_id=job).status == "claimed"
    world.ann.call("release_job", job_id=job)


def test_a_waiting_claim_blocks_nobody_says_that_it_waits_and_gets_the_job(world: World) -> None:
    job = world.new_name()
    heard = Heard()
    world.ann.call("claim_job", job_id=job)
    waiting = world.bob.start("claim_job", heard, job_id=job, wait=30)
    assert heard.something.wait(10)
    assert world.bob.call("get_job_owner", job_id=job).document["claim"]["owner"] == "ann"
    world.ann.call("release_job", job_id=job, note="half of it is uploaded")
    got = waiting.result(10)
    assert (got.status, got.document["note"]) == ("claimed", "half of it is uploaded")
    _progress, total, message = heard.said[0]
    assert (total, message) == (30, f"waiting for {job}")
    world.bob.call("release_job", job_id=job)


def test_a_wait_that_is_cancelled_leaves_no_claim(world: World) -> None:
    job = world.new_name()
    heard = Heard()
    world.ann.call("claim_job", job_id=job)
    waiting = world.bob.start("claim_job", heard, job_id=job, wait=30)
    assert heard.something.wait(10)
    waiting.cancel()
    assert world.bob.call("my_claims").document == {"claims": []}  # the server has read the cancellation before this
    world.ann.call("release_job", job_id=job)
    mine = world.store.claim_job(job, "the test", wait=5)
    assert mine.status == "claimed"
    assert types_of(world, job) == ["claimed", "released", "claimed"]


def test_a_job_of_a_full_queue_says_so(world: World) -> None:
    queue, first, second = (world.new_name(what) for what in ("queue", "first", "second"))
    for name in (first, second):
        world.store.enqueue("build", queue=queue, job_id=name)
    world.store.set_queue(queue, max_claimed=1)
    world.ann.call("claim_job", job_id=first)
    full = world.bob.call("claim_job", job_id=second)
    assert (full.status, full.document["max_claimed"]) == ("delayed", 1)
    assert "as many jobs of its queue are claimed as may be" in full.next


def test_queues(world: World) -> None:
    queue = world.new_name("queue")
    nothing = world.ann.call("claim_next_job", queue=queue)
    assert (nothing.status, nothing.document["all_done"]) == ("empty", True)
    assert "Check its name" in nothing.next
    new = world.ann.call("enqueue_job", kind="review", payload={"pr": 77}, queue=queue, max_attempts=1)
    job = new.document["job_id"]
    assert world.ann.call("enqueue_job", kind="review", job_id=job, queue=queue).document["created"] is False
    got = world.bob.call("claim_next_job", queue=queue, kinds=["review"])
    assert (got.status, got.document["job_id"], got.document["payload"]) == ("claimed", job, {"pr": 77})
    world.store.enqueue("review", queue=queue, job_id=f"{job}-later", run_at=datetime.now(UTC) + timedelta(days=1))
    busy = world.ann.call("claim_next_job", queue=queue)
    assert (busy.status, busy.document["all_done"], busy.document["owners"]) == ("empty", False, ["bob"])
    assert (busy.document["claimed"], busy.document["later"], busy.document["dead"]) == (1, 1, 0)
    assert "not finished" in busy.next
    status = world.ann.call("queue_status", queue=queue).document
    assert (status["queue"], status["ready"], status["claimed"], status["later"]) == (queue, 0, 1, 1)
    assert status["available_at"] == busy.document["available_at"]
    world.store.set_queue(queue, paused=True, reason="deploying")
    paused = world.ann.call("claim_next_job", queue=queue)
    assert (paused.status, paused.document["paused"], paused.document["pause"]["reason"]) == (
        "empty",
        True,
        "deploying",
    )
    by_name = world.ann.call("claim_job", job_id=f"{job}-later")
    asked = world.ann.call("queue_status", queue=queue)
    assert all("queue is paused" in reply.next for reply in (paused, by_name, asked))
    world.store.set_queue(queue, paused=False)
    world.store.cancel(f"{job}-later")
    world.bob.call("release_job", job_id=job, outcome="deferred", retry_after=0, note="out of quota")
    again = world.bob.call("claim_next_job", queue=queue)
    assert (again.document["attempt"], again.document["previous"][0]["how"]) == (1, "deferred")
    world.bob.call("release_job", job_id=job, outcome="failed", error="cannot be reviewed")
    dead = world.ann.call("claim_job", job_id=job)
    assert (dead.is_error, dead.status, dead.document["error"]) == (False, "dead", "cannot be reviewed")
    assert [one["job_id"] for one in world.eve.call("dead_jobs", queue=queue).document["jobs"]] == [job, f"{job}-later"]
    assert world.eve.call("requeue_job", job_id=job, reason="try again").document["status"] == "queued"
    world.bob.call("claim_job", job_id=job)
    asked = world.eve.call("cancel_job", job_id=job, reason="not needed")
    assert (asked.document["status"], asked.document["claim"]["stop_requested"]["cancels"]) == ("claimed", True)
    assert world.bob.call("report_progress", job_id=job, note="on").more != [], (
        "its owner is asked to stop, and keeps the claim"
    )
    assert world.bob.call("release_job", job_id=job).document["status"] == "dead"
    assert world.eve.call("cancel_job", job_id=job).document["status"] == "dead"
    settled = world.ann.call("claim_next_job", queue=queue)
    assert settled.next.startswith("Every job in this queue is done or dead.")
    world.store.enqueue("build", queue=queue)
    other = world.ann.call("claim_next_job", queue=queue, kinds=["review"])
    assert other.next.startswith("No job of these kinds is left in this queue.")
    assert world.eve.call("cancel_job", job_id="nobody-knows").status == "not_found"


def test_operators_stop_an_owner_and_take_a_job_away(world: World) -> None:
    job = world.new_name()
    world.ann.call("claim_job", job_id=job)
    asked = world.eve.call("stop_job", job_id=job, reason="not needed").document
    assert (asked["status"], asked["claim"]["stop_requested"]["reason"]) == ("claimed", "not needed")
    (notice,) = world.ann.call("report_progress", job_id=job, note="on").more
    assert notice.startswith("stop_requested: ")
    taken = world.eve.call("force_release_job", job_id=job, reason="it does not stop").document
    assert (taken["status"], taken["last_outcome"]) == ("free", "force_released")
    lost = world.ann.call("checkpoint", job_id=job, data=1)
    assert (lost.status, lost.document["ended"]["reason"]) == ("lease_lost", "it does not stop")
    assert world.eve.call("stop_job", job_id=job).status == "conflict"
    world.ann.call("release_job", job_id=job)


def test_the_log_is_read_page_by_page(world: World) -> None:
    job = world.new_name()
    world.ann.call("claim_job", job_id=job)
    world.ann.call("release_job", job_id=job)
    first = world.bob.call("read_events", job_id=job, limit=1).document
    second = world.bob.call("read_events", job_id=job, limit=1, after=first["after"]).document
    rest = world.bob.call("read_events", prefix=job, after=second["after"]).document
    assert [page["events"][0]["type"] for page in (first, second)] == ["claimed", "released"]
    assert rest == {"events": [], "after": second["after"]}
    assert world.eve.call("recover_jobs").is_error is False


def test_a_loss_that_a_write_discovers_is_known_at_once(world: World) -> None:
    job = world.new_name()
    world.ann.call("claim_job", job_id=job, ttl=600)
    world.store.force_release(job)
    assert world.ann.call("checkpoint", job_id=job, data=1).status == "lease_lost"
    (mine,) = world.ann.call("my_claims").document["claims"]
    assert (mine["status"], mine.get("holder")) == ("lost", None)
    again = world.ann.call("claim_job", job_id=job, owner=None, ttl=None)  # models send null for what they leave out
    assert (again.status, again.document["owner"], again.more) == ("claimed", "ann", [])
    assert world.ann.call("release_job", job_id=job).is_error is False


BAD: list[tuple[str, dict[str, Any]]] = [
    ("job_id", {}),
    ("job_id", {"job_id": 7}),
    ("job_id", {"job_id": "no blanks"}),
    ("lease_id", {"job_id": "job", "lease_id": "x"}),
    ("wait", {"job_id": "job", "wait": -1}),
    ("wait", {"job_id": "job", "wait": 601}),
    ("ttl", {"job_id": "job", "ttl": 0}),
    ("ttl", {"job_id": "job", "ttl": "120"}),
    ("owner", {"job_id": "job", "owner": ""}),
    ("metadata", {"job_id": "job", "metadata": "x" * 1_100}),
    ("again", {"job_id": "job", "again": "yes"}),
]


def test_bad_input_names_the_argument_and_changes_nothing(world: World) -> None:
    before = [event.seq for event in world.store.events()]
    for field, arguments in BAD:
        refused = world.ann.call("claim_job", **arguments)
        assert (refused.is_error, refused.status, refused.document["field"]) == (True, "invalid_input", field)
        assert "Nothing was changed" in refused.next
    for tool in ("read_events", "list_claimed_jobs", "dead_jobs"):
        assert world.eve.call(tool, limit=201).document["field"] == "limit"
    assert world.ann.call("my_claims", verbose=True).document["field"] == "verbose"
    assert [event.seq for event in world.store.events()] == before


def test_an_unknown_word_gets_the_list_of_allowed_ones(world: World) -> None:
    refused = world.ann.call("release_job", job_id="job", outcome="finished")
    assert refused.document["field"] == "outcome"
    assert "it must be one of released, done, failed, deferred" in refused.document["error"]
    refused = world.ann.call("save_session", session_id="main", context=1, phase="thinking")
    assert "it must be one of idle, planning" in refused.document["error"]
    refused = world.ann.call("read_events", types=["claimed", "stolen"])
    assert "'stolen', which is not an event type; use: enqueued, claimed, " in refused.document["error"]


def test_events_are_short_and_chosen_by_type(world: World) -> None:
    job = world.new_name()
    for _ in range(3):
        world.ann.call("claim_job", job_id=job)
        world.ann.call("release_job", job_id=job, outcome="failed", error="red")
    short, full = (world.bob.call("read_events", job_id=job, details=details) for details in (False, True))
    assert len(short.text) < 120 * 6 < len(full.text)
    assert short.document["events"][1]["agent"] == "ann"
    assert full.document["events"][1]["data"]["error"] == "red"
    page = world.bob.call("read_events", job_id=job, types=["failed"], limit=2).document
    assert [event["type"] for event in page["events"]] == ["failed", "failed"]
    rest = world.bob.call("read_events", job_id=job, types=["failed"], after=page["after"]).document
    assert [event["seq"] for event in rest["events"]] == [full.document["after"]]
    assert rest["after"] == full.document["after"]


def test_whole_numbers_may_be_written_as_decimals(world: World) -> None:
    assert world.ann.call("read_events", limit=1.0).is_error is False


def leases_in(path: Path) -> list[str]:
    """The lease ids of all live claims in a store's file."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as file:
        return [lease for (lease,) in file.execute("SELECT lease_id FROM jobs WHERE lease_id IS NOT NULL")]


def test_no_secret_is_ever_shown(world: World) -> None:
    job = world.new_name()
    world.ann.call("claim_job", job_id=job)
    leases = leases_in(world.file)
    assert leases
    world.ann.call("claim_job", job_id=job)
    world.ann.tools()
    for tool in ("report_progress", "get_job", "get_job_owner", "release_job", "report_progress"):
        world.ann.call(tool, job_id=job)
    for tool in ("my_claims", "list_claimed_jobs", "read_events"):
        world.ann.call(tool)
    for agent in (world.ann, world.bob):
        everything = "".join(agent.said) + agent.stderr
        for secret in [*leases, world.env.get("OCTOSTORE_TOKEN", "octo_")]:
            assert secret not in everything
        assert not re.search(r'lease_id\\*":', everything)


def test_calls_can_be_made_at_the_same_time(world: World) -> None:
    jobs = [world.new_name() for _ in range(20)]
    claims = [world.ann.start("claim_job", job_id=job) for job in jobs]
    assert {claim.result(10).status for claim in claims} == {"claimed"}
    assert len(world.ann.call("my_claims").document["claims"]) == 20
    ends = [world.ann.start("release_job", job_id=job, outcome="done") for job in jobs]
    assert {end.result(10).document["outcome"] for end in ends} == {"done"}
