"""The real clients, loaded once per session."""

from collections.abc import Iterator

import pytest

from tests.e2e.clients.clouds import MISSING, PYTHON
from tests.e2e.clients.programs import Programs


@pytest.fixture(scope="session")
def programs() -> Iterator[Programs]:
    """Yield the programs; skip the test if there is no .venv-clients."""
    if not PYTHON.exists():
        pytest.skip(MISSING)
    with Programs() as loaded:
        yield loaded
