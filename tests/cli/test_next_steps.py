"""Every reason for which a store can be unreachable has its own next step, in every command and in `doctor`."""

import re

import pytest

from octostore.cli.next_steps import next_step
from octostore.cli.store_address import StoreAddress
from octostore.core.errors import Unreachable
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
