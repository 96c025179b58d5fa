"""Compare a reply, or an event of the log, with the model's.

The model numbers leases; the real system generates random ones. The first reply that contains a lease pairs the two.
After that, they are compared exactly.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from octostore.core.errors import OctoStoreError
from octostore.core.events import LogEntry, decode_details
from tests.model.state import Event, Fields, Reply

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN = {type(None), bool, int, float, str, bytes}
Pair: TypeAlias = tuple[Any, Any]
"""What the model says and what the real system says, as plain values."""


class View:
    """How exactly fields are compared."""

    def sorted(self, _name: str, values: Any) -> Any:
        return values

    def pair(self, _name: str, pair: Pair) -> Pair:
        return pair


class Leases:
    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.secrets: dict[str, str] = {}

    def name_of(self, secret: str) -> str:
        """The model's name for a lease."""
        return self.names.get(secret, f"never issued: {secret}")

    def secret_of(self, name: str) -> str | None:
        return self.secrets.get(name)

    def learn(self, name: str, secret: str) -> None:
        if name not in self.secrets and secret not in self.names:
            self.names[secret], self.secrets[name] = name, secret

    def pair(self, name: str | None, secret: str | None) -> Pair:
        if name is None or secret is None:
            return name, secret
        self.learn(name, secret)
        return name, self.name_of(secret)


def compare_reply(expected: Reply, reply: Any, leases: Leases, view: View) -> None:
    fields = vars(reply) if isinstance(reply, OctoStoreError) else reply
    assert expected.kind == type(reply).__name__, f"the model says {expected}, and the real system {reply!r}"
    one, other = alike(expected.fields, fields, leases, view)
    assert one == other, differences(one, other)


def differences(expected: Any, actual: Any) -> str:
    if isinstance(expected, dict) and isinstance(actual, dict):
        names = [name for name in {**expected, **actual} if expected.get(name) != actual.get(name)]
        expected, actual = {name: expected.get(name) for name in names}, {name: actual.get(name) for name in names}
    return f"the model says {expected}, and the real system {actual}"


def compare_event(event: Event, entry: LogEntry, view: View) -> None:
    expected, actual = event_pair(event, entry, view)
    assert expected == actual, differences(expected, actual)


def event_pair(event: Event, entry: LogEntry, view: View) -> Pair:
    names = ("seq", "at", "type", "actor", "job_id", "queue", "session_id")
    heads = {name: view.pair(name, (getattr(event, name), getattr(entry, name))) for name in names}
    if event.type != entry.type:
        return event, entry
    details = alike(event.details, decode_details(entry), Leases(), view)
    return (
        {**{name: expected for name, (expected, _) in heads.items()}, "details": details[0]},
        {**{name: actual for name, (_, actual) in heads.items()}, "details": details[1]},
    )


def alike(expected: Any, actual: Any, leases: Leases, view: View) -> Pair:
    """Convert both to plain values. Fields that the model leaves out have their defaults."""
    if isinstance(actual, msgspec.Struct):
        actual, expected = fields_of(actual), with_defaults(expected, type(actual))
    if isinstance(expected, dict) and isinstance(actual, dict):
        if expected.keys() != actual.keys():
            return expected, actual
        pairs = {name: field_pair(name, expected[name], actual[name], leases, view) for name in actual}
        return {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple) and len(expected) == len(actual):
        both = [alike(one, other, leases, view) for one, other in zip(expected, actual, strict=True)]
        return [pair[0] for pair in both], [pair[1] for pair in both]
    return expected, plain(actual)


def field_pair(name: str, expected: Any, actual: Any, leases: Leases, view: View) -> Pair:
    if name == "lease_id":
        return leases.pair(expected, actual)
    if name == "store_id":
        return None, None  # random for each store
    if actual.__class__ in _PLAIN:
        return view.pair(name, (expected, actual))  # a shortcut: most fields are plain, and there are many
    return view.pair(name, alike(view.sorted(name, expected), view.sorted(name, actual), leases, view))


def fields_of(struct: msgspec.Struct) -> Fields:
    """Use the public names of documents, not those of the attributes with their encoded text."""
    names = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    return {public: getattr(struct, name) for name, public in names}


def with_defaults(expected: Any, kind: type[msgspec.Struct]) -> Any:
    return {**defaults_of(kind), **expected} if isinstance(expected, dict) else expected


@lru_cache
def defaults_of(kind: type[msgspec.Struct]) -> Fields:
    fields = msgspec.structs.fields(kind)
    made = [field for field in fields if field.default_factory is not msgspec.NODEFAULT]
    given = [field for field in fields if field.default is not msgspec.NODEFAULT]
    return {
        **{field.encode_name: plain(field.default) for field in given},
        **{field.encode_name: plain(field.default_factory()) for field in made},
    }


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(milliseconds=1)
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if isinstance(value, msgspec.Struct):
        return {name: plain(field) for name, field in fields_of(value).items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value
