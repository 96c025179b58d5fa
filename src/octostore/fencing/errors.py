"""Why a guarded resource refused a write.

OctoStoreError
├── StaleToken   a newer claim has written; nothing was written   .key .token .current
└── MissingRow   there is no row to write; nothing was written    .table .key
"""

from collections.abc import Mapping

from octostore.core.errors import OctoStoreError
from octostore.core.limits import check_whole

TOKEN_MAX = 2**63 - 1
"""The highest number that fits the integer columns of PostgreSQL and SQLite."""


class StaleToken(OctoStoreError):
    """A late write was refused: `current`, the newest token seen for `key`, is higher than `token`.

    With `once=True`, they are equal if the claim has already written.
    """

    code = "stale_token"

    def __init__(self, key: object, token: int, current: int) -> None:
        why = "has already been used" if current == token else f"is stale: {current} has been seen"
        super().__init__(f"fencing token {token} {why} ({key!r})")
        self.key = key
        self.token = token
        self.current = current


class MissingRow(OctoStoreError):
    """There is no row with this key to write to."""

    code = "missing_row"

    def __init__(self, table: str, key: Mapping[str, object]) -> None:
        super().__init__(f"table {table!r} has no row {key!r} to write to")
        self.table = table
        self.key = key


def check_token(token: int) -> None:
    """Raise `InvalidInput` for a token that no claim can have, including the None of a reply that is not `claimed`."""
    check_whole("token", token, 1, TOKEN_MAX)
