"""Token files, which only their owner can read."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from octostore.core.errors import InvalidInput

OWN_TOKEN_LINK = "admin.token"  # noqa: S105  # a file's name
"""In the data folder: a link to the first token of the store in that folder. Early versions wrote a plain file here."""


def admin_token_file(folder: Path, store_id: str) -> Path:
    """Where a server writes the first token of a store."""
    if not store_id.isalnum():  # the id comes from the store; it must not lead to another folder
        raise InvalidInput("the store's id", f"must be letters and digits, not {store_id!r}")
    return folder / f"{store_id}.admin.token"


def address_file(folder: Path, host: str, port: int) -> Path:
    """A link to the first token of the store served at this address, for clients of the same user."""
    return folder / f"{f'[{host}]' if ':' in host else host}:{port}.token"


def read_token_file(path: Path, what: str = "the token file") -> str:
    """Read a token.

    Raises `FileNotFoundError`, or `InvalidInput` if the file cannot be read or other users can read it too. The mode
    is checked only if the file belongs to this user: systemd and container runtimes mount secrets with their own
    owner and mode.
    """
    try:
        with path.open(encoding="ascii") as file:
            status = os.fstat(file.fileno())
            is_open = stat.S_IMODE(status.st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
            if is_open and status.st_uid == os.geteuid():
                raise InvalidInput(
                    what,
                    f"({path}) can be read by other users; run: chmod 600 {path}, and replace the token if someone "
                    "may have read it",
                )
            return file.read().strip()
    except UnicodeDecodeError:
        raise InvalidInput(what, f"({path}) does not contain a token") from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InvalidInput(what, f"({path}) cannot be read: {error.strerror}") from None


def write_token_file(path: Path, token: str) -> None:
    write_private_file(path, f"{token}\n".encode("ascii"))


def write_private_file(path: Path, content: bytes) -> None:
    """Write atomically. The file is never readable by others, not even for a moment."""
    with _replacing(path) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def link_token_file(link: Path, path: Path) -> None:
    """Point `link` at `path` atomically, replacing what was there."""
    with _replacing(link) as temporary:
        temporary.symlink_to(path.name)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path, which replaces `path` when the block ends."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    yield temporary
    temporary.replace(path)
