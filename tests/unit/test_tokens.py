"""Tokens: what the caller who knows a secret may do. The store knows only the digest of the secret."""

from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest

from octostore.core.commands import CreateToken, RevokeToken, RotateToken
from octostore.core.errors import Conflict, InvalidInput, NotFound
from octostore.core.events import decode_details
from octostore.core.questions import FindToken, ListTokens
from octostore.core.replies import TokenView
from tests.support.world import START_MS, World


def digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def create(world: World, token_id: str = "t1", **terms: Any) -> TokenView:
    return world.do(CreateToken(**{"token_id": token_id, "name": "ann", "digest": digest(token_id), **terms}))


def find(world: World, secret: str) -> TokenView:
    return world.ask(FindToken(digest=digest(secret)))


def test_a_token_is_found_by_its_secret(world: World) -> None:
    made = create(world, scopes=("read", "admin"), prefix="team/", expires_in=60, principal="root")
    assert (made.token_id, made.name, made.scopes, made.prefix) == ("t1", "ann", ["read", "admin"], "team/")
    assert made.expires_at == made.created_at + timedelta(seconds=60)
    assert made.revoked_at is None
    assert find(world, "t1") == made
    with pytest.raises(NotFound):
        find(world, "t2")
    (entry,) = world.log()
    assert (entry.type, entry.actor) == ("token_created", "root")


def test_by_default_a_token_claims_and_reads_everything_forever(world: World) -> None:
    made = create(world)
    assert (made.scopes, made.prefix, made.expires_at) == (["read", "claim"], "", None)


def test_creating_the_same_token_again_changes_nothing(world: World) -> None:
    made = create(world, expires_in=60)
    world.advance(10)
    assert create(world, expires_in=60) == made
    assert world.event_types() == ["token_created"]
    world.do(RevokeToken(token_id="t1"))
    assert create(world).revoked_at is not None, "it stays revoked"


def test_a_token_id_is_unique(world: World) -> None:
    create(world)
    with pytest.raises(Conflict):
        create(world, digest=digest("other"))
    assert world.event_types() == ["token_created"]
    with pytest.raises(NotFound):
        find(world, "other")


def test_a_secret_is_unique(world: World) -> None:
    create(world, "t1")
    create(world, "t2")
    with pytest.raises(Conflict):
        create(world, "t3", digest=digest("t1"))
    with pytest.raises(Conflict):
        world.do(RotateToken(token_id="t2", digest=digest("t1")))
    assert world.event_types() == ["token_created", "token_created"]
    assert find(world, "t1").token_id == "t1"
    assert find(world, "t2").token_id == "t2"


def test_a_secret_is_unique_within_a_batch_too(world: World) -> None:
    replies = world.batch(
        [
            CreateToken(token_id="t1", name="ann", digest=digest("one")),
            CreateToken(token_id="t2", name="bob", digest=digest("one")),
            RotateToken(token_id="t1", digest=digest("two")),
            CreateToken(token_id="t2", name="bob", digest=digest("one")),
        ]
    )
    assert [type(reply) for reply in replies] == [TokenView, Conflict, TokenView, TokenView]
    assert (find(world, "one").token_id, find(world, "two").token_id) == ("t2", "t1")


def test_the_secret_of_a_revoked_token_cannot_be_used_again(world: World) -> None:
    create(world)
    world.do(RevokeToken(token_id="t1"))
    with pytest.raises(Conflict):
        create(world, "t2", digest=digest("t1"))


def test_the_newest_token_is_listed_first(world: World) -> None:
    for token_id in ("b", "a", "c"):
        create(world, token_id)
        world.advance(1)
    world.do(RevokeToken(token_id="a"))
    tokens = world.ask(ListTokens()).tokens
    assert [token.token_id for token in tokens] == ["c", "a", "b"]
    assert [token.revoked_at is not None for token in tokens] == [False, True, False]


def test_tokens_created_at_the_same_moment_are_listed_by_id(world: World) -> None:
    for token_id in ("b", "c", "a"):
        create(world, token_id)
    assert [token.token_id for token in world.ask(ListTokens()).tokens] == ["a", "b", "c"]


def test_rotating_invalidates_the_old_secret(world: World) -> None:
    made = create(world, scopes=("admin",), prefix="a", expires_in=60)
    rotated = world.do(RotateToken(token_id="t1", digest=digest("new"), principal="root"))
    assert rotated == made, "nothing else changes"
    assert find(world, "new") == made
    with pytest.raises(NotFound):
        find(world, "t1")
    entry = world.log()[-1]
    assert (entry.type, entry.actor) == ("token_rotated", "root")


@pytest.mark.parametrize("other", [{"name": "bob"}, {"scopes": ("admin",)}, {"prefix": "other/"}])
def test_the_same_id_with_other_rights_is_refused(world: World, other: dict[str, Any]) -> None:
    made = create(world, scopes=("read",), prefix="team/")
    with pytest.raises(Conflict):
        create(world, **{"scopes": ("read",), "prefix": "team/", **other})
    assert find(world, "t1") == made


@pytest.mark.parametrize("name", ["local", "octostore", "server", "ci[deploy-]"])
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="name must not"):
        CreateToken(token_id="t1", name=name, digest=digest("t1"))


def test_rotating_to_the_same_secret_again_logs_no_event(world: World) -> None:
    create(world)
    for _ in range(2):
        world.do(RotateToken(token_id="t1", digest=digest("new")))
    assert world.event_types() == ["token_created", "token_rotated"]


def test_after_a_rotation_the_creation_cannot_be_repeated(world: World) -> None:
    create(world)
    world.do(RotateToken(token_id="t1", digest=digest("new")))
    with pytest.raises(Conflict):
        create(world)


def test_revoking_ends_a_token_once(world: World) -> None:
    create(world)
    world.advance(5)
    revoked = world.do(RevokeToken(token_id="t1"))
    assert revoked.revoked_at == revoked.created_at + timedelta(seconds=5)
    world.advance(5)
    assert world.do(RevokeToken(token_id="t1")) == revoked
    assert world.event_types() == ["token_created", "token_revoked"]
    assert find(world, "t1") == revoked, "it is found, and shown as revoked"


def test_a_revoked_or_expired_token_gets_no_new_secret(world: World) -> None:
    create(world, "revoked")
    world.do(RevokeToken(token_id="revoked"))
    create(world, "expired", expires_in=10)
    world.advance(10)
    for token_id in ("revoked", "expired"):
        with pytest.raises(Conflict):
            world.do(RotateToken(token_id=token_id, digest=digest("new")))
    world.do(RevokeToken(token_id="expired"))


def test_a_token_is_valid_exactly_until_it_expires(world: World) -> None:
    create(world, expires_in=10)
    with world.backend.reading() as reading:
        (token,) = reading.find_tokens([digest("t1")])
    assert token.is_valid(START_MS + 9_999)
    assert not token.is_valid(START_MS + 10_000)


def test_an_unknown_token_is_not_found(world: World) -> None:
    for command in (RevokeToken(token_id="t"), RotateToken(token_id="t", digest=digest("new"))):
        with pytest.raises(NotFound):
            world.do(command)
    assert world.log() == []


def test_a_token_is_created_rotated_and_revoked_in_one_batch(world: World) -> None:
    replies = world.batch(
        [
            CreateToken(token_id="t1", name="ann", digest=digest("one")),
            RotateToken(token_id="t1", digest=digest("two")),
            RevokeToken(token_id="t1"),
            RotateToken(token_id="t1", digest=digest("three")),
        ]
    )
    assert [type(reply) for reply in replies] == [TokenView] * 3 + [Conflict]
    assert world.event_types() == ["token_created", "token_rotated", "token_revoked"]
    assert find(world, "two").revoked_at is not None


def test_the_log_says_which_token_and_whose(world: World) -> None:
    create(world, name="ann", prefix="team/", expires_in=60)
    world.do(RotateToken(token_id="t1", digest=digest("new")))
    world.do(RevokeToken(token_id="t1"))
    assert {(entry.job_id, entry.queue, entry.session_id) for entry in world.log()} == {(None, None, None)}
    details: list[Any] = [decode_details(entry) for entry in world.log()]
    assert {(one.token_id, one.name) for one in details} == {("t1", "ann")}
    assert (details[0].prefix, details[0].expires_at) == ("team/", START_MS + 60_000)


TEN_YEARS = 10 * 366 * 86_400
GOOD: dict[str, Any] = {"token_id": "t1", "name": "ann", "digest": b"x" * 32}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("token_id", ""),
        ("token_id", "a/b"),
        ("token_id", "a" * 65),
        ("name", ""),
        ("name", "two\nlines"),
        ("name", "é" * 129),
        ("digest", b""),
        ("digest", b"x" * 31),
        ("digest", b"x" * 33),
        ("digest", "x" * 32),
        ("scopes", ()),
        ("scopes", ("read", "read")),
        ("scopes", ("read", "write")),
        ("prefix", "a b"),
        ("prefix", "a" * 257),
        ("expires_in", 0.999),
        ("expires_in", TEN_YEARS + 1),
        ("expires_in", True),
    ],
)
def test_bad_input_names_the_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        CreateToken(**{**GOOD, field: value})
    assert caught.value.field == field


@pytest.mark.parametrize(
    "terms",
    [
        {"scopes": ("read",)},
        {"scopes": ("admin", "claim", "read")},
        {"prefix": "team/service/"},
        {"name": "é" * 128},
        {"expires_in": 1},
        {"expires_in": TEN_YEARS},
    ],
)
def test_values_at_the_limits_are_accepted(terms: dict[str, Any]) -> None:
    CreateToken(**{**GOOD, **terms})


@pytest.mark.parametrize("digest", [b"x" * 31, "x" * 32])
def test_a_new_digest_is_checked_like_the_first(digest: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        RotateToken(token_id="t1", digest=digest)
    assert caught.value.field == "digest"


@pytest.mark.parametrize("command", [RevokeToken, lambda **terms: RotateToken(**terms, digest=b"x" * 32)])
def test_the_id_is_checked_everywhere(command: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        command(token_id="a/b")
    assert caught.value.field == "token_id"
