"""The peer, started once for all forests; without its environment the tests are skipped."""

from collections.abc import Iterator

import pytest

from tests.differential.placement.real import MISSING, PYTHON, Real


@pytest.fixture(scope="session")
def real() -> Iterator[Real]:
    """Start the real Placement."""
    if not PYTHON.exists():
        pytest.skip(MISSING)
    with Real() as running:
        yield running
