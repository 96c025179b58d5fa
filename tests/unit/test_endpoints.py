"""The server gets exactly what the library sends: every command and question, with any content."""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.core import commands as c
from octostore.core import questions as q
from octostore.core.commands import AnyCommand, Batch, Command
from octostore.core.decide.rules import RULES
from octostore.core.encoding import decode_strictly
from octostore.core.limits import RUN_AT_MAX_MS
from octostore.wire.batches import can_be_batched, decode_command, encode_batch, find_endpoint
from octostore.wire.bodies import split_lists
from octostore.wire.endpoints import BY_KIND, ENDPOINTS
from octostore.wire.errors import ERRORS
from octostore.wire.failures import error_from_failure, failure_from_error
from tests.support.commands import any_command

KINDS = {
    kind for name, kind in vars(c).items() if isinstance(kind, type) and issubclass(kind, Command) and name[0] != "_"
}
KINDS -= {Command, c.ClaimTerms, c.LeaseCommand, c.MatchingCommand}

OF_SERVER = {
    "principal": "local",
    "until": None,
    "permit": None,
    "max_claims": None,
    "max_sessions": None,
    "max_queued": None,
    "prefix": "",
    "as_operator": False,
    "without_lease": False,
}
"""What only a server sets, from the token and its settings."""


def as_sent(command: Any) -> Any:
    """Return `command` without what does not go over the wire."""
    absent: dict[str, Any] = {name: value for name, value in OF_SERVER.items() if name in command.__struct_fields__}
    if isinstance(command, c.CreateToken | c.MatchingCommand):
        absent.pop("prefix")
    if isinstance(command, c.ClaimTask):
        absent["lock_delay"] = 0  # the session's claims have none
    return msgspec.structs.replace(command, **absent)


@given(any_command().filter(lambda command: type(command) in BY_KIND))
def test_a_command_arrives_as_it_was_sent(command: AnyCommand) -> None:
    sent = as_sent(command)
    endpoint = BY_KIND[type(sent)]
    body = endpoint.body_for(sent)
    params = {name: getattr(sent, name) for name in endpoint.params}
    values: dict[str, Any] = {}
    if body is not None:
        document = decode_strictly("body", msgspec.json.encode(body))
        values = msgspec.convert(document, endpoint.body).values()
    assert endpoint.message_type(**{**values, **params}) == sent


@given(st.lists(any_command().filter(lambda command: type(command) in BY_KIND), min_size=1, max_size=5))
def test_the_commands_of_a_batch_arrive_as_they_were_sent(commands: list[AnyCommand]) -> None:
    sent = [as_sent(command) for command in commands if can_be_batched(BY_KIND[type(command)])]
    documents = decode_strictly("body", encode_batch(Batch(sent)))["commands"]
    arrived = []
    for document in documents:
        endpoint = find_endpoint(document)
        params, body = decode_command(document, endpoint)
        arrived.append(endpoint.message_type(**{**body.values(), **params}))
    assert arrived == sent


QUESTIONS = st.one_of(
    st.builds(
        q.ListJobs,
        prefix=st.sampled_from([None, "a", "d/"]),
        status=st.sampled_from([None, "claimed"]),
        queue=st.sampled_from([None, "default"]),
        limit=st.integers(1, 1_000),
        cursor=st.sampled_from([None, "d/e", "d#e+f"]),
        owner=st.sampled_from([None, "agent 3 & co"]),
        kind=st.sampled_from([None, "build"]),
    ),
    st.builds(
        q.ListEvents,
        after=st.integers(0, 2**62),
        job_id=st.sampled_from([None, "d/e", "d#e+f"]),
        prefix=st.sampled_from([None, "a"]),
        session_id=st.sampled_from([None, "s"]),
        limit=st.integers(1, 1_000),
        since=st.none() | st.integers(0, RUN_AT_MAX_MS),
        types=st.sampled_from([None, ("expired",), ("claimed", "done")]),
    ),
    st.builds(
        q.ListClaims,
        window=st.integers(1, 604_800) | st.floats(1, 604_800),
        prefix=st.sampled_from([None, "a#+"]),
        queue=st.sampled_from([None, "default"]),
        owner=st.sampled_from([None, "agent 3 & co"]),
        status=st.sampled_from([None, "claimed"]),
        lost=st.booleans(),
        limit=st.integers(1, 200),
    ),
    st.builds(q.ListSessions, status=st.sampled_from([None, "open"]), cursor=st.sampled_from([None, "s"])),
)


@given(QUESTIONS)
def test_a_question_arrives_as_it_was_asked(question: Any) -> None:
    endpoint = BY_KIND[type(question)]
    assert endpoint.query is not None
    texts = split_lists(dict(parse_qsl(urlsplit(endpoint.target_for(question)).query)), endpoint.query)
    assert type(question)(**msgspec.convert(texts, endpoint.query, strict=False).values()) == question


def test_a_name_with_a_slash_is_one_segment() -> None:
    claim = c.ClaimJob(job_id="d/e", owner="ann")
    assert BY_KIND[c.ClaimJob].target_for(claim) == "/jobs/d%2Fe/claim"


def test_reserved_characters_in_urls_are_percent_encoded() -> None:
    claim = c.ClaimJob(job_id="a#:@+=b", owner="ann")
    assert BY_KIND[c.ClaimJob].target_for(claim) == "/jobs/a%23%3A%40%2B%3Db/claim"
    assert BY_KIND[q.ListJobs].target_for(q.ListJobs(prefix="a#+")) == "/jobs?prefix=a%23%2B"


def test_operations_and_routes_are_unique() -> None:
    assert len({endpoint.operation for endpoint in ENDPOINTS}) == len(ENDPOINTS)
    assert len({(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}) == len(ENDPOINTS)


def test_every_command_but_the_servers_own_has_an_endpoint() -> None:
    assert {kind for kind in KINDS if kind not in {endpoint.message_type for endpoint in ENDPOINTS}} == {c.RotateToken}


def test_every_command_has_a_rule() -> None:
    assert set(RULES) == KINDS


@pytest.mark.parametrize("code", [code for code, kind in ERRORS.items() if code == kind.raises.code and code != "done"])
def test_an_error_survives_the_wire(code: str) -> None:
    kind = ERRORS[code]
    values: dict[str, Any] = {"field": "ttl", "reason": "busy", "limit": 7, "size": 9, "owner": "ann", "status": "dead"}
    error = kind.raises.__new__(kind.raises)
    error.args = ("what happened",)
    error.__dict__.update({name: values.get(name) for name in kind.carries})
    failure = msgspec.json.decode(msgspec.json.encode(failure_from_error(error)), type=type(failure_from_error(error)))
    other = error_from_failure(failure)
    assert (type(other), other.args, vars(other)) == (type(error), error.args, vars(error))
