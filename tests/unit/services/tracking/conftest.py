"""Trackers for tests: one that has instances from the feed, one that has them from casts."""

import pytest

from tests.unit.services.tracking.rig import Rig, open_rig


@pytest.fixture
async def by_feed() -> Rig:
    """A rig whose scheduler has instances from the feed."""
    return await open_rig(by_casts=False)


@pytest.fixture
async def by_casts() -> Rig:
    """A rig whose scheduler has instances from the casts."""
    return await open_rig(by_casts=True)
