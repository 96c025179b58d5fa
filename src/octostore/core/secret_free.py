"""Keep secrets out of `repr`: people print and log what they get."""

from typing import Any, ClassVar

_SECRETS = {"lease_id", "giver_lease_id", "session_lease_id", "lock_token", "request_id", "holder"}
_SECRETS |= {"digest", "digests", "token", "key", "code", "link"}


class SecretFree:
    """A `repr` without secrets, and without empty fields."""

    __slots__ = ()
    __struct_encode_fields__: ClassVar[tuple[str, ...]]

    def __repr__(self) -> str:
        fields = ((name, getattr(self, name)) for name in self.__struct_encode_fields__)
        shown = (f"{name}={'***' if name in _SECRETS else repr(value)}" for name, value in fields if _speaks(value))
        return f"{type(self).__name__}({', '.join(shown)})"


def _speaks(value: Any) -> bool:
    return value is not None and value != []
