"""Hooks for schemathesis, whose command line loads this module. See tests/server/test_openapi.py."""

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
    """A new token for each call, because a rotated token cannot be used again."""

    def get(self, case: Case, context: schemathesis.AuthContext) -> str:
        headers = {"Authorization": f"Bearer {super().get(case, context)}"}
        response = requests.post(
            f"{os.environ['TARGET']}/tokens", json={"name": "rotating"}, headers=headers, timeout=10
        )
        token: str = response.json()["token"]
        return token


@schemathesis.hook
def after_load_schema(_context: schemathesis.HookContext, schema: schemathesis.BaseSchema) -> None:
    schema.validate()  # which it does by itself only after other errors


@schemathesis.hook
def before_call(_context: schemathesis.HookContext, case: Case, _options: dict[str, Any]) -> None:
    if case.path.startswith("/ui/"):
        case.headers["Origin"] = os.environ["TARGET"]  # required by /ui/
    if isinstance(case.body, dict) and _is_within(case.body.get("wait_seconds"), WAIT_MAX_SECONDS):
        case.body["wait_seconds"] = 0.001  # up to a minute is allowed, and tested elsewhere
    if isinstance(case.body, dict) and _is_within(case.body.get("fencing_token"), JSON_INTEGER_MAX):
        case.body["fencing_token"] = 1  # a higher one than the store's is a 503 on purpose


def _is_within(value: object, limit: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= limit


@schemathesis.hook
def filter_failure(
    _context: schemathesis.HookContext, failure: Failure, case: Case, _response: schemathesis.Response
) -> bool:
    """Accept refusals of input that the schema allows because it cannot express the limit.

    A schema counts characters, not bytes, allows any letters, and cannot distinguish 1e300 from an integer with 300
    digits. It makes up cursors, and asks for heartbeats without a stream. All other checks apply.
    """
    names = [unquote(str(name)) for name in case.path_parameters.values()]  # already encoded
    if not isinstance(failure, RejectedPositiveData):
        return True
    return {"cursor", "heartbeats"}.isdisjoint(case.query) and _is_within_limits(
        [names, case.query, case.headers, case.body]
    )


def _is_within_limits(value: Any) -> bool:
    if isinstance(value, str):
        return value.isascii()
    if isinstance(value, Mapping):
        return all(_is_within_limits(item) for pair in value.items() for item in pair)
    if isinstance(value, list):
        return all(_is_within_limits(item) for item in value)
    return not isinstance(value, int | float) or abs(value) <= JSON_INTEGER_MAX
