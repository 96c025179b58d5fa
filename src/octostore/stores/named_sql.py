"""SQL lives in files: each statement has a name, a line that says what it is for, and may use others by `{name}`."""

import re
from pathlib import Path

COLUMNS = Path(__file__).with_name("columns.sql")
_HEADING = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)


def load_queries(path: Path, **names: str) -> dict[str, str]:
    """The statements of a file, by name. `names` may be used in them, too, and those of columns."""
    queries = dict(names)
    for file in (COLUMNS, path):
        _read(file, queries)
    return queries


def _read(path: Path, queries: dict[str, str]) -> None:
    _, *parts = _HEADING.split(path.read_text(encoding="utf-8"))
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        queries[name] = _COMMENT.sub("", body).strip().format_map(queries)
