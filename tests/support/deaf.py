"""`octostore` whose claims are slow and swallow every exception, as C code that calls Python may."""

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from octostore.cli.main import main
from octostore.client import hold

_claim_to_hold = vars(hold)["claim_to_hold"]


def claim_to_hold(*arguments: Any) -> Any:
    with suppress(BaseException):
        Path("asking").touch()
        time.sleep(600)
    return _claim_to_hold(*arguments)


vars(hold)["claim_to_hold"] = claim_to_hold

sys.exit(main())
