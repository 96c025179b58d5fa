"""What clients do, in threads. Each script is one round; clients pause between rounds."""

from contextlib import nullcontext
from typing import Any

from octostore.client.hold import HeldClaim
from octostore.client.work import Deferred, Failed
from octostore.core.errors import LeaseLost, NotFound, Unreachable
from octostore.core.questions import ListEvents
from octostore.core.replies import ClaimReply
from octostore.stores.clock import boottime
from tests.simulation.checks import AGREES, LOG, Asked, Belief, number_of, session_key
from tests.simulation.client import Client, OwnClaim
from tests.simulation.primitives import Event, Thread
from tests.simulation.scheduler import BOOTED_AT

TTLS = (10.0, 15.0, 30.0, 60.0, 120.0)
WAITS = (0.0, 0.0, 5.0, 30.0, 50.0)
LOCKS = ("deploy", "backup", "index")
QUEUES = ("mail", "build")
SESSIONS = ("crew-1", "crew-2")
FORGET_SHARE = 0.2
"""How often a claim is left to expire."""
RECONNECT_SHARE = 0.1
"""How often a client continues with its lease on a new connection, as the command line always does."""


def hold_a_job(c: Client) -> None:
    """`hold()`, with checkpoints and progress."""
    job_id, ttl, wait = c.pick(LOCKS), c.pick(TTLS), c.pick(WAITS)
    asked = c.checks.asking(job_id)
    with (
        c.doing(f"hold {job_id} ttl={ttl:g} wait={wait:g}", wait + 300),
        c.store.hold(job_id, owner=c.name, ttl=ttl, wait=wait, again=True, outcome=_outcome(c)) as claim,
    ):
        belief = c.received_claim(claim.reply, asked, claim.remaining)
        try:
            _work(c, claim, belief)
        finally:
            c.say(f"leaves {job_id}")
            belief.drop()


def _work(c: Client, claim: HeldClaim, belief: Belief) -> None:
    number = number_of(claim.last_checkpoint)
    for _ in range(c.chance.randint(1, 4)):
        c.sleep(c.chance.uniform(0.2, 14))
        if claim.lost.is_set() or claim.remaining() <= 0:
            c.say(f"has lost {claim.job_id}")
            return
        if c.chance.random() < 0.6:
            number += 1
            _checkpoint(c, claim, belief, number)
        elif c.chance.random() < 0.5:
            with c.doing(f"progress on {claim.job_id}"):
                claim.progress("at work", percent=50)


def _checkpoint(c: Client, claim: HeldClaim, belief: Belief, number: int) -> None:
    with c.doing(f"checkpoint {number} of {claim.job_id}", wait=claim.ttl):
        claim.checkpoint({"n": number})
    c.say(f"gets: checkpoint {number} of {claim.job_id} is saved")
    c.checks.acknowledged_number(c.name, claim.job_id, belief.lease_id, number)


def _outcome(c: Client) -> Any:
    return c.pick(("released", "released", "released", "done", "failed"))


def claim_explicitly(c: Client) -> None:
    """Its own request ids, and every call repeated if there is no reply, sometimes even if there is."""
    job_id, ttl, wait, request_id = c.pick(LOCKS), c.pick(TTLS), c.pick(WAITS), c.new_id()
    claim = _claimed(c, job_id, ttl, wait, request_id)
    if claim is None:
        return
    if c.chance.random() < 0.25:
        _claim_again(c, claim, ttl, request_id)
    _keep(c, claim)
    if c.chance.random() < FORGET_SHARE:
        c.say(f"forgets {job_id}")
        return
    _release(c, claim, c.pick(("released", "released", "failed")))


def claim_several(c: Client) -> None:
    """Claim all locks in one call, repeated until there is a reply; release those it got in another."""
    ttl, ids = c.pick(TTLS), {job_id: c.new_id() for job_id in LOCKS}
    documents = [
        {
            "command": "claim_job",
            "job_id": job_id,
            "owner": c.name,
            "ttl_seconds": ttl,
            "request_id": id_,
            "again": True,
        }
        for job_id, id_ in ids.items()
    ]
    asked: dict[str, Asked] = {}
    asked_at = 0.0

    def call() -> list[Any]:
        nonlocal asked, asked_at
        asked, asked_at = {job_id: c.checks.asking(job_id) for job_id in LOCKS}, boottime()
        return c.store.batch(documents)

    replies = c.repeat(f"claim all of {', '.join(LOCKS)}", call)
    claims = [own(c, reply, asked[reply.job_id or ""], asked_at) for reply in replies if isinstance(reply, ClaimReply)]
    mine = [claim for claim in claims if claim is not None]
    for claim in mine:
        _keep(c, claim)
    for claim in mine:
        claim.belief.drop()
    if not mine or c.chance.random() < FORGET_SHARE:
        return
    leases = [(claim.job_id, claim.lease_id) for claim in mine]
    for end in c.repeat("release all of them", lambda: c.store.release_many(leases)):
        if not isinstance(end, LeaseLost):
            c.checks.received_release(c.name, end)


def wait_for_a_job(c: Client) -> None:
    """Wait for a job, and hold it only briefly."""
    # Mostly the same one, so that others wait, too.
    job_id, wait = c.pick((*LOCKS, LOCKS[0], LOCKS[0])), c.chance.uniform(20, 50)
    claim = _claimed(c, job_id, c.pick(TTLS), wait, c.new_id())
    if claim is not None:
        c.sleep(c.chance.uniform(0.1, 3))
        _release(c, claim, "released")


def _claimed(c: Client, job_id: str, ttl: float, wait: float, request_id: str) -> OwnClaim | None:
    asked, asked_at = c.checks.asking(job_id), 0.0

    def call() -> ClaimReply:
        nonlocal asked, asked_at
        asked, asked_at = c.checks.asking(job_id), boottime()
        with c.world.waits.sleeping(c.process, job_id, wait) if c.is_embedded else nullcontext():
            return c.store.claim_job(job_id, c.name, ttl=ttl, wait=wait, request_id=request_id, again=True)

    what = f"claim {job_id} ttl={ttl:g} wait={wait:.3g} request={request_id[-8:]}"
    return own(c, c.repeat(what, call, wait), asked, asked_at)


def own(c: Client, reply: ClaimReply, asked: Asked | None, asked_at: float) -> OwnClaim | None:
    if reply.status != "claimed":
        c.say(f"gets: {reply.job_id or reply.queue} {reply.status}")
        return None
    return OwnClaim(c, reply, asked, asked_at)


def _claim_again(c: Client, claim: OwnClaim, ttl: float, request_id: str) -> None:
    try:
        with c.doing(f"claim {claim.job_id} again, request={request_id[-8:]}"):
            again = c.store.claim_job(claim.job_id, c.name, ttl=ttl, request_id=request_id, again=True)
    except Unreachable:
        return
    except LeaseLost:
        is_over = claim.token in c.checks.ends
        c.checks.hold(AGREES, is_over, f"{c.name} learns that its live claim on {claim.job_id} is over", claim.job_id)
        return
    is_same = (again.lease_id, again.fencing_token) == (claim.lease_id, claim.token)
    text = f"{c.name} repeats its claim on {claim.job_id} and gets {again.status}, token {again.fencing_token}"
    c.checks.hold(AGREES, is_same or claim.token in c.checks.ends, text, claim.job_id, c.name)


def _keep(c: Client, claim: OwnClaim) -> None:
    for _ in range(c.chance.randint(1, 5)):
        c.sleep(min(claim.authority.remaining() / 2, c.chance.uniform(0.2, 12)))
        if claim.authority.remaining() <= 0:
            return
        if not c.is_embedded and c.chance.random() < RECONNECT_SHARE:
            c.say("continues on another connection with the same lease")
            c.connect()
        if c.chance.random() < 0.5:
            _checkpoint_explicitly(c, claim)
        if c.chance.random() < 0.8:
            _heartbeat(c, claim)


def _heartbeat(c: Client, claim: OwnClaim) -> None:
    asked_at = boottime()
    try:
        with c.doing(f"heartbeat {claim.job_id}"):
            reply = c.store.heartbeat_job(claim.job_id, claim.lease_id)
    except Unreachable:
        return
    except LeaseLost:
        claim.belief.drop()
        raise
    claim.authority.renew(asked_at, reply.remaining_ms)
    c.checks.received_expiry(claim.belief, reply.expires_at, asked_at - BOOTED_AT)


def _checkpoint_explicitly(c: Client, claim: OwnClaim) -> None:
    claim.number += 1
    number = claim.number
    try:
        with c.doing(f"checkpoint {number} of {claim.job_id}"):
            c.store.checkpoint_job(claim.job_id, claim.lease_id, {"n": number})
    except Unreachable:
        return
    c.say(f"gets: checkpoint {number} of {claim.job_id} is saved")
    c.checks.acknowledged_number(c.name, claim.job_id, claim.lease_id, number)


def _release(c: Client, claim: OwnClaim, outcome: Any) -> None:
    claim.belief.drop()

    def call() -> Any:
        return c.store.release_job(claim.job_id, claim.lease_id, outcome)

    first = c.repeat(f"release {claim.job_id} as {outcome}", call)
    c.say(f"gets: {claim.job_id} {first.outcome}")
    c.checks.received_release(c.name, first)
    if c.chance.random() < 0.2:
        again = c.repeat(f"release {claim.job_id} again", call)
        c.checks.hold(
            AGREES, again == first, f"{c.name} gets two outcomes for its claim on {claim.job_id}", claim.job_id
        )


def enqueue_jobs(c: Client) -> None:
    for _ in range(c.chance.randint(1, 3)):
        job_id, queue = f"task-{c.new_id()}", c.pick(QUEUES)

        def call(job_id: str = job_id, queue: str = queue) -> object:
            return c.store.enqueue("chore", {"for": job_id}, job_id=job_id, queue=queue, max_attempts=4)

        c.repeat(f"enqueue {job_id} in {queue}", call)
        c.say(f"gets: {job_id} is enqueued")
        c.checks.acknowledged_enqueue(c.name, job_id)


def work_a_queue(c: Client) -> None:
    """Run `work()` for a while."""
    stop: Any = Event()
    queue = c.pick(QUEUES)
    until = c.chance.uniform(30, 240)

    def end() -> None:
        c.sleep(until)
        stop.set()

    Thread(end, name="end of shift").start()
    c.say(f"works on {queue} for {until:.0f} s")
    ttl = c.pick(TTLS)
    handled = c.store.work(
        queue, lambda claim: _handle(c, claim), owner=c.name, ttl=ttl, concurrency=c.pick([1, 2]), stop=stop
    )
    c.say(f"has handled {handled} jobs of {queue}")


def _handle(c: Client, claim: HeldClaim) -> Any:
    c.world.operations += 1
    belief = c.received_claim(claim.reply, None, claim.remaining)
    try:
        _work(c, claim, belief)
        fate = c.chance.random()
        if fate < 0.1:
            raise Failed("it did not work")
        if fate < 0.15:
            raise Deferred(retry_after=c.chance.uniform(0, 30))
        return {"n": 1}
    finally:
        c.say(f"is done with {claim.job_id}")
        belief.drop()


def claim_next_explicitly(c: Client) -> None:
    queue, ttl, wait, request_id = c.pick(QUEUES), c.pick(TTLS), c.pick(WAITS), c.new_id()
    asked_at = 0.0

    def call() -> ClaimReply:
        nonlocal asked_at
        asked_at = boottime()
        return c.store.claim_next(queue, owner=c.name, ttl=ttl, wait=wait, request_id=request_id)

    reply = c.repeat(f"claim next of {queue} wait={wait:g} request={request_id[-8:]}", call, wait)
    claim = own(c, reply, None, asked_at)
    if claim is not None:
        _keep(c, claim)
        _release(c, claim, c.pick(("done", "done", "failed", "released", "deferred")))


def use_a_session(c: Client) -> None:
    """`open_session()` as a block, with a context that outlives it."""
    session_id, ttl, request_id = c.pick(SESSIONS), c.pick(TTLS), c.new_id()
    key = session_key(session_id)
    asked = c.checks.asking(key)
    session = c.repeat(
        f"open {key} ttl={ttl:g} request={request_id[-8:]}",
        lambda: c.store.open_session(c.name, ttl=ttl, session_id=session_id, request_id=request_id),
    )
    belief = c.received_session(session, asked)
    number = number_of(session.context)
    try:
        with session:
            try:
                for _ in range(c.chance.randint(2, 6)):
                    c.sleep(c.chance.uniform(0.1, 8))
                    number += 1
                    _save(c, session_id, session.reply.lease_id, number)
            finally:
                belief.drop()
    except Unreachable:
        c.say(f"leaves {key} without a reply")


def _save(c: Client, session_id: str, lease_id: str, number: int) -> None:
    key = session_key(session_id)
    try:
        with c.doing(f"save {number} in {key}"):
            c.store.save_session(session_id, lease_id, {"n": number})
    except Unreachable:
        return
    c.say(f"gets: {number} is saved in {key}")
    c.checks.acknowledged_number(c.name, key, lease_id, number)


def take_a_task(c: Client) -> None:
    """A session with its task, in one call."""
    session_id, ttl, wait, request_id = c.pick(SESSIONS), c.pick(TTLS), c.pick(WAITS), c.new_id()
    key = session_key(session_id)
    asked, asked_at = c.checks.asking(key), 0.0

    def call() -> ClaimReply:
        nonlocal asked, asked_at
        asked, asked_at = c.checks.asking(key), boottime()
        return c.store.claim_task(session_id, c.name, queues=QUEUES, ttl=ttl, wait=wait, request_id=request_id)

    reply = c.repeat(f"claim a task for {key} wait={wait:g} request={request_id[-8:]}", call, wait)
    claim = own(c, reply, None, asked_at)
    if claim is None or reply.session is None:
        return
    token, remaining = c.checks.facts[key].token, claim.authority.remaining
    belief = Belief(key, c.name, c.process, lease_id=claim.lease_id, token=token, remaining=remaining)
    c.checks.received_session(belief, reply.session, asked)
    number = number_of(reply.session.context)
    for _ in range(c.chance.randint(2, 4)):
        c.sleep(min(claim.authority.remaining() / 2, c.chance.uniform(0.1, 8)))
        number += 1
        _save(c, session_id, claim.lease_id, number)
        _keep_session(c, session_id, claim)
    belief.drop()
    claim.belief.drop()
    outcome: Any = c.pick(("done", "failed", "released"))
    released = c.repeat(
        f"release {claim.job_id} of {key} as {outcome}",
        lambda: c.store.release_task(session_id, claim.job_id, claim.lease_id, outcome),
    )
    c.checks.received_release(c.name, released)


def _keep_session(c: Client, session_id: str, claim: OwnClaim) -> None:
    asked_at = boottime()
    try:
        with c.doing(f"keep {session_key(session_id)} alive"):
            reply = c.store.keep_session_alive(session_id, claim.lease_id)
    except Unreachable:
        return
    claim.authority.renew(asked_at, reply.remaining_ms)
    c.checks.received_expiry(claim.belief, reply.expires_at, asked_at - BOOTED_AT)


def operate(c: Client) -> None:
    """What an operator sometimes does to jobs of others."""
    deed = c.pick(("force_release", "request_stop", "requeue", "requeue_matching", "cancel"))
    if deed == "requeue_matching":
        with c.doing("requeue all dead jobs"):
            c.store.requeue_matching(reason="all of it")
        return
    if deed in {"force_release", "request_stop"}:
        job_id: str | None = c.pick(LOCKS)
    else:
        status = "dead" if deed == "requeue" else "queued"
        with c.doing(f"list what is {status}"):
            jobs = c.store.list_jobs(status=status, limit=5).jobs  # type: ignore[arg-type]
        job_id = c.pick(jobs).job_id if jobs else None
    if job_id is not None:
        with c.doing(f"{deed} {job_id}"):
            getattr(c.store, deed)(job_id)


def pause_a_queue(c: Client) -> None:
    """Pause a queue while others use it. If this operator is killed, the next one resumes it."""
    queue = c.pick(QUEUES)
    with c.doing(f"pause {queue}"):
        c.store.set_queue(queue, paused=True, reason=c.name)
    c.sleep(c.chance.uniform(0.5, 20))
    c.repeat(f"resume {queue}", lambda: c.store.set_queue(queue, paused=False), times=20)


def read(c: Client) -> None:
    """Read jobs, sessions and the log, which must not be older than what was acknowledged."""
    known = [key for key in c.checks.facts if not key.startswith("session")]
    for job_id in (c.pick(LOCKS), *([c.pick(known)] if known else [])):
        _read_job(c, job_id)
    key = session_key(c.pick(SESSIONS))
    asked = c.checks.asking(key)
    try:
        with c.doing(f"read {key}"):
            c.checks.received_number(asked, c.store.get_session(key.removeprefix("session ")).context)
    except NotFound:
        c.checks.hold(LOG, not asked.is_known, f"{key} is not found, although it was opened", key)
    after = max(0, len(c.checks.log) - 50)
    with c.doing(f"read the log after {after}"):
        page = c.store._port.ask(ListEvents(after=after, limit=50))
    seqs = [event.seq for event in page.events]
    c.checks.hold(LOG, seqs == list(range(after + 1, after + 1 + len(seqs))), f"the log is read as {seqs}")


def _read_job(c: Client, job_id: str) -> None:
    asked = c.checks.asking(job_id)
    with c.doing(f"read {job_id}"):
        view = c.store.get_job(job_id)
    c.say(f"gets: {job_id} {view.status}")
    c.checks.received_view(asked, view.status, view.claim.fencing_token if view.claim else None)
