"""Random commands that are likely to collide: few names, and leases that a test replaces with real ones.

A lease is drawn as `#0` (the newest one known), `#1`, `#2`: what is drawn must not depend on earlier replies.
"""

from typing import Any, get_args

from hypothesis import strategies as st

from octostore.core import commands as c
from octostore.core.commands import AnyCommand
from octostore.core.model import Phase
from tests.support.world import START_MS

LOCKS = st.sampled_from(["a", "b", "c", "d/e"])
JOB_NAMES = ("a", "b", "c", "d/e", "d/e#1")
JOBS = st.sampled_from(JOB_NAMES)
OWNERS = st.sampled_from(["ann", "bob"])
QUEUES = st.sampled_from(["default", "other"])
KINDS = st.sampled_from(["build", "test"])
SESSIONS = st.sampled_from(["s", "t"])
REQUESTS = st.sampled_from([None, None, "r1", "r2", "r3", "r4"])
TTLS = st.sampled_from([1, 5, 30])
DELAYS = st.sampled_from([0, 0.5, 60])
PRINCIPALS = st.sampled_from(["local", "local", "guest"])
MAX_CLAIMS = st.sampled_from([None, None, 1, 2])
PREFIXES = st.sampled_from(["", "", "a", "d/"])
TOKENS = st.sampled_from(["t1", "t2", "t3"])
ALL_DIGESTS = [number * 32 for number in (b"1", b"2", b"3", b"4")]
DIGESTS = st.sampled_from(ALL_DIGESTS)
DOCUMENTS = st.sampled_from([None, b"1", b'{"step":3}'])
LEASES = st.integers(0, 4).map(lambda number: f"#{number}")
PHASES = st.sampled_from([None, *get_args(Phase)])
NOTES = st.sampled_from([None, "note"])
NUMBERS = st.sampled_from([None, 1, 2, 3])
HOLDERS = st.sampled_from([None, None, "h1", "h2"])
HOSTS = st.sampled_from([None, "box"])
PIDS = st.sampled_from([None, 4711])
SILENCES = st.sampled_from([None, None, 1, 5])
TRACES = st.sampled_from([None, None, *(f"00-{digit * 32}-{digit * 16}-01" for digit in "1e")])


def claims(terms: dict[str, st.SearchStrategy[Any]]) -> dict[str, st.SearchStrategy[Any]]:
    return {
        "owner": OWNERS,
        "principal": PRINCIPALS,
        "ttl": TTLS,
        "session_id": st.none() | SESSIONS,
        "request_id": REQUESTS,
        "metadata": DOCUMENTS,
        "lock_delay": st.sampled_from([0, 0, 3]),
        "max_claims": MAX_CLAIMS,
        "host": HOSTS,
        "pid": PIDS,
        "max_silence": SILENCES,
        "traceparent": TRACES,
        **terms,
    }


def task_claims(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[AnyCommand]:
    queues = st.sampled_from([("default",), ("other", "default")])
    named = {"session_id": SESSIONS, "lease_id": st.none() | LEASES}
    terms = claims({**named, "queues": queues, "kinds": kinds, "prefix": PREFIXES})
    return st.builds(c.ClaimTask, **terms)


def locks() -> st.SearchStrategy[AnyCommand]:
    terms = claims({"job_id": LOCKS, "metadata": st.sampled_from([None, b'"text"', b'"other"']), "holder": HOLDERS})
    return st.builds(c.AcquireLock, **terms) | st.builds(
        c.AcquireLock, **{**terms, "session_id": SESSIONS, "ephemeral": st.just(True)}
    )


def releases() -> st.SearchStrategy[AnyCommand]:
    common: dict[str, st.SearchStrategy[Any]] = {"job_id": JOBS, "lease_id": LEASES, "note": NOTES}
    return st.one_of(
        st.builds(c.ReleaseJob, **common),
        st.builds(c.ReleaseJob, **common, outcome=st.just("done"), result=DOCUMENTS),
        st.builds(
            c.ReleaseJob,
            **common,
            outcome=st.sampled_from(["failed", "deferred"]),
            error=NOTES,
            retry_after=st.sampled_from([None, 0, 7]),
        ),
    )


def undos() -> st.SearchStrategy[AnyCommand]:
    """Undo a lease, as a job's or as a session's: the rules differ."""
    return st.builds(c.Undo, lease_id=LEASES, job_id=JOBS) | st.builds(c.Undo, lease_id=LEASES, session_id=SESSIONS)


def tokens() -> st.SearchStrategy[AnyCommand]:
    return st.one_of(
        st.builds(
            c.CreateToken,
            token_id=TOKENS,
            name=OWNERS,
            digest=DIGESTS,
            scopes=st.sampled_from([("read",), ("claim", "read"), ("admin",)]),
            prefix=PREFIXES,
            expires_in=st.none() | TTLS,
            principal=PRINCIPALS,
        ),
        st.builds(c.RotateToken, token_id=TOKENS, digest=DIGESTS),
        st.builds(c.RevokeToken, token_id=TOKENS),
    )


def of_matching() -> st.SearchStrategy[AnyCommand]:
    terms: dict[str, st.SearchStrategy[Any]] = {
        "reason": st.just("all of them"),
        "prefix": PREFIXES,
        "queue": st.none() | QUEUES,
        "kind": st.none() | KINDS,
        "after": st.none() | JOBS,
        "limit": st.sampled_from([1, 2, 100]),
        "principal": PRINCIPALS,
    }
    return st.one_of(
        st.builds(c.RequeueMatching, **terms, keep_attempts=st.booleans()), st.builds(c.DiscardMatching, **terms)
    )


def operations() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(c.CancelJob, job_id=JOBS, reason=NOTES, drain=st.booleans(), principal=PRINCIPALS),
        st.builds(c.RequestStop, job_id=JOBS, reason=NOTES, principal=PRINCIPALS),
        st.builds(c.DiscardJob, job_id=JOBS, reason=NOTES),
        st.builds(c.RequeueJob, job_id=JOBS, reason=NOTES, keep_attempts=st.booleans()),
        of_matching(),
        st.builds(c.ForceReleaseJob, job_id=JOBS, reason=NOTES),
        st.builds(
            c.SetQueue,
            queue=QUEUES,
            max_claimed=st.sampled_from([None, 1, 2]),
            paused=st.sampled_from([None, None, None, False, False, True]),
            reason=NOTES,
            principal=PRINCIPALS,
        ),
        st.builds(c.SetQueue, queue=QUEUES, paused=st.sampled_from([False, False, True])),
    )


def any_command() -> st.SearchStrategy[AnyCommand]:
    lease: dict[str, st.SearchStrategy[Any]] = {"job_id": JOBS, "lease_id": LEASES}
    session: dict[str, st.SearchStrategy[Any]] = {
        "session_id": SESSIONS | st.just("guest/s"),
        "lease_id": st.none() | LEASES,
        "principal": PRINCIPALS,
    }
    ending = {**session, "as_operator": st.booleans()}
    kinds = st.none() | st.lists(KINDS, min_size=1, max_size=2).map(tuple)
    runs_at = st.none() | st.integers(-5, 60).map(lambda seconds: START_MS + seconds * 1_000)
    return st.one_of(
        st.builds(c.ClaimJob, **claims({"job_id": JOBS, "again": st.booleans()})),
        st.builds(c.ClaimNext, **claims({"queue": QUEUES, "kinds": kinds, "prefix": PREFIXES})),
        locks(),
        st.builds(
            c.HeartbeatJob,
            **lease,
            ttl=st.none() | TTLS,
            note=NOTES,
            percent=st.sampled_from([None, 50]),
            number=NUMBERS,
        ),
        st.builds(c.CheckpointJob, **lease, data=st.sampled_from([b"1", b'{"step":4}']), number=NUMBERS),
        undos(),
        releases(),
        st.builds(c.ReleaseLock, **{**lease, "job_id": LOCKS}),
        st.builds(
            lambda start, **terms: c.Enqueue(**start, **terms),
            start=runs_at.map(lambda at: {"run_at": at}) | DELAYS.map(lambda seconds: {"delay": seconds}),
            job_id=JOBS,
            kind=KINDS,
            queue=QUEUES,
            payload=DOCUMENTS,
            priority=st.sampled_from([1, 5]),
            max_attempts=st.sampled_from([1, 2, 5]),
            traceparent=TRACES,
        ),
        operations(),
        st.builds(
            c.OpenSession,
            session_id=SESSIONS,
            agent=OWNERS,
            ttl=TTLS,
            principal=PRINCIPALS,
            request_id=REQUESTS,
            without_lease=st.booleans(),
        ),
        st.builds(c.KeepSessionAlive, **session),
        st.builds(
            c.SaveSession, **session, context=st.sampled_from([b"1", b'{"turn":2}']), phase=PHASES, number=NUMBERS
        ),
        st.builds(c.HandOverSession, **ending, to_agent=OWNERS, note=NOTES),
        task_claims(kinds),
        st.builds(c.ReleaseTask, **lease, session_id=SESSIONS, outcome=st.sampled_from(["released", "done", "failed"])),
        st.builds(c.CloseSession, **ending),
        tokens(),
        st.builds(c.Recover),
        st.builds(c.Probe),
    )
