"""Documents that callers chose (payload, checkpoint, metadata, result, context), as replies carry them.

They stay as they were written, so that the core and a server only pass them on, and are decoded when a program asks.
"""

from typing import Any

import msgspec

NO_DOCUMENT = msgspec.Raw(b"null")
_decode = msgspec.json.Decoder().decode


def written(document: bytes | None) -> msgspec.Raw:
    return NO_DOCUMENT if document is None else msgspec.Raw(document)


def raw(name: str) -> Any:
    """The field of a reply for a document that is called `name`, here and as JSON."""
    return msgspec.field(name=name, default_factory=lambda: NO_DOCUMENT)


class Decoded:
    """The value of a document whose text is in the field `raw_` with the same name; always the same object."""

    def __set_name__(self, _owner: object, name: str) -> None:
        self._name = name

    def __get__(self, reply: Any, _owner: object = None) -> Any:
        if reply is None:
            return self
        value = reply.__dict__[self._name] = _decode(getattr(reply, f"raw_{self._name}"))
        return value
