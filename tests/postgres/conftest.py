from collections.abc import Iterator

import psycopg
import pytest

import octostore
from octostore.stores.postgres.connection import parse_address
from tests.support.postgres import made, new_schema, postgres_url


@pytest.fixture
def url() -> str:
    """The URL of an empty store."""
    return made(new_schema())


@pytest.fixture
def schema(url: str) -> str:
    return parse_address(url).schema


@pytest.fixture
def store(url: str) -> Iterator[octostore.OctoStore]:
    with octostore.connect(url) as store:
        yield store


@pytest.fixture
def admin() -> Iterator[psycopg.Connection]:
    """A superuser's connection."""
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        yield connection
