"""Which lease a command uses: the one it was given, or the one kept for its owner."""

import argparse
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from octostore.cli.activity import kept_leases
from octostore.cli.completers import job_names
from octostore.cli.options import LEASE_VARIABLE, add_lease_id, lease_id_from
from octostore.cli.owners import KEEPING_OWNER_DEFAULT, claiming_owner, join_names, keeping_owner, owners_of
from octostore.cli.subcommands import Arguments, Context, set_completer
from octostore.core.errors import InvalidInput, LeaseLost
from octostore.supervise.report import FENCING_VARIABLE, JOB_VARIABLE

if TYPE_CHECKING:
    from octostore.keeping.leases import KeptLease, KeptLeases


class Lease(msgspec.Struct, frozen=True):
    """`kept` is set if it was found in a lease file."""

    job_id: str
    lease_id: str
    fencing_token: int | None
    kept: "KeptLease | None" = None
    leases: "KeptLeases | None" = None

    def forget(self) -> None:
        """Delete its file, because the claim has ended."""
        if self.kept is not None and self.leases is not None:
            self.leases.forget(self.kept)


def add_job(parser: argparse.ArgumentParser) -> None:
    job = parser.add_argument("job", metavar="JOB", nargs="?", help="job name (optional if you keep exactly one claim)")
    set_completer(job, job_names)


def add_lease_options(parser: argparse.ArgumentParser) -> None:
    add_lease_id(parser, "claim")
    parser.add_argument("--owner", metavar="O", help=f"who keeps the claim (default: {KEEPING_OWNER_DEFAULT})")


@contextmanager
def using_lease(job_id: str | None, arguments: Arguments, context: Context) -> Iterator[Lease]:
    """Find the lease for the block. A kept lease is deleted if the block finds that it is lost."""
    lease = _explicit_lease(job_id, arguments.lease_id)
    # OCTOSTORE_LEASE_ID does not say which job it is for; a lease file does.
    if lease is None or (arguments.lease_id is None and _has_keeper(lease.job_id, arguments.owner, context)):
        lease = _kept_lease(job_id, arguments.owner, context)
    try:
        yield lease
    except LeaseLost:
        lease.forget()
        raise


def is_kept_job(job_id: str, owner: str | None, context: Context) -> bool:
    """Whether a claim on this job is kept for the owner."""
    return _find(job_id, owner, context) is not None


def _has_keeper(job_id: str, owner: str | None, context: Context) -> bool:
    with suppress(InvalidInput):  # an explicit lease needs no owner
        kept = _find(job_id, owner, context)
        return kept is not None and kept.is_kept
    return False


def _find(job_id: str, owner: str | None, context: Context) -> "KeptLease | None":
    leases = kept_leases(context.address)
    who = None if leases is None else keeping_owner(owner, leases)
    return None if leases is None or who is None else leases.find(who, job_id)


def repeated_options(owner: str | None, context: Context) -> str:
    """Options to repeat in the next command, because no variable sets them."""
    url = f" --url {shlex.quote(str(context.address))}" if context.address.source == "--url" else ""
    return f"{url} --owner {shlex.quote(owner)}" if owner and owner != claiming_owner(None) else url


def _explicit_lease(job_id: str | None, option: str | None) -> Lease | None:
    lease_id = lease_id_from(option)
    if lease_id is None:
        if option is not None:
            raise InvalidInput("lease_id", "is empty: pass the lease id that `octostore claim` printed")
        return None
    if job_id is None:
        raise InvalidInput(
            "job", f"is required with {LEASE_VARIABLE} or --lease-id: name the job that the lease is for"
        )
    return Lease(job_id, lease_id, fencing_token(job_id))


def _kept_lease(job_id: str | None, owner: str | None, context: Context) -> Lease:
    leases = kept_leases(context.address)
    if leases is None:
        raise _no_lease(job_id)
    who = keeping_owner(owner, leases)
    if who is None:
        raise _no_lease(job_id)
    kept = _choose(job_id, who, leases.of(who), owners_of(leases.all()))
    leases.confirm(kept)  # in use, so not a leftover, even if it has no keeper
    return Lease(kept.job_id, kept.lease_id, kept.fencing_token, kept, leases)


def _choose(job_id: str | None, who: str, theirs: "Sequence[KeptLease]", owners: Sequence[str]) -> "KeptLease":
    """The newest lease for the job, or the only one. Leases without a keeper count only if there are no others."""
    if not theirs:
        others = f"; the claims kept here belong to {join_names(owners)} (choose with --owner)" if owners else ""
        raise _no_lease(job_id, f"{who} keeps no claim here{others}")
    if job_id is not None:
        mine = [lease for lease in theirs if lease.job_id == job_id]
        if not mine:
            names = join_names(sorted({lease.job_id for lease in theirs}))
            raise _no_lease(job_id, f"{who} keeps no claim on {job_id} here, only on {names}")
        return mine[0]
    candidates = [lease for lease in theirs if lease.is_kept] or list(theirs)
    if len(candidates) > 1:
        names = join_names([lease.job_id for lease in candidates])
        raise InvalidInput("job", f"is required, because {who} keeps several claims here: {names}")
    return candidates[0]


class NothingKept(InvalidInput):
    """No lease was given, and none is kept here for the job."""

    def __init__(self, problem: str) -> None:
        super().__init__("lease_id", problem)
        self.args = (problem,)  # without the field name: users of `octostore release` need not know about leases


def _no_lease(job_id: str | None, why: str | None = None) -> NothingKept:
    if job_id is None:
        nothing, it, job, also = "you hold no claim here", "a job", "JOB", ", and name the JOB"
    else:
        nothing, it, job, also = f"you hold no claim on {job_id} here", "it", shlex.quote(job_id), ""
    return NothingKept(
        f"{why or nothing}. Claim {it} with `octostore claim {job} --keep`, or do the work inside "
        f"`octostore run {job} -- COMMAND`. If you claimed it without --keep, set {LEASE_VARIABLE} to the lease id "
        f"that `octostore claim` printed{also}"
    )


def fencing_token(job: str) -> int | None:
    """The fencing token that came with the lease, if known: it shows whether the store was restored from a backup."""
    text = os.environ.get(FENCING_VARIABLE)
    if not text or os.environ.get(JOB_VARIABLE, job) != job:  # inside `run`, but about another job
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(FENCING_VARIABLE, f"must be a whole number, not {text!r}") from None
