"""Fixtures with a tracker that follows the feed or the casts."""

import pytest

from tests.unit.services.tracking.rig import Rig, open_rig


@pytest.fixture
async def by_feed() -> Rig:
    """Return a rig whose scheduler has instances from the feed."""
    return await open_rig(by_casts=False)


@pytest.fixture
async def by_casts() -> Rig:
    """Return a rig whose scheduler has instances from the casts."""
    return await open_rig(by_casts=True)
