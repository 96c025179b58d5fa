"""Files with a token in them: only their owner may read them, and so they are written."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from octostore.core.errors import InvalidInput

OWN_TOKEN_LINK = "admin.token"  # noqa: S105  # a file's name
"""In the data folder, a link to the first token of the store that is there, too. It was a file once, for any store."""


def admin_token_file(folder: Path, store_id: str) -> Path:
    """Where servers leave the first token of a store."""
    if not store_id.isalnum():  # it comes from the store, and must not lead to another folder
        raise InvalidInput("the store's id", f"must be letters and digits, not {store_id!r}")
    return folder / f"{store_id}.admin.token"


def address_file(folder: Path, host: str, port: int) -> Path:
    """A link to the first token of the store that is served at this address, for clients of the same user."""
    return folder / f"{f'[{host}]' if ':' in host else host}:{port}.token"


def read_token_file(path: Path, what: str = "the token file") -> str:
    """Raises `FileNotFoundError`; and `InvalidInput` where others could have read it, too: it is no secret then.

    A file that is not ours was put there by whoever runs us, as systemd and containers do with secrets. Its mode is not
    ours to change, and often says less than is allowed.
    """
    try:
        with path.open(encoding="ascii") as file:
            status = os.fstat(file.fileno())
            is_open = stat.S_IMODE(status.st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
            if is_open and status.st_uid == os.geteuid():
                raise InvalidInput(
                    what,
                    f"({path}) can be read by other users; run: chmod 600 {path}, and replace the token if they may "
                    "have read it",
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
    """In one step, and never readable by others, not even for a moment."""
    with _new(path) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def link_token_file(link: Path, path: Path) -> None:
    """In one step, whatever was at `link` before."""
    with _new(link) as temporary:
        temporary.symlink_to(path.name)


@contextmanager
def _new(path: Path) -> Iterator[Path]:
    """A name for what is at `path` once the block has ended."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    yield temporary
    temporary.replace(path)
