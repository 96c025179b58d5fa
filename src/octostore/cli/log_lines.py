"""What the library logs, as people see it who have set up no logging: on stderr, with nothing hidden in it."""

import logging
from typing import Any

from octostore.core.visible import visible


class LogLines(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # as logging calls it
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return "\n".join(map(visible, super().formatException(ei).splitlines()))


def show_what_hides() -> None:
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(LogLines())
