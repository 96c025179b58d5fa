"""What is said to whoever has started a command."""

from typing import Protocol


class Tell(Protocol):
    """`is_warning` where something is wrong, which is also for those who want to hear of nothing else."""

    def __call__(self, text: str, *, is_warning: bool = False) -> None: ...
