"""The formats of the server's log: text lines for people, or JSON lines."""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Literal, TypeAlias, get_args

from octostore.core.visible import visible, visible_json
from octostore.wire.tokens import TOKEN_IN_TEXT

LogFormat: TypeAlias = Literal["text", "json"]
LOG_FORMATS = get_args(LogFormat)
OURS = ("octostore", "asyncio")
_PLAIN = re.compile(r"[\w.:/@%+*?&~(){}\[\]<>-]+", re.ASCII)


def log_to_stderr(log_format: LogFormat) -> None:
    """Set up logging for a server process. The root logger stays as it is."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    for name in OURS:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name == "octostore" else logging.WARNING)


class TextLines(logging.Formatter):
    """`2026-07-01T10:00:00.000Z WARNING token_refused: a token was refused, reason=unknown address=198.51.100.7`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={_shown(value)}" for name, value in _fields(record).items())
        message = visible(record.getMessage()) + (f", {fields}" if fields else "")
        line = f"{_time(record)} {record.levelname} {_event(record)}: {message}"
        return _without_tokens("\n".join([line, *map(visible, self._traceback(record).splitlines())]))

    def _traceback(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info else ""


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "event": _event(record),
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return _without_tokens(visible_json(json.dumps(document, ensure_ascii=False, default=str)))


def _without_tokens(line: str) -> str:
    """Clients send tokens where they do not belong, like in a path."""
    return TOKEN_IN_TEXT.sub("octo_***", line)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1_000:03}Z"


def _event(record: logging.LogRecord) -> str:
    """Records from elsewhere have no event; use the last part of the logger's name."""
    return str(getattr(record, "event", record.name.rpartition(".")[2]))


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = getattr(record, "fields", {})
    return fields


def _shown(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else visible_json(json.dumps(text, ensure_ascii=False))
