"""A tree of zones to be asked."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.api.zones.resizing import BIG
from tests.unit.api.zones.tree import Net, ZoneStack, open_tree


@pytest.fixture
async def net() -> AsyncIterator[Net]:
    """Open root over west (one host) and east over deep (two hosts)."""
    net = await open_tree()
    yield net
    for zone in net.zones.values():
        await zone.ledger.close()


@pytest.fixture
def root(net: Net) -> ZoneStack:
    """The zone at the top, which has no hosts."""
    return net.zones["root"]


@pytest.fixture
def west(net: Net) -> ZoneStack:
    """A child of the root, with one host."""
    return net.zones["west"]


@pytest.fixture
def deep(net: Net) -> ZoneStack:
    """The child of the root's other child, with two hosts."""
    return net.zones["deep"]


@pytest.fixture
async def far(net: Net, root: ZoneStack, deep: ZoneStack) -> str:
    """A server that runs two zones below the root, and a larger flavor at the root."""
    await root.flavor("big", vcpus=BIG[0])
    await root.flavor("odd", vcpus=1, ram=8192)
    net.away.add("west")
    uuid = await root.server(token="u:p")
    net.away.clear()
    await deep.activate(uuid)
    return uuid
