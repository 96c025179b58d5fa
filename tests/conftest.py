import pytest

from tests.support.promised import watch


def pytest_configure(config: pytest.Config) -> None:
    watch(config)
