"""The reference of the library, from its signatures and docstrings."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

import octostore
from docs.references.docstrings import as_markdown, first_sentence
from docs.references.markdown import FOLDER, attributes, code, field_notes, field_types, page, table, type_name

PATH = FOLDER / "python.md"
WIDTH = 100
SECTIONS = {
    "Connect": "connect connect_async __version__",
    "The store": "OctoStore AsyncOctoStore",
    "Claims and sessions": "HeldClaim AsyncHeldClaim Session AsyncSession Failed Deferred RetryPolicy",
    "Errors": "OctoStoreError Held AlreadyDone LeaseLost Conflict LimitExceeded InvalidInput NotAllowed NotFound "
    "Unreachable",
    "Replies to claims": "ClaimReply HeartbeatReply ReleaseReply EnqueueReply Recovery",
    "Jobs": "JobView JobOwner JobPage AttemptView JobClaims ClaimsPage ClaimView",
    "Queues": "QueueView QueueStatus QueueFigures QueueList PauseView",
    "Sessions": "SessionReply SessionView KeepaliveReply SavedReply HandedOverReply InFlight Phase",
    "Operation": "Event Health SessionHealth Threshold Thresholds Figures ProbeReply Verification NewToken TokenView "
    "PrincipalView",
}
MODULES = {
    "octostore.fencing": "FenceGuard fenced_update build_fenced_update FencedUpdate Statement StaleToken MissingRow",
    "octostore.orchestrator": "Orchestrator",
}
ABOUT = """\
This page describes everything in `octostore` and in two modules that you import separately. `OctoStore` and
`AsyncOctoStore` have the same methods; in `AsyncOctoStore`, you await most of them. All replies are immutable. Each
method lists the [errors](errors.md) that it raises, except those that [every call](#octostore) raises.
"""


def reference() -> str:
    return page("Python", "the docstrings", _lines())


def _lines() -> Iterator[str]:
    yield from ABOUT.splitlines()
    for title, names in SECTIONS.items():
        yield from ("", f"## {title}")
        for name in names.split():
            yield from _about(name, getattr(octostore, name))
    for path, names in MODULES.items():
        module = importlib.import_module(path)
        yield from ("", f"## {path}", "", *as_markdown(module.__doc__))
        for name in names.split():
            yield from _about(name, getattr(module, name))


def _about(name: str, value: Any) -> Iterator[str]:
    yield from ("", f"### `{name}`" if name.startswith("_") else f"### {name}", "")
    if isinstance(value, str):
        yield "The version, for example `0.1.0`."
    elif inspect.isfunction(value):
        yield from (*_signature(name, value), "", *as_markdown(value.__doc__))
    elif not isinstance(value, type):  # an alias
        yield f"`{type_name(value)}`"
    elif issubclass(value, msgspec.Struct):
        yield from (*as_markdown(_own_doc(value)), "", *_fields(value), *_members(name, value))
    else:
        yield from (*_constructor(name, value), *as_markdown(_own_doc(value)), *_attributes(value))
        yield from _members(name, value)


def _own_doc(kind: type) -> str:
    """Not that of a base class outside this project, or of all replies, which says nothing about this one."""
    bases: tuple[type, ...] = (kind,) if issubclass(kind, msgspec.Struct) else kind.__mro__
    return next((doc for base in bases if _is_ours(base) and (doc := vars(base).get("__doc__"))), "")


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("octostore")


def _constructor(name: str, kind: type) -> Iterator[str]:
    """Of classes that users create themselves; others come from a call, and errors are only caught."""
    if name in {"FenceGuard", "Orchestrator"}:
        yield from (*_signature(name, kind.__init__), "")  # type: ignore[misc]  # the reference shows what it takes


def _fields(kind: type) -> Iterator[str]:
    types, notes = field_types(kind), field_notes(kind)
    if types:
        rows = ((code(name.removeprefix("raw_")), code(shown), notes.get(name, "")) for name, shown in types.items())
        yield from table(["field", "type", "meaning"], rows)


def _attributes(kind: type) -> Iterator[str]:
    if found := attributes(kind):
        yield from ("", f"Attributes: {', '.join(map(code, found))}.")


def _members(name: str, kind: type) -> Iterator[str]:
    found = dict(_public(kind))
    if not found:
        return
    rows = ((_link(name, member), first_sentence(inspect.getdoc(value))) for member, value in found.items())
    yield from ("", *table(["", ""], rows))
    for member, value in found.items():
        yield from ("", f"#### {name}.{member}", "")
        if callable(value):
            yield from (*_signature(member, value), "")
        yield from as_markdown(inspect.getdoc(value))


def _link(name: str, member: str) -> str:
    return f"[`{member}`](#{name.lower()}{member.lower()})"


def _public(kind: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties. Those of an async class are the sync one's, unless it says more about them."""
    for name in sorted(dir(kind)):
        static = inspect.getattr_static(kind, name)
        if name.startswith("_") or name in getattr(kind, "__struct_fields__", ()) or _is_foreign(kind, name):
            continue
        value = getattr(kind, name) if callable(getattr(kind, name)) else static
        if not callable(value) and not isinstance(value, property):
            continue  # a constant, or a document, which is among the fields
        if not kind.__name__.startswith("Async") or _says_more(kind, name):
            yield name, value


def _is_foreign(kind: type, name: str) -> bool:
    owner = next(base for base in kind.__mro__ if name in vars(base))
    return not _is_ours(owner)


def _says_more(kind: type, name: str) -> bool:
    doc = inspect.getdoc(getattr(kind, name)) or ""
    sync = getattr(octostore, kind.__name__.removeprefix("Async"))
    return bool(doc) and not doc.startswith("See `") and doc != inspect.getdoc(getattr(sync, name, None))


def _signature(name: str, function: Callable[..., Any]) -> Iterator[str]:
    signature = inspect.signature(function)
    shown = [_parameter(one) for one in signature.parameters.values() if one.name != "self"]
    for number, one in enumerate(signature.parameters.values()):
        if one.kind is one.KEYWORD_ONLY:
            has_self = "self" in signature.parameters
            shown.insert(number - has_self, "*")
            break
    returned = type_name(signature.return_annotation)
    arrow = "" if name[0].isupper() else f" -> {returned}"
    line = f"{name}({', '.join(shown)}){arrow}"
    if len(line) > WIDTH:
        line = "\n".join([f"{name}(", *(f"    {one}," for one in shown), f"){arrow}"])
    yield from ("```py", *line.splitlines(), "```")


def _parameter(one: inspect.Parameter) -> str:
    star = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
    hint = "" if one.annotation is one.empty else f": {type_name(one.annotation)}"
    default = one.default
    if default is one.empty:
        return f"{star}{one.name}{hint}"
    text = "..." if " at 0x" in repr(default) else repr(default)
    return f"{one.name}{hint} = {text}"
