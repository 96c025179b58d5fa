"""Every public name has a docstring that describes its arguments, result and exceptions, and a working example."""

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
from octostore import fencing, orchestrator
from octostore.core.replies import Reply

SECTION = re.compile(r"^(Args|Returns|Raises|Example):$", re.MULTILINE)
ENTRY = re.compile(r"^    (\*{0,2}\w+): \S", re.MULTILINE)
RECORDS = (Reply, octostore.Event, octostore.OctoStoreError)
"""Returned or raised by calls, whose examples show them."""


def public_names() -> Iterator[tuple[str, Any]]:
    for module in (octostore, fencing, orchestrator):
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        for name in getattr(module, "__all__", own):
            value = getattr(module, name)
            if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
                yield f"{module.__name__}.{name}", value


def members(cls: type) -> Iterator[tuple[str, Any]]:
    for name in dir(cls):
        owner = next(base for base in cls.__mro__ if name in vars(base))
        value = inspect.getattr_static(cls, name)
        value = value if isinstance(value, property) else getattr(cls, name)
        is_one = isinstance(value, property) or inspect.isfunction(value) or inspect.ismethod(value)
        if is_one and not name.startswith("_") and owner.__module__.startswith("octostore"):
            yield name, value


NAMES = dict(public_names())
MEMBERS = {
    f"{name}.{member}": value for name, cls in NAMES.items() if inspect.isclass(cls) for member, value in members(cls)
}
CALLS = {name: value for name, value in {**NAMES, **MEMBERS}.items() if inspect.isroutine(value)}
EXAMPLES = {
    name: value
    for name, value in {**NAMES, **CALLS}.items()
    # Methods of an async class share the examples of the sync class.
    if not (inspect.isclass(value) and issubclass(value, RECORDS)) and ".Async" not in name.removesuffix("Store")
}


def sections(value: Any) -> dict[str, str]:
    parts = SECTION.split(inspect.getdoc(value) or "")
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def returns_something(call: Callable[..., Any]) -> bool:
    return inspect.signature(call).return_annotation not in {None, "None", type(None)}


def test_there_is_something_to_check() -> None:
    assert {"octostore.OctoStore.claim_job", "octostore.AsyncSession.save", "octostore.HeldClaim.check"} <= {*CALLS}
    assert {"octostore.fencing.fenced_update", "octostore.orchestrator.Orchestrator.claim_task"} <= {*EXAMPLES}


def test_every_public_docstring_starts_with_a_one_line_summary() -> None:
    for name, value in {**NAMES, **MEMBERS}.items():
        first, *rest = (inspect.getdoc(value) or "").split("\n")
        assert first.endswith("."), f"{name}: {first!r}"
        assert not rest or rest[0] == "", f"{name}: the summary takes more than one line"


def test_every_call_describes_its_arguments_and_its_result() -> None:
    for name, call in CALLS.items():
        described = sections(call)
        parameters = [one for one in inspect.signature(call).parameters.values() if one.name != "self"]
        expected = [("**" if one.kind is one.VAR_KEYWORD else "") + one.name for one in parameters]
        assert ENTRY.findall(described.get("Args", "")) == expected, name
        assert bool(described.get("Returns", "").strip()) == returns_something(call), name


def test_every_exception_that_a_docstring_names_exists() -> None:
    known = {**vars(fencing), **{name: getattr(octostore, name) for name in octostore.__all__}}
    for name, call in CALLS.items():
        raised = ENTRY.findall(sections(call).get("Raises", ""))
        assert all(issubclass(known[one], octostore.OctoStoreError) for one in raised), name
        if {"lease_id", "lock_token"} & {*inspect.signature(call).parameters}:
            assert "LeaseLost" in raised, f"{name} writes under a lease"


def test_sync_and_async_have_the_same_text() -> None:
    for name, call in CALLS.items():
        if ".Async" in name and not name.endswith(".since"):  # the async one returns a list
            assert inspect.getdoc(call) == inspect.getdoc(CALLS[name.replace(".Async", ".")]), name


@pytest.fixture
def example_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names that every example can use."""
    monkeypatch.setenv("OCTOSTORE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ORCH_DB_PATH", str(tmp_path / "orchestrator.db"))
    with octostore.connect("memory:") as store:
        ready = {"octostore": octostore, "asyncio": asyncio, "store": store, "tmp_path": tmp_path}
        yield {**ready, "orchestrator": orchestrator.Orchestrator(store)}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_call_has_an_example_that_runs(name: str, example_names: dict[str, Any]) -> None:
    text = inspect.getdoc(EXAMPLES[name]) or ""
    example = doctest.DocTestParser().get_doctest(text, example_names, name, None, None)
    assert example.examples, "it has no example"
    output: list[str] = []
    doctest.DocTestRunner(verbose=False).run(example, out=output.append)
    assert not output, "".join(output)


def test_the_modules_own_example_runs(example_names: dict[str, Any]) -> None:
    for module in ("octostore",):
        text = importlib.import_module(module).__doc__ or ""
        example = doctest.DocTestParser().get_doctest(text, example_names, module, None, None)
        assert doctest.DocTestRunner(verbose=False).run(example) == (0, 2)
