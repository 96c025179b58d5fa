"""The standard streams."""

import os
import stat

STANDARD = (0, 1, 2)


def fill_closed_streams() -> None:
    """Let nothing lead nowhere, where one is closed (`<&-`).

    Otherwise the next file that we open takes its number, and goes to the command as its own: our line to the guardian,
    or the store.
    """
    for number in STANDARD:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one


def lead_to_one_place(one: int, other: int) -> bool:
    """Whether it matters in which order what is written to them arrives."""
    return os.path.sameopenfile(one, other) and not stat.S_ISCHR(os.fstat(one).st_mode)  # such as /dev/null
