"""What a process of our own does to start faster, and a library must not do to the processes of others."""

import gc
import sys


def begin() -> None:
    """Before anything else is imported."""
    gc.disable()
    if "typing_extensions" not in sys.modules:
        # msgspec does without, but where somebody has installed it, imports it, and inspect with it.
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # how Python notes what is not there
        import msgspec  # noqa: F401, PLC0415

        del sys.modules["typing_extensions"]


def end() -> None:
    """Nothing of what was imported will ever be garbage, so nobody need look for any among it."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
