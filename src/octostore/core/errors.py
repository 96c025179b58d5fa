"""Everything that can go wrong, by kind.

OctoStoreError
├── Held             someone else owns it and is alive       .owner .claimed_at .heartbeat_at .expires_at
├── AlreadyDone      the work is finished                    .result
├── LeaseLost        your lease has ended; a late write      .job_id .ended .holder
├── Conflict         the job's state does not allow this     .status
│   └── LimitExceeded  you have reached a limit              .limit
├── InvalidInput     what you sent is wrong; nothing changed .field .limit .size
├── NotAllowed       you may not do this
├── NotFound         no such job or session                  .job_id
└── Unreachable      the store did not reply: nothing is known about the job   .reason

*Held*, *empty*, *lost*, *unreachable* and *not allowed* are five different results everywhere. An empty queue is not an
error; it is a reply with the status `empty`.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from octostore.core.visible import visible

if TYPE_CHECKING:
    from octostore.core.replies import AttemptView, JobOwner, ProgressView


class OctoStoreError(Exception):
    """The base class of all errors that OctoStore raises on purpose."""

    code = "error"
    """A stable word for machines; the message is for people."""

    def __str__(self) -> str:
        """On one line, without invisible characters: it may quote others, and ends up in a terminal or a log."""
        return visible(super().__str__())

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep every attribute when pickled: a process pool that cannot unpickle an error hangs its caller."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[OctoStoreError], args: tuple[Any, ...], attributes: dict[str, Any]) -> OctoStoreError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class InvalidInput(OctoStoreError):
    """An argument is invalid; nothing changed.

    `field` is its name. If it is out of bounds, `limit` is the bound and `size` is what you passed.
    """

    code = "invalid_input"

    def __init__(self, field: str, problem: str, *, limit: float | None = None, size: float | None = None) -> None:
        super().__init__(f"{field} {problem}")
        self.field = field
        self.limit = limit
        self.size = size

    def about(self, field: str) -> "InvalidInput":
        """Replace the field's name with the one the caller knows.

        Args:
            field: The caller's name for the field.

        Returns:
            The same error with that name.

        Example:
            >>> str(octostore.InvalidInput("ttl", "is 0").about("ttl_seconds"))
            'ttl_seconds is 0'
        """
        return InvalidInput(field, str(self).removeprefix(f"{self.field} "), limit=self.limit, size=self.size)


class Held(OctoStoreError):
    """Someone else owns the job or session, and is alive.

    `owner` has had it since `claimed_at`, was alive at `heartbeat_at`, and keeps it until `expires_at`, or longer if
    it sends another heartbeat. `metadata` and `progress` are what the owner says about its work.
    """

    code = "held"

    def __init__(
        self,
        subject: str,
        *,
        owner: str,
        claimed_at: datetime,
        heartbeat_at: datetime,
        expires_at: datetime,
        metadata: Any = None,
        progress: "ProgressView | None" = None,
    ) -> None:
        super().__init__(
            f"{subject} is held by {owner!r} (claimed {claimed_at:%Y-%m-%d %H:%M:%S} UTC, "
            f"last heartbeat {heartbeat_at:%H:%M:%S}, expires {expires_at:%H:%M:%S} unless renewed)"
        )
        self.owner = owner
        self.claimed_at = claimed_at
        self.heartbeat_at = heartbeat_at
        self.expires_at = expires_at
        self.metadata = metadata
        self.progress = progress


class AlreadyDone(OctoStoreError):
    """The job `job_id` is done, with this `result`."""

    code = "done"

    def __init__(self, job_id: str, result: Any) -> None:
        super().__init__(f"job {job_id!r} is already done; requeue it to run it again")
        self.job_id = job_id
        self.result = result


class LeaseLost(OctoStoreError):
    """A late write was refused: the lease has ended, or never belonged to this job.

    `ended` says how the lease ended, if it was one of the job's last five. `holder` says who owns the job now.
    """

    code = "lease_lost"

    def __init__(
        self, job_id: str, why: str, *, ended: "AttemptView | None" = None, holder: "JobOwner | None" = None
    ) -> None:
        super().__init__(f"the lease on {job_id!r} is lost: {why}")
        self.job_id = job_id
        self.ended = ended
        self.holder = holder


class Conflict(OctoStoreError):
    """The job's state does not allow this; `status` is that state."""

    code = "conflict"

    def __init__(self, problem: str, *, status: str | None = None) -> None:
        super().__init__(problem)
        self.status = status


class LimitExceeded(Conflict):
    """You have reached the `limit` of claims, sessions or queued jobs."""

    code = "limit_exceeded"

    def __init__(self, problem: str, *, limit: int) -> None:
        super().__init__(problem)
        self.limit = limit


class NotAllowed(OctoStoreError):
    """Your token does not permit this, or is not valid."""

    code = "not_allowed"


class NotFound(OctoStoreError):
    """There is no such job, session or token. For a job, `job_id` is its name."""

    code = "not_found"

    def __init__(self, problem: str, *, job_id: str | None = None) -> None:
        super().__init__(problem)
        self.job_id = job_id


class Unreachable(OctoStoreError):
    """The store did not reply, so nothing is known about the job; a write may or may not have happened.

    `reason` is one of these stable words:

    - `busy`, `disk_full`, `read_only`, `not_a_database`, `newer_schema`, `corrupt`, `closed`, `io`
    - `no_store`: there is no store here yet
    - `moved`: the store is gone, or another one is in its place
    - `restored_behind`: the store was restored from an older backup, which does not know this lease
    - `in_use`: others are using the store that a backup would replace
    - `late`: the caller had given up before the call ran, and nothing was done
    - `denied`: the database refused the login
    - `address`: the server cannot listen on this address
    - `network`: no connection, or no response in time
    - `server`: the response is not from an OctoStore server
    - `certificate`: the server's certificate is not trusted
    - `other_user`: the token is for your own server, but another user's server is at this address
    - `no_server`: no server was found for this store
    """

    code = "unreachable"

    def __init__(self, problem: str, *, reason: str) -> None:
        super().__init__(problem)
        self.reason = reason

    @property
    def is_lasting(self) -> bool:
        """Whether retrying is useless until someone fixes the problem."""
        return self.reason in {
            "certificate",
            "corrupt",
            "moved",
            "newer_schema",
            "no_store",
            "not_a_database",
            "read_only",
            "restored_behind",
        }
