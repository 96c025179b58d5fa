"""The user's kept leases, one file per claim: by store, owner, job and fencing token.

Only their owner can read them. Names are hashed, so that none leads to another folder.
"""

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Self

import msgspec

from octostore.core.errors import InvalidInput, Unreachable
from octostore.core.moments import Moment
from octostore.core.secret_free import SecretFree
from octostore.keeping.processes import Process, is_running, wake
from octostore.stores.opening import chosen_url, keeping_root, make_data_folder, sqlite_path
from octostore.wire.token_files import write_private_file

LEFTOVERS_KEPT_SECONDS = 86_400
"""How long a lease is remembered after its last use, so that its owner learns what happened to the claim.

No TTL is longer, and every heartbeat touches the lease's file: a claim whose file is this old has certainly ended.
"""
TRIES = 10
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LIFE = "alive"
_SUFFIX = ".lease"


class KeptLease(SecretFree, msgspec.Struct, frozen=True, kw_only=True):
    """A claim with its lease, and who sends its heartbeats until when. Times in seconds."""

    job_id: str
    owner: str
    lease_id: str
    fencing_token: int
    ttl: float
    claimed_at: Moment
    keeper: Process
    watched: Process | None
    """When it ends, so does the claim."""
    max_silence: float

    @property
    def is_kept(self) -> bool:
        """Whether its keeper is alive. If not, the claim has ended, or will when its TTL passes."""
        return is_running(self.keeper)


class KeptLeases:
    """The leases of one store. `folder` may not exist, nor `root`, if that is different.

    Their parent folders are not ours to create, except for the user's data folder.
    """

    def __init__(self, folder: Path, *, root: Path | None = None, is_users: bool = False) -> None:
        self._folder = folder
        self._root = root or folder
        self._is_users = is_users

    @classmethod
    def of_store(cls, url: str | None) -> Self:
        """For the store that `connect(url)` finds."""
        url = chosen_url(url)
        root = Path(keeping_root(url))
        if sqlite_path(url) is not None:
            return cls(root, is_users=url is None)
        return cls(root / _key(_address(url or "")), root=root, is_users=True)

    def all(self) -> list[KeptLease]:
        """The leases of every owner."""
        return [lease for folder in sorted(_entries(self._folder)) for lease in self._in(folder)]

    def of(self, owner: str) -> list[KeptLease]:
        """Newest first, including those without a keeper. Raises `InvalidInput` if others could have read one."""
        return self._in(self._folder_of(owner))

    def find(self, owner: str, job_id: str) -> KeptLease | None:
        """The newest for this job."""
        return next((lease for lease in self.of(owner) if lease.job_id == job_id), None)

    def confirm(self, lease: KeptLease) -> bool:
        """Whether its file exists; also true if that cannot be checked right now: an error must not release a claim.

        It does not count as stale for a while, not even to a process that cannot see its keeper (in another container).
        """
        try:
            os.utime(self._path_of(lease))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return True

    def prepare(self, owner: str) -> None:
        """Create the folder of `owner`, before claiming anything that could then not be kept. Delete leftovers."""
        self._again(lambda: self._prepare(owner))
        self._delete_leftovers()

    def tidy(self, owner: str) -> None:
        """Leave no folder behind for an owner that keeps nothing."""
        folder = self._folder_of(owner)
        # A folder that another claim has used meanwhile is not empty, and stays.
        with suppress(OSError):
            if not any(folder.glob(f"*{_SUFFIX}")):
                (folder / _LIFE).unlink(missing_ok=True)
                folder.rmdir()
                self._folder.rmdir()

    def add(self, lease: KeptLease) -> None:
        """After `prepare`. Replaces what was kept for the same claim."""

        def write() -> None:
            self._prepare(lease.owner)
            write_private_file(self._path_of(lease), msgspec.json.encode(lease))

        self._again(write)

    def forget(self, lease: KeptLease) -> None:
        """The claim has ended. Its keeper notices at once, and exits."""
        self._remove(lease)
        wake(lease.keeper)

    # Activity

    def show_life(self, owner: str) -> bool:
        """Whether there is anything to keep alive."""
        path = self._folder_of(owner) / _LIFE
        with suppress(OSError):
            os.utime(path)
            return True
        with suppress(OSError):
            if any(path.parent.glob(f"*{_SUFFIX}")):
                path.touch(mode=0o600)  # another command has just cleaned up
                return True
        return False

    def life_shown_at(self, owner: str) -> float | None:
        """When `owner` last ran a command, on the clock of the file system."""
        try:
            return (self._folder_of(owner) / _LIFE).stat().st_mtime
        except OSError:
            return None

    # Internals

    def _prepare(self, owner: str) -> None:
        folder = self._folder_of(owner)
        if self._is_users:
            make_data_folder()
        for one in (self._root, self._folder, folder):
            one.mkdir(mode=0o700, exist_ok=True)
            _check_private(one, one.lstat())
        (folder / _LIFE).touch(mode=0o600)
        self._in(folder)  # raises if one cannot be read: better now than after the claim

    def _delete_leftovers(self) -> None:
        """Of every owner: an agent that is named after its process never comes back."""
        for folder in _entries(self._folder):
            with suppress(OSError, InvalidInput):  # a problem of another owner, who will see it
                for lease in filter(None, map(_leftover, _lease_files(folder))):
                    self._remove(lease)

    def _again(self, make: Callable[[], None]) -> None:
        """Retries: another command may clean up what was just created."""
        problem: OSError | None = None
        for _ in range(TRIES):
            try:
                return make()
            except (FileNotFoundError, FileExistsError) as error:  # the second from `mkdir`, for a folder gone by now
                problem = error
            except OSError as error:
                problem = error
                break
        raise Unreachable(f"leases cannot be kept in {self._folder}: {problem}", reason="io") from problem

    def _folder_of(self, owner: str) -> Path:
        return self._folder / _key(owner)

    def _path_of(self, lease: KeptLease) -> Path:
        return self._folder_of(lease.owner) / f"{_key(lease.job_id)}-{lease.fencing_token}{_SUFFIX}"

    def _in(self, folder: Path) -> list[KeptLease]:
        leases = [lease for path in _lease_files(folder) if (lease := _read(path)) is not None]
        return sorted(leases, key=lambda lease: lease.fencing_token, reverse=True)

    def _remove(self, lease: KeptLease) -> None:
        self._path_of(lease).unlink(missing_ok=True)
        self.tidy(lease.owner)


def _key(text: str) -> str:
    return sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


def _address(url: str) -> str:
    """The part that identifies a server or database, without the password: that may change, and is a secret."""
    scheme, _, rest = url.partition("://")
    user, at, place = rest.rpartition("@")
    return f"{scheme.lower()}://{user.partition(':')[0]}{at}{place.rstrip('/')}"


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InvalidInput("permissions", f"of {folder}: your leases cannot be read there ({error.strerror})") from None


def _lease_files(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.suffix == _SUFFIX]


def _leftover(path: Path) -> KeptLease | None:
    """The lease in this file if it is of no more use. None if it may be, or if it cannot be read."""
    with suppress(OSError, InvalidInput):
        if time.time() - path.stat().st_mtime > LEFTOVERS_KEPT_SECONDS:
            lease = _read(path)
            return None if lease is None or lease.is_kept else lease
    return None


def _read(path: Path) -> KeptLease | None:
    """None if it has been removed meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput("the kept lease", f"({path}) cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        _check_private(path, os.fstat(file.fileno()))
        content = file.read()
    try:
        return msgspec.json.decode(content, type=KeptLease)
    except msgspec.DecodeError as error:
        raise InvalidInput("the kept lease", f"({path}) cannot be understood ({error}); delete it") from None


def _check_private(path: Path, status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise InvalidInput("folder", f"{path} is a symbolic link, which could point anywhere; remove it")
    if status.st_uid != os.geteuid():
        raise InvalidInput("permissions", f"of {path} are controlled by user {status.st_uid}, who owns it; remove it")
    if stat.S_IMODE(status.st_mode) & _OTHERS:
        raise InvalidInput(
            "permissions",
            f"of {path} let others read your leases; run: chmod -R go= {path}, and if someone may have read them, "
            "release the claims",
        )
