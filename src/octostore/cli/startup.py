"""Make our own process start and exit faster. A library must not do this to other people's processes."""

import gc
import sys


def prepare() -> None:
    """Call before importing anything else: nothing imported becomes garbage, so collecting is wasted time."""
    gc.disable()
    if "typing_extensions" not in sys.modules:
        # msgspec does not need it, but imports it if it is installed, and `inspect` with it.
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # makes the import fail
        import msgspec  # noqa: F401, PLC0415

        del sys.modules["typing_extensions"]


def enable_gc() -> None:
    """Collect garbage from now on, but only among new objects."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def skip_final_gc() -> None:
    """Keep Python from collecting everything once more at exit."""
    gc.freeze()
