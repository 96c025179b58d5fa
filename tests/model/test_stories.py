"""Short histories that random commands seldom produce. The model says what is right.

A number is a pause in seconds, a list is one transaction. `#0` is the newest live lease, `~0` the newest ended one.
"""

from typing import Any, TypeAlias

import pytest

from octostore.core import commands as c
from octostore.core.commands import AnyCommand
from tests.model.machine import Machine

Step: TypeAlias = "float | AnyCommand | list[AnyCommand]"

CLAIM = c.ClaimJob(job_id="a", owner="ann", ttl=5)
AGAIN = c.ClaimJob(job_id="a", owner="ann", ttl=5, again=True)
NEXT = c.ClaimNext(owner="bob")
TASK = c.ClaimTask(session_id="s", owner="ann", queues=("default",), ttl=5, request_id="r")
OPEN = c.OpenSession(session_id="s", agent="ann", ttl=5, request_id="r")
TAKE = c.OpenSession(session_id="s", agent="bob", ttl=30)
GIVE = c.HandOverSession(session_id="s", lease_id="#0", to_agent="bob", note="yours")
HEARTBEAT = c.HeartbeatJob(job_id="a", lease_id="#0")
KEEP = c.KeepSessionAlive(session_id="s", lease_id="#0")


def enqueue(name: str, **terms: Any) -> c.Enqueue:
    return c.Enqueue(job_id=name, kind="build", **terms)


def end(outcome: Any = "released", **terms: Any) -> c.ReleaseJob:
    return c.ReleaseJob(job_id="a", lease_id="#0", outcome=outcome, **terms)


def lock(**terms: Any) -> c.AcquireLock:
    return c.AcquireLock(job_id="a", owner="ann", **terms)


def save(phase: Any, **terms: Any) -> c.SaveSession:
    return c.SaveSession(session_id="s", lease_id="#0", context=b"7", phase=phase, **terms)


STORIES: dict[str, list[Step]] = {
    "a failed job without a queue waits for its retry_after": [
        CLAIM,
        end("failed", retry_after=7),
        CLAIM,
        7,
        CLAIM,
    ],
    "it is free at that millisecond, not before": [CLAIM, end("failed", retry_after=7), 6.999, CLAIM, 0.001, CLAIM],
    "a release forgets failures": [CLAIM, end("failed"), CLAIM, end(), CLAIM],
    "a second result replaces the first, even with nothing": [
        CLAIM,
        end("done", result=b"1"),
        c.RequeueJob(job_id="a"),
        CLAIM,
        end("done"),
        CLAIM,
    ],
    "a done job that is claimed again starts over": [
        CLAIM,
        c.CheckpointJob(job_id="a", lease_id="#0", data=b"1"),
        c.HeartbeatJob(job_id="a", lease_id="#0", note="half"),
        end("failed", error="broken"),
        CLAIM,
        end("done"),
        AGAIN,
    ],
    "a lock delay outlasts enqueueing": [
        c.ClaimJob(job_id="a", owner="ann", lock_delay=3),
        end(),
        enqueue("a"),
        NEXT,
        3,
        NEXT,
    ],
    "a lock delay does not shorten a backoff": [
        enqueue("a"),
        CLAIM,
        end("failed"),
        2,
        CLAIM,
        end("failed"),
        4,
        c.ClaimJob(job_id="a", owner="ann", lock_delay=3),
        end("failed"),
        3,
        CLAIM,
    ],
    "a released task keeps its place": [enqueue("a"), 1, enqueue("b"), CLAIM, 1, end(), NEXT],
    "the order of a queue": [
        enqueue("a"),
        enqueue("b", run_at=1_000),
        enqueue("c", priority=1),
        enqueue("d/e", priority=1),
        *[NEXT] * 5,
    ],
    "a queue limit within a transaction": [
        CLAIM,
        [enqueue("a"), enqueue("b"), enqueue("c"), c.SetQueue(queue="default", max_claimed=2), NEXT, NEXT],
        [end(), NEXT, NEXT],
        [c.SetQueue(queue="default", max_claimed=1), c.ClaimJob(job_id="a", owner="cat"), NEXT],
    ],
    "the same request twice in one transaction": [
        [enqueue("a"), enqueue("b")],
        [c.ClaimNext(owner="bob", request_id="r"), c.ClaimNext(owner="bob", request_id="r")],
    ],
    "after a hand-over, the giver can change nothing": [
        enqueue("a"),
        TASK,
        c.ClaimJob(job_id="b", owner="ann", session_id="s", request_id="r2"),
        c.HeartbeatJob(job_id="b", lease_id="#0", note="half"),
        GIVE,
        TASK,
        OPEN,
        c.ClaimJob(job_id="b", owner="ann", session_id="s", request_id="r2"),
        c.HandOverSession(session_id="s", lease_id=None, to_agent="bob", principal="guest"),
        c.HandOverSession(session_id="s", lease_id=None, to_agent="bob"),
        c.ReleaseJob(job_id="a", lease_id="~0"),
        c.KeepSessionAlive(session_id="s", lease_id="~0"),
        c.OpenSession(session_id="s", agent="cat"),
        TAKE,
        c.HandOverSession(session_id="s", lease_id="~0", to_agent="bob"),
        c.CloseSession(session_id="s", lease_id="#0"),
        TAKE,
        c.HandOverSession(session_id="s", lease_id="~1", to_agent="bob"),
    ],
    "a lost task comes first, but only in the queues asked for": [
        enqueue("a", queue="other"),
        c.ClaimTask(session_id="s", owner="ann", queues=("other",), ttl=5),
        enqueue("b"),
        10,
        c.ClaimTask(session_id="s", owner="bob", queues=("default",), ttl=5),
        10,
        c.ClaimTask(session_id="s", owner="bob", queues=("default", "other"), ttl=5),
        c.CloseSession(session_id="s", lease_id="#0"),
        TAKE,
    ],
    "a heartbeat does not revive an expired session": [
        OPEN,
        5,
        KEEP,
        TAKE,
        30,
        c.ClaimJob(job_id="a", owner="x", session_id="s"),
    ],
    "a claim says from whom it took over": [
        CLAIM,
        c.ForceReleaseJob(job_id="a", reason="stuck"),
        CLAIM,
        end(),
        CLAIM,
        5,
        CLAIM,
    ],
    "requeue allows one more attempt, or all of them": [
        enqueue("a", max_attempts=2),
        CLAIM,
        end("failed"),
        2,
        CLAIM,
        end("failed"),
        c.RequeueJob(job_id="a", keep_attempts=True),
        CLAIM,
        end("failed"),
        c.RequeueJob(job_id="a"),
        CLAIM,
        end("failed"),
    ],
    "agents that share a token": [
        [OPEN, c.OpenSession(session_id="t", agent="bob")],
        lock(session_id="s", metadata=b'"x"'),
        lock(session_id="s"),
        lock(session_id="t"),
        lock(metadata=b'"x"'),
        lock(metadata=b'"y"'),
        lock(holder="h"),
        c.ReleaseLock(job_id="a", lease_id="#0"),
        lock(holder="h"),
        lock(holder="i"),
        lock(),
    ],
    "phases of a session, and numbered writes": [
        OPEN,
        save("done", number=2),
        save("executing"),
        save("planning", number=1),
        save("planning", number=3),
        GIVE,
        c.SaveSession(session_id="s", lease_id=None, context=b"8", number=1),
        TAKE,
        save("executing", number=1),
    ],
    "a silent owner is stuck, once for each stall": [
        c.ClaimJob(job_id="a", owner="ann", ttl=30, max_silence=5),
        4.999,
        HEARTBEAT,
        0.001,
        c.ClaimJob(job_id="a", owner="bob"),
        HEARTBEAT,
        1,
        HEARTBEAT,
        c.HeartbeatJob(job_id="a", lease_id="#0", note="half"),
        4,
        c.CheckpointJob(job_id="a", lease_id="#0", data=b"1", number=2),
        4,
        c.CheckpointJob(job_id="a", lease_id="#0", data=b"0", number=1),
        1,
        [HEARTBEAT, c.HeartbeatJob(job_id="a", lease_id="#0", percent=50), HEARTBEAT],
        5,
        HEARTBEAT,
        end("failed"),
        CLAIM,
        20,
    ],
    "after a hand-over, silence counts from the beginning": [
        OPEN,
        c.ClaimJob(job_id="a", owner="ann", session_id="s", max_silence=2),
        c.ClaimJob(job_id="b", owner="ann", session_id="s"),
        3,
        KEEP,
        c.HeartbeatJob(job_id="a", lease_id="#1"),
        KEEP,
        c.CheckpointJob(job_id="a", lease_id="#1", data=b"1"),
        2,
        [KEEP, GIVE],
        c.ClaimJob(job_id="a", owner="cat"),
        TAKE,
        2,
        HEARTBEAT,
    ],
    "an undone claim leaves no trace": [
        enqueue("a"),
        CLAIM,
        end("failed", error="broken", note="why"),
        2,
        c.ClaimJob(job_id="a", owner="bob", lock_delay=3, request_id="r"),
        c.Undo(job_id="a", lease_id="#0"),
        c.ClaimJob(job_id="a", owner="bob", lock_delay=3, request_id="r"),
    ],
}


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str) -> None:
    machine = Machine()
    machine.both.compare_reads()
    for step in STORIES[name]:
        if isinstance(step, int | float):
            machine.both.clock.advance(step)
        else:
            machine.run(*(step if isinstance(step, list) else [step]))
        machine.both.compare_reads()
    machine.both.compare_lists()
