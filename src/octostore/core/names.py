"""What a name may be.

A name is `/`-separated components of letters, digits and a few signs; job names may use more signs than others. Two
names that look the same must be the same name, or two workers would own one job: hence only NFC, and no combining
marks.
"""

import re
import unicodedata

from octostore.core.errors import InvalidInput
from octostore.core.limits import JOB_ID_BYTES, NAME_COMPONENT_BYTES, check_size, encode_utf8

SIGNS = "-_."
"""Besides letters and digits, the characters allowed in the name of a queue, kind, session or lock."""
JOB_SIGNS = SIGNS + "#:@+="
"""The same for the name of a job."""
_is_plain_job_id = re.compile(r"[A-Za-z0-9_#:@+=-][A-Za-z0-9_.#:@+=-]{0,63}").fullmatch
"""The usual case: one component of ASCII that is not `.` or `..`."""
_is_free_of_job_signs = frozenset("#:@+=").isdisjoint


def _is_plain(name: str) -> bool:
    return _is_plain_job_id(name) is not None and _is_free_of_job_signs(name)


def check_job_id(field: str, job_id: str) -> None:
    if not isinstance(job_id, str) or not _is_plain_job_id(job_id):
        _check_path(field, job_id, JOB_SIGNS)


def check_lock_name(field: str, name: str) -> None:
    """The name of a job used as a lock: lock clients allow fewer signs."""
    if not isinstance(name, str) or not _is_plain(name):
        _check_path(field, name, SIGNS)


def check_name(field: str, name: str, limit: int = NAME_COMPONENT_BYTES) -> None:
    """A queue, a kind, or the id of a session or token: one component."""
    if not isinstance(name, str) or not _is_plain(name):
        _check_required(field, name, limit)
        _check_component(field, name, limit, SIGNS)


def check_prefix(field: str, prefix: str | None) -> None:
    """The beginning of a job name: it may end anywhere, so only its size and characters are checked."""
    if not prefix:
        return
    check_size(field, prefix, JOB_ID_BYTES)
    _check_characters(field, prefix, JOB_SIGNS + "/")


def _check_path(field: str, name: str, signs: str) -> None:
    _check_required(field, name, JOB_ID_BYTES)
    for component in name.split("/"):
        _check_component(field, component, NAME_COMPONENT_BYTES, signs + "/")


def _check_required(field: str, name: str, limit: int) -> None:
    if not isinstance(name, str):
        raise InvalidInput(field, f"must be text, not {type(name).__name__}")
    if not name:
        raise InvalidInput(field, "must not be empty")
    check_size(field, name, limit)


def _check_component(field: str, component: str, limit: int, signs: str) -> None:
    if component in {"", ".", ".."}:
        raise InvalidInput(field, "must not have an empty, `.` or `..` component")
    if _is_plain(component):
        return
    size = len(encode_utf8(field, component))
    if size > limit:
        raise InvalidInput(field, f"has a component of {size:,} bytes; the limit is {limit:,}", limit=limit, size=size)
    _check_characters(field, component, signs)


def _check_characters(field: str, text: str, signs: str) -> None:
    for character in text:
        category = unicodedata.category(character)
        if character not in signs and not category.startswith("L") and category != "Nd":
            *others, last = (f"`{sign}`" for sign in signs)
            allowed = f"{', '.join(others)} and {last}"
            raise InvalidInput(field, f"must not contain {character!r}; use only letters, digits, {allowed}")
    if not unicodedata.is_normalized("NFC", text):
        raise InvalidInput(field, "is not in Unicode normal form NFC, so it could look like another name")
