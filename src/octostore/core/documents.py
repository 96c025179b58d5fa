"""Documents that callers chose (payload, checkpoint, metadata, result, context), as replies carry them.

They stay encoded, so that the core and the server only pass them on; a program decodes them when it reads them.
"""

from typing import Any

import msgspec

NO_DOCUMENT = msgspec.Raw(b"null")
_decode = msgspec.json.Decoder().decode


def written(document: bytes | None) -> msgspec.Raw:
    return NO_DOCUMENT if document is None else msgspec.Raw(document)


def raw(name: str) -> Any:
    """The reply field for a document called `name`, here and in JSON."""
    return msgspec.field(name=name, default_factory=lambda: NO_DOCUMENT)


class Decoded:
    """The value of the document whose text is in the field `raw_NAME`; always the same object."""

    def __set_name__(self, _owner: object, name: str) -> None:
        self._name = name

    def __get__(self, reply: Any, _owner: object = None) -> Any:
        if reply is None:
            return self
        value = reply.__dict__[self._name] = _decode(getattr(reply, f"raw_{self._name}"))
        return value
