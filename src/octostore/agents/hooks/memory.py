"""What hooks remember about a client's session, from one process to the next: small files in the user's data folder."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from octostore.core.secret_free import SecretFree
from octostore.stores.opening import chosen_url, make_data_folder, sqlite_path
from octostore.wire.token_files import write_private_file

KEPT_SECONDS = 7 * 86_400
"""How long to keep the files of sessions that ended silently."""


class Memory(msgspec.Struct):
    life_at: float = 0.0
    """When a hook last tried to send a keepalive for the agent."""
    reported: list[str] = []
    """The jobs the agent was reminded of when it stopped."""
    is_compacted: bool = False
    """The agent must be reminded again of what it holds."""

    def needs_sign_of_life(self, now: float, every: float) -> bool:
        return not 0 <= now - self.life_at < every


class SessionLease(SecretFree, msgspec.Struct, frozen=True):
    lease_id: str


class Remembered:
    """For one session in one store."""

    def __init__(self, url: str | None, session: str) -> None:
        store = sqlite_path(chosen_url(url)) or chosen_url(url) or ""
        self.folder = Path(make_data_folder()) / "hooks"
        self.folder.mkdir(mode=0o700, exist_ok=True)
        name = sha256(f"{store}\n{session}".encode(errors="surrogateescape")).hexdigest()[:32]
        self._path = self.folder / f"{name}.json"
        self._lease_path = self.folder / f"{name}.lease"

    @contextmanager
    def memory(self) -> Iterator[Memory]:
        """Exclusive access for the length of a block: a client may run several hooks at the same time."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            memory = _decoded(file.read())
            yield memory
            file.seek(0)
            file.truncate()
            file.write(msgspec.json.encode(memory))

    def lease_id(self) -> str | None:
        """For our session, if one was opened."""
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._lease_path.read_bytes(), type=SessionLease).lease_id
        return None

    def keep_lease(self, lease_id: str) -> None:
        write_private_file(self._lease_path, msgspec.json.encode(SessionLease(lease_id)))

    def note_that_it_lives(self) -> None:
        """So that it does not look like one that ended silently."""
        with suppress(OSError):
            os.utime(self._lease_path)

    def forget(self) -> None:
        for path in (self._path, self._lease_path):
            path.unlink(missing_ok=True)

    def forget_old(self) -> None:
        """What sessions left behind that ended silently."""
        for path in self.folder.iterdir():
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                    path.unlink()


def _decoded(content: bytes) -> Memory:
    try:
        return msgspec.json.decode(content, type=Memory)
    except msgspec.MsgspecError:
        return Memory()
