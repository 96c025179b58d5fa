"""PostgreSQL's errors in our words: which database, what happened, what to do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from octostore.core.errors import InvalidInput, Unreachable
from octostore.stores.base import TryAgain
from octostore.stores.postgres.connection import DatabaseAddress

_PASSING = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
    errors.TransactionTimeout,
    errors.ReadOnlySqlTransaction,  # a primary that became a standby under an open connection
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.TooManyConnections,
)
"""The transaction was rolled back, and the next may succeed."""

_FAULTS: tuple[tuple[type[psycopg.Error], str, str], ...] = (
    (errors.LockNotAvailable, "busy", "another process has been writing to it for too long; try again"),
    (errors.QueryCanceled, "busy", "it took too long to answer; try again, and see what keeps it busy"),
    (errors.DiskFull, "disk_full", "its disk is full; nothing was changed. Free some space and try again"),
    (errors.InsufficientPrivilege, "read_only", "this user lacks rights that OctoStore needs; grant them"),
    (errors.UndefinedTable, "not_a_database", "the schema is not OctoStore's; check the URL's schema"),
)

_REFUSALS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(r'database ".*" does not exist|no such database'),
        "not_a_database",
        "there is no such database; create it, or check the URL",
    ),
    (
        re.compile(
            r"authentication failed|no password supplied|pg_hba\.conf|not permitted to log in|no such user|"
            r'role ".*" does not exist|permission denied for database'
        ),
        "denied",
        "it does not let this user in; check the user and password",
    ),
)
"""What servers and poolers say when refusing a connection: text without an error code, matched in English only."""

_READ_ONLY = re.compile(r"connection to server .*(session is read-only|server is in hot standby mode)")
"""What libpq says about a host that is not the `target_session_attrs` we want."""

_BAD_OPTION = re.compile(r'invalid (?:integer value ".*" for connection option "(\w+)"|(\w+) value: ".*")')
"""What libpq says about the URL's options when it connects. The value may be a password in the wrong place."""


@contextmanager
def translating_faults(address: DatabaseAddress) -> Iterator[None]:
    """Turn database faults in the block into `Unreachable`, or `TryAgain` if a retry may succeed.

    Options that libpq does not accept become `InvalidInput`.

    Any other PostgreSQL error is our bug, and passes through.
    """
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate is None and (wrong := _BAD_OPTION.search(str(error))):
            option = wrong[1] or wrong[2]
            raise InvalidInput("url", f"is not valid for PostgreSQL's client: bad value for {option}") from None
        for reason, advice in _known(error):
            raise Unreachable(f"{address} cannot be used: {advice} ({_said(error)})", reason=reason) from error
        if isinstance(error, _PASSING) or is_lost(error):
            raise TryAgain(_unreachable(address, error)) from error
        raise


def _known(error: psycopg.Error) -> Iterator[tuple[str, str]]:
    """Faults that a retry cannot fix: the reason, and what to do about it."""
    for kind, reason, advice in _FAULTS:
        if isinstance(error, kind):
            yield reason, advice
    for text, reason, advice in _REFUSALS:
        if error.sqlstate is None and text.search(str(error)):
            yield reason, advice


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, and with it the reply to the last query."""
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(("08", "57P", "25P03", "25P04"))


def _unreachable(address: DatabaseAddress, error: psycopg.Error) -> Unreachable:
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return Unreachable(f"{address} cannot be written to: is it a standby? ({_said(error)})", reason="read_only")
    if error.sqlstate is None and (refusal := _READ_ONLY.search(str(error))):
        # The reason of an outage, not `read_only`: during a failover, only the standby answers, and retrying helps.
        return Unreachable(
            f"{address} is read-only, perhaps a standby: check that the primary is running and that the URL names it "
            f"({refusal.group()})",
            reason="network",
        )
    return Unreachable(
        f"{address} does not answer: check that it is running and reachable from here ({_said(error)})",
        reason="network",
    )


def _said(error: psycopg.Error) -> str:
    """The first line, which names hosts and users but never a password."""
    return str(error).partition("\n")[0].strip() or type(error).__name__
