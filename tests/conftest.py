"""For all tests."""

import pytest
from hypothesis import settings

from tests.support.promised import watch

# No timed assertions: an example that takes long on a busy machine is no counterexample.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    watch(config)
