"""The library's log on stderr, if no logging is set up, with control characters escaped."""

import logging
from typing import Any

from octostore.core.visible import visible


class EscapedFormatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the name is logging's
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return "\n".join(map(visible, super().formatException(ei).splitlines()))


def escape_log_lines() -> None:
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(EscapedFormatter())
