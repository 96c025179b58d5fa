"""Entries can be put into any document and taken out again without a trace."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octostore.agents.setup.blocks import Block
from octostore.agents.setup.clients import CLIENTS
from octostore.agents.setup.json_edits import Entry, Misfit, has_any, put_all, take_all
from octostore.agents.setup.jsonc import Unreadable, parse
from octostore.agents.setup.parts import JsonPart
from tests.agents.reading import read_json

KEYS = st.sampled_from(["a", "servers", "hooks", "Stop", "näme ☃", 'q"\\'])
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "servers": st.dictionaries(KEYS, VALUES, max_size=3),
        "hooks": st.fixed_dictionaries(
            {}, optional={"Stop": st.lists(VALUES, max_size=3), "Go": st.lists(VALUES, max_size=2)}
        ),
        "a": VALUES,
        "z": VALUES,
    },
)
BLANKS = st.sampled_from(
    ["", "", " ", "\n", "\n  ", "\r\n\t", " // note, }\n", " // and {\n", "/* { \n */", '\n\n  // "x"\r\n ']
)


def entry(path: tuple[str, ...], key: str | None, value: Any) -> Entry:
    return Entry(path, value, lambda found: isinstance(found, dict) and "ours" in found, key)


ENTRIES = (
    entry(("servers",), "octostore", {"ours": 1, "args": ["b"]}),
    entry(("hooks", "Stop"), None, {"ours": 2, "hooks": [{"c": "d"}]}),
    entry(("hooks", "Go"), None, {"ours": 3}),
    entry((), "top", {"ours": 4}),
)


@st.composite
def written(draw: st.DrawFn, document: Any) -> str:
    """The document, as a person might write it."""

    def text_of(value: Any) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=draw(st.booleans()))
        opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
        items = value.items() if isinstance(value, dict) else [(None, one) for one in value]
        parts = []
        for key, one in items:
            label = "" if key is None else json.dumps(key) + draw(BLANKS) + ":" + draw(BLANKS)
            parts.append(draw(BLANKS) + label + text_of(one) + draw(BLANKS))
        trailing = "," + draw(BLANKS) if parts and draw(st.integers(0, 4)) == 0 else ""
        return opening + (",".join(parts) + trailing if parts else draw(BLANKS)) + closing

    return draw(BLANKS) + text_of(document) + draw(BLANKS)


@given(DOCUMENTS.flatmap(lambda document: st.tuples(st.just(document), written(document))))
@settings(max_examples=120, deadline=None)
def test_what_is_put_in_comes_out_without_a_trace(given_: tuple[Any, str]) -> None:
    document, text = given_
    assert parse(text).value == document == read_json(text)
    changed = put_all(text, ENTRIES)
    assert put_all(changed, ENTRIES) == changed
    assert take_all(changed, ENTRIES) == text
    assert take_all(changed, ENTRIES[::-1]) == text
    assert not has_any(text, ENTRIES)
    found = read_json(changed)
    assert found["servers"].pop("octostore") == ENTRIES[0].value
    assert found["hooks"]["Stop"].pop(0) == ENTRIES[1].value
    assert found["hooks"]["Go"].pop(0) == ENTRIES[2].value
    assert found.pop("top") == ENTRIES[3].value
    assert {key: value for key, value in found.items() if key in document} == {
        **document,
        **{key: {**found["hooks"], **document[key]} for key in document if key == "hooks"},
    }


@given(DOCUMENTS.flatmap(written), st.data())
@settings(max_examples=60, deadline=None)
def test_our_entries_come_out_even_if_the_text_was_rewritten(text: str, data: st.DataObject) -> None:
    """For example by a formatter, or by someone who sorted it."""
    document = json.loads(json.dumps(read_json(put_all(text, ENTRIES))))
    for container in (document, document["servers"], document["hooks"]):
        items = data.draw(st.permutations(list(container.items())))
        container.clear()
        container.update(items)
    document["hooks"]["Stop"] = data.draw(st.permutations(document["hooks"]["Stop"]))
    again = data.draw(written(document))
    rest = take_all(again, ENTRIES)
    found = {} if rest is None else read_json(rest)
    assert not has_any(json.dumps(found), ENTRIES)
    before = read_json(text)
    for key in ("a", "z"):
        assert found.get(key) == before.get(key)
    assert found.get("servers", {}) == before.get("servers", {})
    stops = [json.dumps(one) for one in found.get("hooks", {}).get("Stop", [])]
    assert sorted(stops) == sorted(json.dumps(one) for one in before.get("hooks", {}).get("Stop", []))


@given(st.text(alphabet='{}[]",:/*\\ \n\r\ta1-.eEtruefalsn\ufeff☃', max_size=30))
@settings(max_examples=300, deadline=None)
def test_parse_agrees_with_other_parsers(text: str) -> None:
    try:
        found = parse(text).value
    except Unreadable:
        with pytest.raises(ValueError, match=r".*"):
            json.loads(text)
    else:
        assert found == read_json(text)


@given(st.text(alphabet="ab\r\n \ufeff", max_size=12))
@settings(max_examples=300, deadline=None)
def test_a_block_leaves_no_trace_either(text: str) -> None:
    block = Block(("one", "two"), "markdown")
    changed = block.put(text)
    assert block.put(changed) == changed
    assert block.take(changed) == text
    assert block.take(text) == text


@pytest.mark.parametrize("text", ["", "\n", " \r\n ", "\t"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_blank_file_is_not_a_missing_one(client: str, text: str) -> None:
    for part in CLIENTS[client].parts(False):
        if isinstance(part, JsonPart):
            changed = part.put(text)
            assert part.put(changed) == changed
            assert part.take(changed) == text
            assert part.take(part.put(None)) is None


@pytest.mark.parametrize(
    "text", ['{"servers": []}', '{"servers": 1}', '{"hooks": {"Stop": {}}}', '{"hooks": null}', "[]", "1", '"a"']
)
def test_a_value_of_another_type_in_our_place_is_refused(text: str) -> None:
    with pytest.raises(Misfit):
        put_all(text, ENTRIES)


def test_the_error_says_where_the_text_is_broken() -> None:
    with pytest.raises(Unreadable, match="line 2, column 10: expected , or }"):
        parse('{\n  "a": 1 2\n}')
