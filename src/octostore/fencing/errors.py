"""What a guarded resource answers instead of letting a write in.

OctoStoreError
├── StaleToken   a newer claim was here; nothing was written      .key .token .current
└── MissingRow   there is no row to write; nothing was written    .table .key
"""

from collections.abc import Mapping

from octostore.core.errors import OctoStoreError
from octostore.core.limits import check_whole

TOKEN_MAX = 2**63 - 1
"""The highest number that fits the integer columns of PostgreSQL and SQLite."""


class StaleToken(OctoStoreError):
    """A late write was refused. `current` is the newest token that this resource has seen for `key`.

    If `current` equals `token`, the claim was to write once (`once=True`), and has.
    """

    code = "stale_token"

    def __init__(self, key: object, token: int, current: int) -> None:
        why = "has been used here already" if current == token else f"is stale: {current} has been here"
        super().__init__(f"token {token} {why} ({key!r})")
        self.key = key
        self.token = token
        self.current = current


class MissingRow(OctoStoreError):
    """There was no row with this key to write to."""

    code = "missing_row"

    def __init__(self, table: str, key: Mapping[str, object]) -> None:
        super().__init__(f"table {table!r} has no row {key!r} to write to")
        self.table = table
        self.key = key


def check_token(token: int) -> None:
    """Raise `InvalidInput` for what no claim can have. A reply that is no claim has None, and compares with nothing."""
    check_whole("token", token, 1, TOKEN_MAX)
