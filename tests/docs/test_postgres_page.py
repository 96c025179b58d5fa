"""What the page on PostgreSQL says to copy is what the tests run."""

import configparser
import re
import shlex
from pathlib import Path

from octostore.cli.parser import parse
from octostore.stores.postgres import connection
from octostore.stores.postgres.backend import STUCK_SECONDS
from octostore.stores.retrying import GIVE_UP_SECONDS
from tests.support.documents import blocks_of
from tests.support.processes import ROOT

PAGE = ROOT / "docs" / "how-to" / "postgres.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_grants_are_those_the_tests_use() -> None:
    grants = Path(connection.__file__).with_name("grants.sql").read_text(encoding="utf-8")
    _comment, _, statements = grants.partition("\n")
    (shown,) = blocks_of(PAGE, "sql")
    assert shown.text == statements.replace("{schema}", connection.SCHEMA_DEFAULT).replace("{role}", "app")


def test_the_limits_are_those_of_the_store() -> None:
    assert f"loses the transaction after {STUCK_SECONDS} seconds" in TEXT
    assert f"after {GIVE_UP_SECONDS:g} seconds of trying" in TEXT
    assert f"counts as unavailable after {connection.TIMEOUT_SECONDS:g}\n  seconds" in TEXT
    assert f"after another {connection.DEFAULTS['connect_timeout']} seconds of failed connection attempts" in TEXT


def test_the_commands_of_the_unit_and_of_the_compose_file_are_valid() -> None:
    (unit,) = blocks_of(PAGE, "ini")
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment,method-assign]  # keep case, as systemd does
    read.read_string(unit.text)
    (compose,) = blocks_of(PAGE, "yaml")
    commands = [read["Service"]["ExecStart"], *re.findall(r"command: (octostore .*)", compose.text)]
    assert len(commands) == 2
    for command in commands:
        assert parse(shlex.split(command)[1:]).command == "serve"


def test_its_urls_are_valid() -> None:
    urls = set(re.findall(r"postgresql://[^'\"\s]+", TEXT))
    assert len(urls) == 3
    for url in urls:
        assert connection.parse_address(url).schema == connection.SCHEMA_DEFAULT
