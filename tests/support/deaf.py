"""`octostore` that takes long to claim, and meanwhile loses whatever is raised: as C code may that calls Python's."""

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from octostore.cli.main import main
from octostore.client import store

_ask_for = vars(store)["ask_for"]


def ask_for(*arguments: Any) -> Any:
    with suppress(BaseException):
        Path("asking").touch()
        time.sleep(600)
    return _ask_for(*arguments)


vars(store)["ask_for"] = ask_for

sys.exit(main())
