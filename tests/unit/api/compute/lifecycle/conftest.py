"""Deployments with agents, in virtual time."""

from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import pytest

from berth.adapters.virt.fake import DriverFaults
from berth.testing.virtual_time import VirtualLoop
from tests.unit.api.compute.lifecycle.staffed import Staffed, open_staffed

MakeStaffed = Callable[..., Awaitable[Staffed]]


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], AbstractEventLoop]]:
    """Run every test of this folder on a virtual loop."""
    return {"virtual": VirtualLoop}


@pytest.fixture
async def make_staffed() -> AsyncIterator[MakeStaffed]:
    """Yield a function that opens deployments with the given options, and close them at the end."""
    made: list[Staffed] = []

    async def make(
        hosts: int = 3, *, faults: DriverFaults | None = None, offloads: bool = True
    ) -> Staffed:
        cloud = await open_staffed(hosts, faults=faults, offloads=offloads)
        made.append(cloud)
        return cloud

    yield make
    for cloud in made:
        await cloud.close()


@pytest.fixture
async def cloud(make_staffed: MakeStaffed) -> Staffed:
    """Return a deployment of three hosts with agents, and the flavors `small` and `large`."""
    return await make_staffed()
