"""Which lease a command is about: the one that it is given, or the one that is kept for its owner."""

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from octostore.cli.command import Arguments, Context, completed_by
from octostore.cli.completing import job_names
from octostore.cli.options import LEASE_VARIABLE, lease_or_none
from octostore.client.owner import OWNER_VARIABLE
from octostore.core.errors import InvalidInput, LeaseLost
from octostore.stores.opening import keeping_root
from octostore.supervise.report import FENCING_VARIABLE, JOB_VARIABLE

if TYPE_CHECKING:
    from octostore.keeping.leases import KeptLease, KeptLeases

SHOWN_MAX = 10


class Lease(msgspec.Struct, frozen=True):
    """`kept` where it was found in a file."""

    job_id: str
    lease_id: str
    fencing_token: int | None
    kept: "KeptLease | None" = None
    leases: "KeptLeases | None" = None

    def forget(self) -> None:
        """The claim is over."""
        if self.kept is not None and self.leases is not None:
            self.leases.forget(self.kept)


def add_job(parser: argparse.ArgumentParser) -> None:
    job = parser.add_argument("job", metavar="JOB", nargs="?", help="its name (the only one that is kept for you)")
    completed_by(job, job_names)


def add_lease_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lease-id", metavar="L", help=f"better in {LEASE_VARIABLE}: others can see what a command is called with"
    )
    parser.add_argument("--owner", metavar="O", help="whose kept claim (OCTOSTORE_OWNER, else the only one there is)")


@contextmanager
def found_lease(job_id: str | None, arguments: Arguments, context: Context) -> Iterator[Lease]:
    """For the length of a block. One that is kept is forgotten if the block finds that it is lost."""
    lease = _given(job_id, arguments.lease_id) or _kept(job_id, arguments.owner, context)
    try:
        yield lease
    except LeaseLost:
        lease.forget()
        raise


def is_kept_job(job_id: str, owner: str | None, context: Context) -> bool:
    """Whether that is the name of a job that is kept for the owner."""
    leases = kept_leases(context)
    who = None if leases is None else who_keeps(owner, leases)
    return leases is not None and who is not None and leases.find(who, job_id) is not None


def kept_leases(context: Context) -> "KeptLeases | None":
    """None where nothing is kept, which is found out without importing anything."""
    if not os.path.exists(keeping_root(context.place.url)):  # noqa: PTH110  # pathlib is not needed for that
        return None
    from octostore.keeping.leases import KeptLeases  # noqa: PLC0415  # only for those who keep something

    return KeptLeases.of_store(context.place.url)


def who_keeps(owner: str | None, leases: "KeptLeases") -> str | None:
    """`owner`, else OCTOSTORE_OWNER, else the only one who keeps claims here; None if there is none."""
    named = owner or os.environ.get(OWNER_VARIABLE)
    if named:
        return named
    owners = leases.owners()
    if len(owners) > 1:
        raise InvalidInput(
            "owner",
            f"is needed: {_listed(owners)} keep claims here. Say who you are with --owner, or: "
            f"export {OWNER_VARIABLE}={owners[0]}",
        )
    return next(iter(owners), None)


def _given(job_id: str | None, option: str | None) -> Lease | None:
    lease_id = lease_or_none(option)
    if lease_id is None:
        if option is not None:
            raise _needed(job_id)
        return None
    if job_id is None:
        raise InvalidInput("job", f"is needed beside {LEASE_VARIABLE} or --lease-id: name the job that it is for")
    return Lease(job_id, lease_id, fencing_token(job_id))


def _kept(job_id: str | None, owner: str | None, context: Context) -> Lease:
    leases = kept_leases(context)
    if leases is None:
        raise _needed(job_id)
    who = who_keeps(owner, leases)
    theirs = leases.of(who) if who is not None else []
    if who is None or not theirs:
        raise _needed(job_id, f"{who} keeps no claim here" if who else None, leases.owners())
    kept = _chosen(job_id, who, theirs)
    leases.show_life(who)
    return Lease(kept.job_id, kept.lease_id, kept.fencing_token, kept, leases)


def _chosen(job_id: str | None, who: str, theirs: "Sequence[KeptLease]") -> "KeptLease":
    """Newest first: the job's, or the only one. What is not alive any more only counts where nothing else is."""
    if job_id is not None:
        mine = [lease for lease in theirs if lease.job_id == job_id]
        if not mine:
            raise _needed(job_id, f"{who} keeps {_listed([lease.job_id for lease in theirs])}, and not {job_id}")
        return mine[0]
    candidates = [lease for lease in theirs if lease.is_kept] or list(theirs)
    if len(candidates) > 1:
        raise InvalidInput("job", f"is needed: {who} keeps {_listed([lease.job_id for lease in candidates])}")
    return candidates[0]


def _needed(job_id: str | None, why: str | None = None, owners: Sequence[str] = ()) -> InvalidInput:
    elsewhere = f" (kept here: those of {_listed(owners)})" if owners else ""
    job = job_id or "JOB"
    return InvalidInput(
        "lease_id",
        f"is needed: set {LEASE_VARIABLE} to the one that `octostore claim` has printed, claim with `octostore claim "
        f"{job} --keep`, or do the work inside `octostore run {job} -- …`" + (f". {why}{elsewhere}" if why else ""),
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN_MAX])
    return shown if len(names) <= SHOWN_MAX else f"{shown} and {len(names) - SHOWN_MAX} more"


def fencing_token(job: str) -> int | None:
    """The one that came with the lease, where it is known: a store that has gone back in time is told by it."""
    text = os.environ.get(FENCING_VARIABLE)
    if not text or os.environ.get(JOB_VARIABLE, job) != job:  # within `run`, but about another job
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(FENCING_VARIABLE, f"must be a whole number, not {text!r}") from None
