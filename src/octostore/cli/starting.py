"""What a process of our own does to start and end faster, and a library must not do to the processes of others."""

import gc
import sys


def begin() -> None:
    """Before anything else is imported; nothing of what is imported will be garbage, so nobody need look for any."""
    gc.disable()
    if "typing_extensions" not in sys.modules:
        # msgspec does without, but where somebody has installed it, imports it, and inspect with it.
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # how Python notes what is not there
        import msgspec  # noqa: F401, PLC0415

        del sys.modules["typing_extensions"]


def has_begun() -> None:
    """From now on garbage is looked for, among what is new."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def end() -> None:
    """Python would look through everything once more."""
    gc.freeze()
