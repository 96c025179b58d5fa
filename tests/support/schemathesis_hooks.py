"""What schemathesis has to be told about us; its command line reads this module. See tests/server/test_openapi.py."""

import os
from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

import requests
import schemathesis
from schemathesis.core.failures import Failure
from schemathesis.openapi.checks import RejectedPositiveData

from octostore.core.limits import JSON_INTEGER_MAX
from octostore.wire.fields import WAIT_MAX_SECONDS

Case: TypeAlias = schemathesis.Case[Any]
ROTATE = "/auth/token/rotate"


@schemathesis.auth().skip_for(path=ROTATE)
class Admin(schemathesis.AuthProvider[str]):
    def get(self, _case: Case, _context: schemathesis.AuthContext) -> str:
        return os.environ["TOKEN"]

    def set(self, case: Case, data: str, _context: schemathesis.AuthContext) -> None:
        case.headers["Authorization"] = f"Bearer {data}"


@schemathesis.auth(refresh_interval=None).apply_to(path=ROTATE)
class Rotating(Admin):
    """Whoever rotates a token cannot use it again."""

    def get(self, case: Case, context: schemathesis.AuthContext) -> str:
        headers = {"Authorization": f"Bearer {super().get(case, context)}"}
        answer = requests.post(f"{os.environ['TARGET']}/tokens", json={"name": "rotating"}, headers=headers, timeout=10)
        token: str = answer.json()["token"]
        return token


@schemathesis.hook
def before_call(_context: schemathesis.HookContext, case: Case, _options: dict[str, Any]) -> None:
    if case.path.startswith("/ui/"):
        case.headers["Origin"] = os.environ["TARGET"]  # or it would get no further
    if isinstance(case.body, dict) and _is_within(case.body.get("wait_seconds"), WAIT_MAX_SECONDS):
        case.body["wait_seconds"] = 0.001  # a minute is allowed, and has tests of its own
    if isinstance(case.body, dict) and _is_within(case.body.get("fencing_token"), JSON_INTEGER_MAX):
        case.body["fencing_token"] = 1  # none is as high as any other, and that is a 503 on purpose


def _is_within(value: object, limit: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= limit


@schemathesis.hook
def filter_failure(
    _context: schemathesis.HookContext, failure: Failure, case: Case, _response: schemathesis.Response
) -> bool:
    """A schema counts characters and not bytes, knows no letters beyond ASCII, and cannot tell 1e300 from a whole
    number with 300 digits; no page has given it the cursor that it made up; and it does not ask for the stream on which
    alone heartbeats come. So some of what it allows is refused. All other checks are made for these, too.
    """
    names = [unquote(str(name)) for name in case.path_parameters.values()]  # they are already encoded
    if not isinstance(failure, RejectedPositiveData):
        return True
    return {"cursor", "heartbeats"}.isdisjoint(case.query) and _can_be_told(
        [names, case.query, case.headers, case.body]
    )


def _can_be_told(value: Any) -> bool:
    if isinstance(value, str):
        return value.isascii()
    if isinstance(value, Mapping):
        return all(_can_be_told(item) for pair in value.items() for item in pair)
    if isinstance(value, list):
        return all(_can_be_told(item) for item in value)
    return not isinstance(value, int | float) or abs(value) <= JSON_INTEGER_MAX
