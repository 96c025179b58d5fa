"""Messages to the person who started a command."""

from typing import Protocol


class Notify(Protocol):
    """`is_warning` marks a message to show even with `--quiet`."""

    def __call__(self, text: str, *, is_warning: bool = False) -> None: ...
