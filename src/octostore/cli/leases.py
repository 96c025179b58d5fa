"""Which lease a command is about: the one that it is given, or the one that is kept for its owner."""

import argparse
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from octostore.cli.command import Arguments, Context, completed_by
from octostore.cli.completing import job_names
from octostore.cli.living import my_name
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
    job = parser.add_argument("job", metavar="JOB", nargs="?", help="job name (optional if you keep exactly one claim)")
    completed_by(job, job_names)


def add_lease_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lease-id", metavar="L", help=f"prefer {LEASE_VARIABLE}: other users can see command-line arguments"
    )
    parser.add_argument("--owner", metavar="O", help="who keeps the claim (OCTOSTORE_OWNER, or the only owner here)")


@contextmanager
def found_lease(job_id: str | None, arguments: Arguments, context: Context) -> Iterator[Lease]:
    """For the length of a block. One that is kept is forgotten if the block finds that it is lost."""
    lease = _given(job_id, arguments.lease_id)
    # Which job a variable is about, it does not say; a file does.
    if lease is None or (arguments.lease_id is None and _has_keeper(lease.job_id, arguments.owner, context)):
        lease = _kept(job_id, arguments.owner, context)
    try:
        yield lease
    except LeaseLost:
        lease.forget()
        raise


def is_kept_job(job_id: str, owner: str | None, context: Context) -> bool:
    """Whether that is the name of a job that is kept for the owner."""
    return _find(job_id, owner, context) is not None


def _has_keeper(job_id: str, owner: str | None, context: Context) -> bool:
    with suppress(InvalidInput):  # whose it is need not be said by those who have a lease
        kept = _find(job_id, owner, context)
        return kept is not None and kept.is_kept
    return False


def _find(job_id: str, owner: str | None, context: Context) -> "KeptLease | None":
    leases = kept_leases(context)
    who = None if leases is None else who_keeps(owner, leases)
    return None if leases is None or who is None else leases.find(who, job_id)


def kept_leases(context: Context) -> "KeptLeases | None":
    """None where nothing is kept, which is found out without importing anything."""
    if not os.path.exists(keeping_root(context.place.url)):  # noqa: PTH110  # pathlib is not needed for that
        return None
    from octostore.keeping.leases import KeptLeases  # noqa: PLC0415  # only for those who keep something

    return KeptLeases.of_store(context.place.url)


def who_keeps(owner: str | None, leases: "KeptLeases") -> str | None:
    """`owner`, else OCTOSTORE_OWNER, else the agent whose command this is, or the only one who keeps claims here.

    None if there is none. What is watched for another agent is not taken for this one's.
    """
    from octostore.keeping.watching import agent_here, is_of_another_agent, name_of  # noqa: PLC0415  # the same

    named = owner or os.environ.get(OWNER_VARIABLE)
    if named:
        return named
    agent = agent_here()
    mine = [lease for lease in leases.all() if not is_of_another_agent(lease, agent)]
    owners = _owners(mine)
    if name_of(agent) in owners or not owners:
        return name_of(agent)
    if len(owners) > 1:
        raise InvalidInput(
            "owner",
            f"is required: {_listed(owners)} keep claims here. Say which of them you are: add `--owner NAME` to every "
            f"command, or set {OWNER_VARIABLE}",
        )
    return owners[0]


def _owners(leases: "Sequence[KeptLease]") -> list[str]:
    """Also those whose keepers are gone, if there is nobody else."""
    return sorted({lease.owner for lease in leases if lease.is_kept} or {lease.owner for lease in leases})


def said_again(owner: str | None, context: Context) -> str:
    """The options that the next command needs, because nothing else says it."""
    url = f" --url {shlex.quote(str(context.place))}" if context.place.setting == "--url" else ""
    return f"{url} --owner {shlex.quote(owner)}" if owner and owner != my_name(None) else url


def _given(job_id: str | None, option: str | None) -> Lease | None:
    lease_id = lease_or_none(option)
    if lease_id is None:
        if option is not None:
            raise InvalidInput("lease_id", "is empty: give --lease-id what `octostore claim` printed")
        return None
    if job_id is None:
        raise InvalidInput(
            "job", f"is required with {LEASE_VARIABLE} or --lease-id: name the job that the lease is for"
        )
    return Lease(job_id, lease_id, fencing_token(job_id))


def _kept(job_id: str | None, owner: str | None, context: Context) -> Lease:
    leases = kept_leases(context)
    if leases is None:
        raise _needed(job_id)
    who = who_keeps(owner, leases)
    if who is None:
        raise _needed(job_id)
    kept = _chosen(job_id, who, leases.of(who), _owners(leases.all()))
    leases.show_life(who)
    return Lease(kept.job_id, kept.lease_id, kept.fencing_token, kept, leases)


def _chosen(job_id: str | None, who: str, theirs: "Sequence[KeptLease]", owners: Sequence[str]) -> "KeptLease":
    """The newest of the job, or the only one. One without a keeper only counts if there is no other."""
    if not theirs:
        others = f"; those kept here belong to {_listed(owners)} (use --owner)" if owners else ""
        raise _needed(job_id, f"{who} keeps no claim here{others}")
    if job_id is not None:
        mine = [lease for lease in theirs if lease.job_id == job_id]
        if not mine:
            names = _listed(sorted({lease.job_id for lease in theirs}))
            raise _needed(job_id, f"{who} keeps no claim on {job_id} here, only on {names}")
        return mine[0]
    candidates = [lease for lease in theirs if lease.is_kept] or list(theirs)
    if len(candidates) > 1:
        names = _listed([lease.job_id for lease in candidates])
        raise InvalidInput("job", f"is required: {who} keeps several claims here: {names}")
    return candidates[0]


class NothingKept(InvalidInput):
    """No lease was given, and none is kept here for the job."""

    def __init__(self, problem: str) -> None:
        super().__init__("lease_id", problem)
        self.args = (problem,)  # nobody who types `octostore release` has heard of a lease


def _needed(job_id: str | None, why: str | None = None) -> NothingKept:
    if job_id is None:
        nothing, it, job, also = "you hold no claim here", "a job", "JOB", ", and name the JOB"
    else:
        nothing, it, job, also = f"you hold no claim on {job_id} here", "it", shlex.quote(job_id), ""
    return NothingKept(
        f"{why or nothing}. Claim {it} with `octostore claim {job} --keep`, or do the work inside "
        f"`octostore run {job} -- COMMAND`. If you claimed it without --keep, set {LEASE_VARIABLE} to the lease id "
        f"that `octostore claim` printed{also}"
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
