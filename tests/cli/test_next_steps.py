"""Every reason for which a store can be unreachable has its own next step, in every command and in `doctor`."""

import re

import msgspec
import pytest

from octostore.cli.next_steps import next_step
from octostore.cli.store_address import StoreAddress
from octostore.client.http.calls import call_of
from octostore.client.http.responses import read_response
from octostore.core.errors import Unreachable
from octostore.core.questions import GetJob
from octostore.stores.base import TryAgain
from octostore.wire.failures import Failure
from tests.support.processes import ROOT

SOURCES = ROOT / "src" / "octostore"
REASONS = {
    reason
    for path in SOURCES.rglob("*.py")
    for line in path.read_text(encoding="utf-8").splitlines()
    if not line.lstrip().startswith(">>>")  # an operator's reason
    for reason in re.findall(r'reason="(\w+)"', line)
} | {"disk_full", "corrupt", "denied"}


@pytest.mark.parametrize("reason", sorted(REASONS - {"address"}))
def test_each_reason_has_a_next_step_of_its_own(reason: str) -> None:
    said = next_step(Unreachable("away", reason=reason), StoreAddress("postgresql://db.example.org/jobs", "--url"))
    assert "octostore doctor" not in said


def test_each_reason_is_in_the_list_of_the_guarantees() -> None:
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"with a `reason`:(.*?)\n- ", text, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", listed)) == REASONS - {"address"}


def test_a_server_and_a_database_have_different_next_steps() -> None:
    away = Unreachable("away", reason="network")
    assert "octostore serve" in next_step(away, StoreAddress("https://locks.example.org", "--url"))
    assert "pg_isready" in next_step(away, StoreAddress("postgresql://db.example.org/jobs", "--url"))


def step_after(status: int, failure: Failure) -> str:
    """What to do after this response from a server."""
    server = StoreAddress("https://locks.example.org", "--url")
    with pytest.raises((TryAgain, Unreachable)) as caught:
        read_response(call_of(GetJob(job_id="job")), str(server), status, msgspec.json.encode(failure))
    fault = caught.value.fault if isinstance(caught.value, TryAgain) else caught.value
    assert isinstance(fault, Unreachable)
    return next_step(fault, server)


def test_a_server_whose_database_is_down_is_running() -> None:
    said = step_after(503, Failure(error="PostgreSQL does not answer", code="unreachable", reason="network"))
    assert "on the server's machine, check that its database is running" in said


def test_after_a_wrong_path_the_url_is_wrong_and_not_the_server() -> None:
    assert "correct the URL" in step_after(404, Failure(error="there is no such route", code="no_such_route"))
    assert "check the server's log" in step_after(500, Failure(error="a bug", code="internal_error"))
