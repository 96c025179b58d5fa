"""Refuse files and folders that other users could change."""

import os
import stat
from collections.abc import Iterable

from octostore.core.errors import InvalidInput

ROOT = 0
UNKNOWN = -1


def check_file(path: str, *beside: str) -> None:
    """Check the file at `path`, its companions with the suffixes `beside`, and their folder; also before they exist.

    Raises `InvalidInput` with the command that fixes it. A sticky folder like /tmp is fine for one's own files.
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
    """Check that other users cannot write to this folder."""
    _check_modes([os.path.realpath(folder)])


def _check_modes(paths: Iterable[str]) -> None:
    shared = [path for path, status in _statuses(paths).items() if _can_others_write(status)]
    if shared:
        raise InvalidInput(
            "permissions",
            f"of {' and '.join(shared)} let other users write there; run: chmod go-w {_quoted(shared)}",
        )


def _statuses(paths: Iterable[str]) -> dict[str, os.stat_result]:
    """Of the paths that exist. Opening them reveals anything else that is wrong."""
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
    """Whether the group has no other members, as far as the system knows: many systems create a group per user."""
    import grp  # noqa: PLC0415  # rarely needed
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
    import shlex  # noqa: PLC0415  # only needed for the error

    return shlex.join(paths)
