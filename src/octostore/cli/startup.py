"""Make our own process start and exit faster. A library must not do this to other people's processes."""

import gc
import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def prepare() -> None:
    """Call before importing anything else: nothing imported becomes garbage, so collecting is wasted time."""
    gc.disable()
    if "argparse" not in sys.modules and "msgspec" not in sys.modules:
        _import_only_what_is_used()


def _import_only_what_is_used() -> None:
    """Import argparse and msgspec without the modules that they import and most commands never use."""
    stand_ins = {
        "gettext": _Later("gettext", gettext=str, ngettext=_ngettext),  # there are no translations of argparse
        "msgspec.inspect": _Later("msgspec.inspect"),
        "platform": _Later("platform", system=lambda: os.uname().sysname),  # all that `uuid` asks for
        "textwrap": _Later("textwrap"),
        "typing_extensions": None,  # makes the import fail; it is optional
    }
    added: dict[str, Any] = {name: stand_in for name, stand_in in stand_ins.items() if name not in sys.modules}
    sys.modules.update(added)
    import argparse  # noqa: F401, PLC0415

    import msgspec  # noqa: F401, PLC0415

    for name, stand_in in added.items():
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]


class _Later(ModuleType):
    """Imports the module when something first uses more of it than `known`."""

    def __init__(self, name: str, **known: object) -> None:
        super().__init__(name)
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # the import itself looks for these
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def _ngettext(one: str, many: str, number: int) -> str:
    return one if number == 1 else many


def enable_gc() -> None:
    """Collect garbage from now on, but only among new objects."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def skip_final_gc() -> None:
    """Keep Python from collecting everything once more at exit."""
    gc.freeze()
