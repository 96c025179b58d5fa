"""A document of the wrong shape gets an error that a person can act on, and that names the field."""

from typing import Any

import msgspec
import pytest

from octostore.wire.bodies import Body
from octostore.wire.endpoints import BY_OPERATION
from octostore.wire.shapes import shape_problem


def message_for(operation: str, document: Any) -> str:
    body = BY_OPERATION[operation].body
    assert body is not None
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(document, body)
    return str(shape_problem(caught.value, body))


@pytest.mark.parametrize(
    ("operation", "document", "message"),
    [
        ("claim_job", {"ttl_seconds": "5"}, "ttl_seconds must be a number, not text"),
        ("claim_job", {"owner": 5}, "owner must be text or null, not a whole number"),
        ("claim_job", {"owner": [5]}, "owner must be text or null, not a list"),
        ("claim_job", [], "body must be an object, not a list"),
        ("claim_job", {"ttl": 5}, "ttl is not a field of this call; did you mean ttl_seconds?"),
        ("claim_job", {"ownr": 5}, "ownr is not a field of this call; did you mean owner?"),
        ("claim_job", {"a`b": 5}, "a`b is not a field of this call"),
        ("heartbeat_job", {}, "lease_id is required"),
        ("heartbeat_job", {"lease_id": "x", "progress": {"nota": 1}}, "progress.nota is not a field of this call"),
        ("enqueue", {"kind": "k", "priority": 1.5}, "priority must be a whole number, not a decimal number"),
        ("enqueue", {"kind": "k", "run_at": "tomorrow"}, "run_at must be a time like 2026-11-16T06:00:00Z"),
        ("enqueue", {"kind": "k", "run_at": 5}, "run_at must be a time or null, not a whole number"),
        ("claim_job", {"again": "yes"}, "again must be true or false, not text"),
        (
            "release_job",
            {"lease_id": "x", "outcome": "great"},
            "outcome is 'great'; it must be one of released, done, failed, deferred",
        ),
        (
            "create_token",
            {"name": "n", "scopes": ["write"]},
            "scopes[0] is 'write'; it must be one of read, claim, admin",
        ),
    ],
)
def test_errors_are_in_plain_english(operation: str, document: Any, message: str) -> None:
    assert message_for(operation, document) == message


def test_a_long_name_is_shortened() -> None:
    assert len(message_for("claim_job", {"x" * 10_000: 1})) < 300


def test_an_unknown_error_is_passed_on() -> None:
    problem = shape_problem(msgspec.ValidationError("Something new - at `$.ttl`"), Body)
    assert (problem.field, str(problem)) == ("ttl", "ttl is wrong: something new")
