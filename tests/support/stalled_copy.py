"""The command line on a disk that never finishes syncing a copy."""

import signal
import sys

from octostore.cli.main import main
from octostore.stores.sqlite import copying


def _stall(path: str) -> None:
    sys.stdout.write(f"{path}\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    copying._sync = _stall
    sys.exit(main(sys.argv[1:]))
