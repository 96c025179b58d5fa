import psycopg
import pytest

from octostore.stores.postgres.pipeline import array
from tests.support.postgres import postgres_url


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (
            "text",
            ["", " ", "NULL", "null", None, "plain", 'say "yes"', "back\\slash", "\\", '\\"', "{1,2}", "a,b", "'"],
        ),
        ("text", ["two\nlines", "tab\t", "häß", "漢字", "\U0001f419", "\x7f", "%s", "$1"]),
        ("bytea", [b"", b"\x00\xff", b'{"json":"\\\\"}', None, "漢".encode()]),
        ("bigint", [0, -1, 2**63 - 1, -(2**63), None]),
        ("boolean", [True, False, None]),
        ("text", [None, None]),
        ("text", ["plain", "more", None]),
        ("bytea", [b"", b"\x00\xff", b'{"json":"\\\\"}']),
        ("bigint", [1, 2]),
        ("text", []),
    ],
)
def test_an_array_is_read_as_it_was_written(kind: str, values: list[str | bytes | int | None]) -> None:
    with psycopg.connect(postgres_url()) as connection:
        query = f"SELECT ordinality, value FROM unnest(%s::{kind}[]) WITH ORDINALITY AS t(value, ordinality)"
        rows = connection.execute(query.encode(), (array(values).decode(),)).fetchall()
    assert rows == list(enumerate(values, 1))
