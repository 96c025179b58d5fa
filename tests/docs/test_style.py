"""Text follows docs/style.md: it has no phrase that the guide rules out, and the check finds each phrase."""

import re

import pytest

from tests.docs.style import PHRASES, found_in, report, texts
from tests.support.processes import ROOT

EXAMPLES = {
    "whoever": "for whoever resumes it",
    "told": "the owner is told why",
    "gives": "what `call` gives",
    "of yours, of ours": "a file of yours",
    "is no": "'abc' is no duration",
    "not to be had": "the store is not to be had",
    "so many, so much": "at most so many",
    "such as": "a name, such as `deploy`",
    "give back": "the claim is given back",
    "run out": "its lease has run out",
    "from ... on": "the number from which on it is bad",
    "anew": "it is compiled anew",
    "be it, were it": "any store, be it a file",
    "is to be": "it is to be called once",
    "in the meantime": "it may have gone in the meantime",
    "where there is one": "the queue, where there is one",
    "our fault": "this is our fault",
    "stands for": "the field stands for the owner",
    "and so on": "claims, leases and so on",
}


def test_no_text_uses_a_phrase_that_the_style_guide_rules_out() -> None:
    paths = set(texts())
    assert len(paths) > 500
    assert list(report(paths)) == []


@pytest.mark.parametrize("phrase", PHRASES)
def test_each_phrase_is_found(phrase: str) -> None:
    assert [line for line, _ in found_in(f"First line.\n# {EXAMPLES[phrase]}\n")] == [2]


def test_a_phrase_is_found_in_a_name() -> None:
    assert [line for line, _ in found_in("import os\n\ndef the_owner_is_told_why() -> None: ...")] == [3]


def test_a_phrase_is_found_across_lines_of_a_comment() -> None:
    assert [phrase for _, phrase in found_in("# a name, such\n# as deploy")] == ["such # as"]


@pytest.mark.parametrize(
    "text",
    [
        "OctoStore gives every job one owner",
        "it gives up after 5 s",
        "there is no store",
        "it is no longer yours",
        "the model ran out of quota",
        "from now on",
    ],
)
def test_similar_phrases_are_allowed(text: str) -> None:
    assert list(found_in(text)) == []


def test_the_style_guide_has_a_glossary_and_twenty_pairs() -> None:
    guide = (ROOT / "docs" / "style.md").read_text(encoding="utf-8")
    glossary, pairs = (
        guide.partition(heading)[2].partition("\n## ")[0] for heading in ("## One word", "## Before and")
    )
    assert len(re.findall(r"^\| \*\*", glossary, re.MULTILINE)) >= 20
    assert len(re.findall(r"^\| ", pairs, re.MULTILINE)) - 1 >= 20
