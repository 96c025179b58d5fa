"""The API page is complete, and works offline and without JavaScript."""

import re
from functools import cache
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from octostore.server.api_page import render_page
from octostore.server.assets import ICON, assets
from octostore.server.examples import curl_line
from octostore.server.http import PAGE_POLICY
from octostore.server.openapi import build_document, error_codes
from octostore.server.router import Route
from octostore.server.routes import ROUTES
from tests.support.api import DOCUMENT
from tests.support.server import ServerProcess

STYLESHEET = f"{assets().folder}/api.css"
VOID = {"meta", "link", "img", "br", "hr", "input"}
NOT_IN_PARAGRAPHS = {"p", "pre", "div", "table", "ul", "section", "details", "h1", "h2", "h3", "h4"}


class Reader(HTMLParser):
    """Collects the tags and texts of a page, and errors in the nesting of its tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.problems: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        """By section id."""
        self._open: list[str] = []
        self._section = ""
        self.feed(page)
        self.close()
        self.problems += [f"<{tag}> is not closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in NOT_IN_PARAGRAPHS and "p" in self._open:
            self.problems.append(f"<{tag}> in <p> at {self.getpos()}")
        if tag not in VOID:
            self._open.append(tag)
        if tag == "section":
            self._section = dict(attrs)["id"] or ""

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.problems.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.text[self._section] = self.text.get(self._section, "") + data

    def values_of(self, *names: str) -> list[str]:
        return [attrs[name] or "" for _, attrs in self.tags for name in names if name in attrs]


@cache
def page() -> str:
    return render_page(ROUTES, DOCUMENT)


@cache
def read() -> Reader:
    return Reader(page())


def test_it_needs_no_token(server: ServerProcess) -> None:
    response = server.get("/docs", token="")
    assert (response.status, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert response.body.decode() == page().replace("http://127.0.0.1:3000", f"http://127.0.0.1:{server.port}")


def test_its_examples_use_the_readers_url(server: ServerProcess) -> None:
    text = server.get("/docs", token="", headers={"Host": "localhost:1234"}).body.decode()
    assert "export OCTOSTORE_URL=http://localhost:1234 " in text
    assert "127.0.0.1:3000" not in text


def test_browsers_may_load_its_stylesheet_and_run_nothing_inline(server: ServerProcess) -> None:
    response = server.get("/docs", token="")
    assert response.headers["content-security-policy"].encode() == PAGE_POLICY
    assert server.get(f"/{STYLESHEET}", token="").headers["content-type"] == "text/css; charset=utf-8"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_it_describes_every_route(route: Route) -> None:
    text = read().text[route.operation]
    assert f"{route.method} {route.path}" in text
    assert route.summary in text
    assert curl_line(route) in text
    for kind in (route.body, route.query):
        for field in msgspec.structs.fields(kind) if kind else ():
            assert field.encode_name in text
    assert f"#{route.operation}" in read().values_of("href")  # from the menu


def test_it_describes_every_error() -> None:
    errors = {code for route in ROUTES for codes in error_codes(route).values() for code in codes}
    assert {f"error-{code}" for code in errors} <= set(read().values_of("id"))


def test_it_loads_nothing_from_other_hosts() -> None:
    links = [link for link in read().values_of("href") if not link.startswith("#")]
    assert sorted(links) == ["openapi.json", STYLESHEET, f"{assets().folder}/{ICON}"]
    assert read().values_of("src", "srcset", "action", "data", "poster", "style") == []
    assert {"script", "style", "iframe", "object", "img", "form", "base"} & {tag for tag, _ in read().tags} == set()
    assert not any(name.startswith("on") for _, attrs in read().tags for name in attrs)
    assert not re.search(r"url\(|@import|https?://(?!127\.0\.0\.1)", page())


def test_its_tags_are_nested_correctly() -> None:
    assert read().problems == []


def test_its_links_have_targets() -> None:
    ids = read().values_of("id")
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in read().values_of("href") if link.startswith("#")} <= set(ids)


def test_texts_of_routes_are_escaped() -> None:
    async def strange(_call: Any) -> None: ...

    evil = "<script>alert('&')</script>"
    example = {"body": {"owner": evil}, "params": {"job_id": '"><b>'}}
    route = Route(
        operation="strange",
        method="POST",
        path="/jobs/{job_id}/strange",
        handler=strange,
        tag="strange",
        summary=evil,
        description=f"With `{evil}`.",
        body=next(route.body for route in ROUTES if route.body),
        responses={200: None},
        example=example,
    )
    shown = render_page([route], build_document([route]))
    assert Reader(shown).problems == []
    assert "<script" not in shown
    assert "<b>&gt;" not in shown
    assert shown.count("&lt;script&gt;") == 3  # in the summary, in the description, in the request
