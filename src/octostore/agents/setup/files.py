"""Other people's files: read only if they can be written safely, and written atomically."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from octostore.agents.setup.parts import Unsafe
from octostore.core.errors import InvalidInput
from octostore.stores.permissions import check_file

MAX_BYTES = 8 * 1024 * 1024
BOM = "\ufeff"


def read_safely(path: Path, base: Path) -> str | None:
    """The text, or None if there is no file. Raises `Unsafe` if it could not be written afterwards."""
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(base)):
        raise Unsafe(f"a symbolic link leads to {real}, which is not in {base}; edit that file by hand")
    try:
        check_file(str(real))
        status = _status(real)
    except InvalidInput as error:
        raise Unsafe(str(error)) from None
    except OSError as error:
        raise Unsafe(error.strerror or str(error)) from None
    _check_writable(_first_that_exists(real), stat.S_IWUSR)
    if status is None:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise Unsafe("it is not a regular file")
    if status.st_size > MAX_BYTES:
        raise Unsafe(f"it has more than {MAX_BYTES:,} bytes")
    return _text(real)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _first_that_exists(path: Path) -> Path:
    """The file itself, or the innermost existing folder above it."""
    return next(place for place in (path, *path.parents) if place.exists())


def _check_writable(path: Path, bit: int) -> None:
    # The mode counts for root as well: someone set it on purpose.
    if not path.stat().st_mode & bit or not os.access(path, os.W_OK):
        raise Unsafe(f"{path} is read-only; run: chmod u+w {path}")


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        raise Unsafe("it is not UTF-8") from None
    except OSError as error:
        raise Unsafe(f"it cannot be read: {error.strerror}") from None


def write_in_one_step(path: Path, text: str) -> None:
    """Its mode stays; nobody ever sees half of it."""
    real = Path(os.path.realpath(path))
    real.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(real.stat().st_mode) if real.exists() else None
    temporary = real.with_name(f".{real.name}.{os.getpid()}")
    new = temporary.open("xb")  # only after this is it ours to delete
    try:
        with new as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(real)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def delete(path: Path, base: Path) -> None:
    """Along with folders that are empty afterwards."""
    path.unlink(missing_ok=True)
    with suppress(OSError):  # something is left in it
        for folder in path.parents:
            if folder == base:
                break
            folder.rmdir()
