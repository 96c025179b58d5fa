"""SQL lives in files: each statement has a name, a line that says what it is for, and may use others by `{name}`."""

import re
from importlib.resources import files

_HEADING = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)


def load_queries(package: str, filename: str) -> dict[str, str]:
    """The statements of a file, by name."""
    text = files(package).joinpath(filename).read_text(encoding="utf-8")
    _, *parts = _HEADING.split(text)
    queries: dict[str, str] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        queries[name] = _COMMENT.sub("", body).strip().format_map(queries)
    return queries
