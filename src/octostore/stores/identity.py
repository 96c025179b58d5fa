"""Remember which store this process uses, to notice if another one takes its place."""

from octostore.core.errors import Unreachable


def no_store(place: object) -> Unreachable:
    return Unreachable(f"there is no store at {place}; the first claim or enqueue creates it", reason="no_store")


class Identity:
    """Shared by a process and its forked children."""

    def __init__(self) -> None:
        self._store_id: str | None = None

    def check(self, store_id: str, place: object) -> None:
        if self._store_id is None:
            self._store_id = store_id
        elif store_id != self._store_id:
            raise Unreachable(
                f"{place} is not the same store as before: its id is {store_id}, but was {self._store_id}. "
                "Put the right one back, or restart to use this one",
                reason="moved",
            )
