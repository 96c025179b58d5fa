"""What is wrong with the shape of what was sent, in msgspec's words with the name of the field first."""

import msgspec

from octostore.core.encoding import shorten
from octostore.core.errors import InvalidInput
from octostore.server.refusals import Refusal, wrong_shape

SHOWN_BYTES = 200


def shape_error(error: msgspec.ValidationError) -> Refusal:
    return wrong_shape(InvalidInput(*locate_problem("body", error)))


def locate_problem(where: str, error: msgspec.ValidationError) -> tuple[str, str]:
    """The field, and the problem, which quotes what was sent and may be long."""
    problem, _, path = str(error).partition(" - at `$")
    field = path.rstrip("`").lstrip(".") or where
    return field, f"is wrong: {shorten(problem[:1].lower() + problem[1:], SHOWN_BYTES)}"
