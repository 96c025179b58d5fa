"""The PostgreSQL store's statements, for tables in a given schema."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec

from octostore.core.events import LogEntry
from octostore.core.model import Claim, EndedRequest, Job, Progress, Queue, Session, Token
from octostore.stores.named_sql import load_queries

MODELS = (Job, Claim, Session, EndedRequest, Token, LogEntry, Queue)
SQL_TYPES: dict[type, str] = {bool: "boolean", int: "bigint", bytes: "bytea", Progress: "bytea"}


def load_sql(schema: str) -> dict[str, str]:
    types = _column_types()

    def values(columns: Sequence[str]) -> str:
        arrays = ", ".join(f"%s::{types[column]}[]" for column in columns)
        return f"SELECT * FROM unnest({arrays})"  # noqa: S608  # from the model

    return dict(load_queries(str(Path(__file__).with_name("queries.sql")), values, schema=schema))


def _column_types() -> dict[str, str]:
    """Derived from the model's fields. Fields with the same name have the same type."""
    fields = [field for model in MODELS for field in msgspec.structs.fields(model)]
    return {field.name: _sql_type(field.type) for field in fields} | {
        "body": "bytea",
        "data": "bytea",
        "queued": "bigint",
    }


def _sql_type(python_type: Any) -> str:
    some = [part for part in get_args(python_type) or (python_type,) if part is not type(None)]
    # Literals are text, and tuples of them are stored as one text.
    return next((name for known, name in SQL_TYPES.items() if known in some), "text")
