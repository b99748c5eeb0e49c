"""The peers, each started once per session; tests are skipped if the environment is missing."""

from collections.abc import Iterator

import pytest

from tests.differential import nova as nova_peer
from tests.differential.nova import Nova
from tests.differential.placement import real as placement_peer
from tests.differential.placement.real import Real


@pytest.fixture(scope="session")
def nova() -> Iterator[Nova]:
    """Yield a running peer of the real Nova."""
    if not nova_peer.PYTHON.exists():
        pytest.skip(nova_peer.MISSING)
    with Nova() as running:
        yield running


@pytest.fixture(scope="session")
def real() -> Iterator[Real]:
    """Yield a running peer of the real Placement."""
    if not placement_peer.PYTHON.exists():
        pytest.skip(placement_peer.MISSING)
    with Real() as running:
        yield running
