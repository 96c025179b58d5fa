"""What nobody else may change: the files that we read and write, and the folders that they are in."""

import os
import stat
from collections.abc import Iterable

from octostore.core.errors import InvalidInput

ROOT = 0
UNKNOWN = -1


def check_file(path: str, *beside: str) -> None:
    """Of the file at `path`, those whose names end with `beside` as well, and their folder; also before they are made.

    Raises `InvalidInput`, with the command that helps. Where all may write but only their owner may delete, as in
    /tmp, a folder is good for files of one's own.
    """
    real = os.path.realpath(path)
    for status in _statuses([real]).values():
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise InvalidInput("file", f"{path} is not a regular file")
    folder, files = os.path.dirname(real), [real, *(real + side for side in beside)]
    _check_modes([os.path.realpath(os.path.dirname(os.path.abspath(path))), folder, *files])
    trusted = {ROOT, os.geteuid(), *(status.st_uid for status in _statuses([folder]).values())}
    for file, status in _statuses(files).items():
        if status.st_uid not in trusted:
            raise InvalidInput(
                "permissions",
                f"of {file} are controlled by user {status.st_uid}, who owns it and can change it. "
                f"If you trust its contents, run: chown {os.geteuid()} {_quoted([file])}",
            )


def check_folder(folder: str) -> None:
    """The same for whatever is in it."""
    _check_modes([os.path.realpath(folder)])


def _check_modes(paths: Iterable[str]) -> None:
    shared = [path for path, status in _statuses(paths).items() if _can_others_write(status)]
    if shared:
        raise InvalidInput(
            "permissions",
            f"of {' and '.join(shared)} let other users write to it; run: chmod go-w {_quoted(shared)}",
        )


def _statuses(paths: Iterable[str]) -> dict[str, os.stat_result]:
    """Of those that are there. What else is wrong with them is found out when they are opened."""
    found = {}
    for path in paths:
        try:
            found[path] = os.lstat(path)
        except OSError:
            continue
    return found


def _can_others_write(status: os.stat_result) -> bool:
    mode = status.st_mode
    if stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return False
    return bool(mode & stat.S_IWOTH) or bool(mode & stat.S_IWGRP and not _is_alone(status))


def _is_alone(status: os.stat_result) -> bool:
    """Whether nobody else is in its group, as far as the system knows: many give each user a group of their own."""
    import grp  # noqa: PLC0415  # few need them
    import pwd  # noqa: PLC0415

    if status.st_gid == ROOT:
        return True
    try:
        named = grp.getgrgid(status.st_gid).gr_mem
    except KeyError:
        named = []
    users = pwd.getpwall()
    ids = {user.pw_name: user.pw_uid for user in users}
    members = {user.pw_uid for user in users if user.pw_gid == status.st_gid} | {
        ids.get(name, UNKNOWN) for name in named
    }
    return members <= {ROOT, os.geteuid(), status.st_uid}


def _quoted(paths: Iterable[str]) -> str:
    import shlex  # noqa: PLC0415  # only for whoever is refused

    return shlex.join(paths)
