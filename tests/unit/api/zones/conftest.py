"""A tree of zones for the tests."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.api.zones.resizing import BIG
from tests.unit.api.zones.tree import Net, ZoneStack, open_tree


@pytest.fixture
async def net() -> AsyncIterator[Net]:
    """Yield a tree: root over west (one host) and east, and east over deep (two hosts)."""
    net = await open_tree()
    yield net
    for zone in net.zones.values():
        await zone.ledger.close()


@pytest.fixture
def root(net: Net) -> ZoneStack:
    """Return the zone at the top, which has no hosts."""
    return net.zones["root"]


@pytest.fixture
def west(net: Net) -> ZoneStack:
    """Return a child of the root, with one host."""
    return net.zones["west"]


@pytest.fixture
def deep(net: Net) -> ZoneStack:
    """Return the child of the root's other child, with two hosts."""
    return net.zones["deep"]


@pytest.fixture
async def far(net: Net, root: ZoneStack, deep: ZoneStack) -> str:
    """Create a server two zones below the root, and two more flavors at the root; return its id."""
    await root.flavor("big", vcpus=BIG[0])
    await root.flavor("odd", vcpus=1, ram=8192)
    net.away.add("west")
    uuid = await root.server(token="u:p")
    net.away.clear()
    await deep.activate(uuid)
    return uuid
