"""The standard streams."""

import os
import stat

STANDARD = (0, 1, 2)


def fill_closed_streams() -> None:
    """Open /dev/null for each standard stream that is closed (`<&-`).

    Otherwise the next file we open gets its number, and the command would inherit the guardian's socket or the store.
    """
    for number in STANDARD:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one


def share_target(one: int, other: int) -> bool:
    """Whether two descriptors write to the same file, pipe or socket, so that the order of writes matters."""
    return os.path.sameopenfile(one, other) and not stat.S_ISCHR(os.fstat(one).st_mode)  # not for /dev/null
