"""Which of the names found are suggested."""

from hypothesis import given
from hypothesis import strategies as st

from octostore.core.similar import SUGGESTED_MAX, most_similar, places_near

NAMES = st.text(st.sampled_from("ab01-/#."), min_size=1, max_size=12)
GENERATED = ["job-01a1e42ca765f0b2c4d6e8901a2b3c4d", "job-01a1e42f1f17c3a4b5d6e7f8091a2b3c"]


def test_which_places_are_searched() -> None:
    assert places_near("acme/shop#12") == ["acme/shop#12", "acme/shop#", "acme/", ""]
    assert places_near("a-b-c-d") == ["a-b-c-d", "a-b-c-", "a-b-", ""]
    assert places_near("acme/") == ["acme/", ""]
    assert places_near("deploy") == ["deploy", ""]


def test_a_truncated_name_is_completed() -> None:
    assert most_similar("job-01a1e42ca", GENERATED) == GENERATED[:1]


def test_generated_names_are_not_similar_to_each_other() -> None:
    assert most_similar(GENERATED[0], GENERATED) == []


def test_names_that_begin_with_it_come_first_then_the_most_similar() -> None:
    assert most_similar("deploy", ["depoly", "deploys", "deploy-2", "report"]) == ["deploy-2", "deploys", "depoly"]


@given(NAMES, st.lists(NAMES, max_size=30))
def test_suggestions_exist_differ_from_the_name_and_are_few(name: str, found: list[str]) -> None:
    suggested = most_similar(name, found)
    assert set(suggested) <= set(found) - {name}
    assert len(suggested) == len(set(suggested)) <= SUGGESTED_MAX
    longer = sorted({other for other in found if other.startswith(name)} - {name})
    assert suggested[: len(longer)] == longer[:SUGGESTED_MAX]


@given(NAMES)
def test_the_places_are_few_prefixes_of_the_name(name: str) -> None:
    places = places_near(name)
    assert places[0] == name
    assert places[-1] == ""
    assert len(places) <= 4
    assert all(name.startswith(place) for place in places)
