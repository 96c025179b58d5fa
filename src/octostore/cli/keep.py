"""`--keep`: claim a job and leave a process behind that keeps the lease. See `octostore.keeping`."""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from octostore.cli.claim_output import print_claim
from octostore.cli.commands.claim import Claim
from octostore.cli.leases import repeated_options
from octostore.cli.owners import claiming_owner
from octostore.cli.subcommands import Arguments, Context
from octostore.client.lateness import check_ttl_is_safe_here
from octostore.core.errors import InvalidInput
from octostore.core.replies import ClaimReply
from octostore.keeping.keeper import Keeper, Order
from octostore.keeping.leases import KeptLease, KeptLeases
from octostore.keeping.processes import Process
from octostore.keeping.rules import MAX_SILENCE_DEFAULT_SECONDS
from octostore.keeping.watching import watched
from octostore.stores.clock import boottime

if TYPE_CHECKING:
    from octostore.client.store import OctoStore


class KeptSummary(msgspec.Struct, frozen=True):
    """What the user learns about a kept claim."""

    keeper_pid: int
    watched: Process | None
    max_silence: float
    next: list[str]
    """Commands to type next."""


def claim_and_keep(arguments: Arguments, context: Context, claim: Claim) -> int:
    owner = claiming_owner(None) if arguments.owner is None else arguments.owner
    _check(arguments)
    process = watched(arguments.while_pid)
    leases = KeptLeases.of_store(context.address.url)
    leases.prepare(owner)
    try:
        # Forks, so it comes before any thread starts.
        with Keeper() as keeper, context.address.open() as store:
            asked_at = boottime()
            reply = claim(store, owner, keeper.process.pid)
            if reply.status != "claimed" or reply.lease_id is None:
                _mention_if_kept(reply, leases, owner, context)
                return print_claim(reply, context.console, again=f"{repeated_options(arguments.owner, context)} --keep")
            lease = _lease(reply, keeper.process, process, arguments.max_silence)
            lease = _keep(keeper, store, leases, Order(context.address.url, lease, _heartbeat_fields(reply), asked_at))
    finally:
        leases.tidy(owner)
    kept = KeptSummary(
        lease.keeper.pid, lease.watched, lease.max_silence, list(_next_lines(lease.job_id, arguments, context))
    )
    return print_claim(reply, context.console, kept=kept)


def _check(arguments: Arguments) -> None:
    if arguments.lease:
        raise InvalidInput("--lease", "prints the lease, which --keep stores for you instead; use only one of them")
    check_ttl_is_safe_here(arguments.ttl)


def _lease(reply: ClaimReply, keeper: Process, process: Process | None, max_silence: float | None) -> KeptLease:
    return KeptLease(
        job_id=reply.job_id or "",
        owner=reply.owner or "",
        lease_id=reply.lease_id or "",
        fencing_token=reply.fencing_token or 0,
        ttl=reply.ttl or 0.0,
        claimed_at=reply.claimed_at,  # type: ignore[arg-type]  # of a claim
        keeper=keeper,
        watched=process,
        max_silence=MAX_SILENCE_DEFAULT_SECONDS if max_silence is None else max_silence,
    )


def _heartbeat_fields(reply: ClaimReply) -> ClaimReply:
    """Only what heartbeats need."""
    return ClaimReply(
        status="claimed",
        job_id=reply.job_id,
        lease_id=reply.lease_id,
        fencing_token=reply.fencing_token,
        ttl=reply.ttl,
        remaining_ms=reply.remaining_ms,
    )


def _keep(keeper: Keeper, store: "OctoStore", leases: KeptLeases, order: Order) -> KeptLease:
    """Return the kept lease. If it cannot be kept, release the claim, because nobody else could."""
    before = leases.find(order.lease.owner, order.lease.job_id)
    if before is not None and before.lease_id == order.lease.lease_id and before.is_kept:
        return before  # a repeated request
    try:
        leases.add(order.lease)
        keeper.keep(order)
    except BaseException:
        try:
            store.release_job(order.lease.job_id, order.lease.lease_id, note="the claim could not be kept")
        finally:
            leases.forget(order.lease)
        raise
    return order.lease


def _mention_if_kept(reply: ClaimReply, leases: KeptLeases, owner: str, context: Context) -> None:
    kept = leases.find(owner, reply.job_id or "")
    if kept is not None and kept.fencing_token == reply.fencing_token:
        context.console.print_message(f"you already keep this claim; `octostore mine` lists what {owner} holds")


def _next_lines(job_id: str, arguments: Arguments, context: Context) -> Iterator[str]:
    job, options = shlex.quote(job_id), repeated_options(arguments.owner, context)
    yield f"octostore progress{options} {job} 'what you are doing'"
    yield f"octostore checkpoint{options} {job} '{{\"step\": 1}}'    # what a successor needs"
    yield f"octostore release{options} {job} --outcome done"
