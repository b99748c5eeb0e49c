"""The peer, started once for all cases; without its environment the tests are skipped."""

from collections.abc import Iterator

import pytest

from tests.differential.nova import MISSING, PYTHON, Nova


@pytest.fixture(scope="session")
def nova() -> Iterator[Nova]:
    """Start the real Nova."""
    if not PYTHON.exists():
        pytest.skip(MISSING)
    with Nova() as running:
        yield running
