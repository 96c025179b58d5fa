"""Every public name has a docstring that says what it takes, returns and raises; and every example in them runs."""

import asyncio
import doctest
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import octostore
from octostore.core.replies import Reply

MODULES = ("octostore", "octostore.orchestrator", "octostore.fencing")
SECTION = re.compile(r"^(Args|Returns|Yields|Raises|Example):$", re.MULTILINE)
ARGUMENT = re.compile(r"^    (\*{0,2}\w+): \S", re.MULTILINE)
RAISED = re.compile(r"^    (\w+): \S", re.MULTILINE)
LEASES = {"lease_id", "lock_token"}


def public_names() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in map(importlib.import_module, MODULES):
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
        ]
        found |= {f"{module.__name__}.{name}": getattr(module, name) for name in names}
    return {name: value for name, value in found.items() if inspect.isclass(value) or inspect.isfunction(value)}


def members(cls: type) -> Iterator[tuple[str, Any]]:
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        is_ours = any(name in vars(base) and base.__module__.startswith("octostore") for base in cls.__mro__)
        if not name.startswith("_") and is_ours:
            yield name, value if isinstance(value, property) else getattr(cls, name)


NAMES = public_names()
MEMBERS = {
    f"{name}.{member}": value
    for name, cls in NAMES.items()
    if inspect.isclass(cls)
    for member, value in members(cls)
    if isinstance(value, property) or inspect.isroutine(value)
}
CALLABLES = {name: value for name, value in {**NAMES, **MEMBERS}.items() if inspect.isroutine(value)}
CLASSES = {name: value for name, value in NAMES.items() if inspect.isclass(value)}


def is_record(cls: type) -> bool:
    """What is only returned: the calls that return it have the examples, and OpenAPI shows its text."""
    return issubclass(cls, Reply | octostore.Event | octostore.OctoStoreError)


def sections(value: Any) -> dict[str, str]:
    parts = SECTION.split(inspect.getdoc(value) or "")
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


@pytest.mark.parametrize("name", [*NAMES, *MEMBERS])
def test_everything_public_says_what_it_is_in_one_line(name: str) -> None:
    first, *rest = (inspect.getdoc({**NAMES, **MEMBERS}[name]) or "").split("\n")
    assert first.endswith((".", "!", "?")), first
    assert not rest or rest[0] == "", "then a blank line"


@pytest.mark.parametrize("name", CALLABLES)
def test_every_call_describes_its_arguments_and_what_it_returns(name: str) -> None:
    call = CALLABLES[name]
    said = sections(call)
    signature = inspect.signature(call)
    expected = [
        ("**" if each.kind is each.VAR_KEYWORD else "") + each.name
        for each in signature.parameters.values()
        if each.name not in {"self", "cls"}
    ]
    assert ARGUMENT.findall(said.get("Args", "")) == expected
    if not returns_nothing(call):
        assert said.get("Returns", said.get("Yields", "")).strip()


def returns_nothing(call: Callable[..., Any]) -> bool:
    returned = inspect.signature(call).return_annotation
    return returned in {None, "None"} or getattr(returned, "__args__", ())[-1:] == (type(None),)


@pytest.mark.parametrize("name", CALLABLES)
def test_every_exception_that_is_mentioned_exists(name: str) -> None:
    raised = RAISED.findall(sections(CALLABLES[name]).get("Raises", ""))
    known = {**vars(octostore.fencing), **{each: getattr(octostore, each) for each in octostore.__all__}}
    assert all(inspect.isclass(known[each]) and issubclass(known[each], Exception) for each in raised)
    if LEASES & {*inspect.signature(CALLABLES[name]).parameters}:
        assert "LeaseLost" in raised, "as every write under a lease may"


EXAMPLES = {name: value for name, value in {**CALLABLES, **CLASSES}.items() if value not in MEMBERS.values()}
EXAMPLES |= {name: value for name, value in CALLABLES.items() if ".Async" not in name}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value = EXAMPLES[name]
    text = inspect.getdoc(value) or ""
    if ">>>" not in text:
        assert inspect.isclass(value), "every call has an example"
        assert is_record(value), "and every class that one makes or uses"
        return
    monkeypatch.setenv("OCTOSTORE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ORCH_DB_PATH", str(tmp_path / "orchestrator.db"))
    with octostore.connect("memory:") as store:
        given = {"octostore": octostore, "asyncio": asyncio, "store": store, "tmp_path": tmp_path}
        run(text, name, given)


def run(text: str, name: str, given: dict[str, Any]) -> None:
    example = doctest.DocTestParser().get_doctest(text, given, name, None, None)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append)
    assert not said, "".join(said)
