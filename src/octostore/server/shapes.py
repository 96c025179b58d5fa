"""Errors about the shape of a request: msgspec's message, with the name of the field first."""

import msgspec

from octostore.core.encoding import shorten
from octostore.core.errors import InvalidInput
from octostore.server.refusals import Refusal, wrong_shape

SHOWN_BYTES = 200


def shape_error(error: msgspec.ValidationError) -> Refusal:
    return wrong_shape(InvalidInput(*locate_problem("body", error)))


def locate_problem(where: str, error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the field and the problem, shortened because it may quote the request."""
    problem, _, path = str(error).partition(" - at `$")
    field = path.rstrip("`").lstrip(".") or where
    return field, f"is wrong: {shorten(problem[:1].lower() + problem[1:], SHOWN_BYTES)}"
