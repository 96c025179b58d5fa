"""The claims of an owner: what the store says, combined with the leases kept on this machine."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from octostore.cli import words
from octostore.cli.story import describe_attempts
from octostore.core.moments import Moment
from octostore.core.replies import JobOwner
from octostore.core.secret_free import SecretFree
from octostore.keeping.processes import Process

if TYPE_CHECKING:
    from octostore.client.reader import Reader
    from octostore.keeping.leases import KeptLease, KeptLeases


class Keeping(msgspec.Struct, frozen=True):
    """Which process sends heartbeats for a claim, and until when. Without it, the claim expires."""

    keeper_pid: int
    is_alive: bool
    watched: Process | None
    max_silence: float
    silent_at: Moment | None
    """When the claim will be released, unless its owner runs an octostore command before then."""


class MyClaim(SecretFree, msgspec.Struct, frozen=True, kw_only=True):
    """`kept` is set if the lease is on this machine. If the claim is `lost`, `why` says how."""

    job_id: str
    status: Literal["claimed", "lost"]
    claim: JobOwner | None
    kept: Keeping | None
    checkpoint: Any = None
    why: str | None = None


def claims_of(owner: str, claimed: Iterable[JobOwner], leases: "KeptLeases | None") -> list[MyClaim]:
    """Of all that is `claimed`, the claims of `owner`."""
    kept = {lease.fencing_token: lease for lease in leases.of(owner)} if leases is not None else {}
    return [
        MyClaim(
            job_id=claim.job_id,
            status="claimed",
            claim=claim,
            kept=_keeping(kept[claim.fencing_token], leases) if leases and claim.fencing_token in kept else None,
        )
        for claim in claimed
        if claim.owner == owner
    ]


def with_checkpoints(held: Iterable[MyClaim], store: "Reader") -> list[MyClaim]:
    return [msgspec.structs.replace(one, checkpoint=store.get_job(one.job_id).checkpoint) for one in held]


def lost_claims(owner: str, held: Sequence[MyClaim], leases: "KeptLeases | None", store: "Reader") -> Iterator[MyClaim]:
    """Claims kept here for `owner` that have ended. Each is returned once."""
    alive = {one.claim.fencing_token for one in held if one.claim is not None}
    for lease in leases.of(owner) if leases is not None else []:
        if leases is not None and lease.fencing_token not in alive:
            ended = [one for one in store.get_job(lease.job_id).previous if one.fencing_token == lease.fencing_token]
            leases.forget(lease)
            yield MyClaim(
                job_id=lease.job_id,
                status="lost",
                claim=None,
                kept=None,
                why=next(iter(describe_attempts(ended)), "the claim is over"),
            )


def _keeping(lease: "KeptLease", leases: "KeptLeases") -> Keeping:
    shown_at = leases.life_shown_at(lease.owner)
    return Keeping(
        keeper_pid=lease.keeper.pid,
        is_alive=lease.is_kept,
        watched=lease.watched,
        max_silence=lease.max_silence,
        silent_at=None if shown_at is None else datetime.fromtimestamp(shown_at + lease.max_silence, UTC),
    )


def keeping_in_words(one: MyClaim, now: datetime) -> str:
    """How long the claim lasts."""
    left = "" if one.claim is None else words.until(one.claim.expires_at, now)
    if one.kept is None:
        return f"{left} left unless a heartbeat arrives; its lease is not kept here"
    if not one.kept.is_alive:
        return f"{left} left; its keeper is gone"
    ends = "" if one.kept.watched is None else f", {one.kept.watched} ends"
    silent = "" if one.kept.silent_at is None else f", or {words.until(one.kept.silent_at, now)} pass without a command"
    return f"until released{ends}{silent}"
