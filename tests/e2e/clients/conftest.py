"""The real clients, loaded once."""

from collections.abc import Iterator

import pytest

from tests.e2e.clients.clouds import MISSING, PYTHON
from tests.e2e.clients.programs import Programs


@pytest.fixture(scope="session")
def programs() -> Iterator[Programs]:
    """Programs to be called; without the environment there is no test."""
    if not PYTHON.exists():
        pytest.skip(MISSING)
    with Programs() as loaded:
        yield loaded
