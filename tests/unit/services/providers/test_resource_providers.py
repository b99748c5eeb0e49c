"""Tests for many simultaneous changes of providers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import VCPU, Inventory
from berth.services.providers.inventories import Inventories
from berth.services.providers.provider_writes import ProviderRevisions
from berth.services.providers.resource_providers import ResourceProviders
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.placement_desk import PlacementDesk
from tests.unit.services.wiring import CountedIds, TappedLedger

MANY = 120
"""The number of leaves, which is more than the tries of one change."""


class Tree:
    """Many leaves below one root, with slow commits."""

    def __init__(self) -> None:
        desk = PlacementDesk(TappedLedger())
        parts: dict[str, Any] = {
            "follower": desk.follower,
            "ledger": desk.ledger,
            "replica": desk.replica,
            "clock": VirtualClock(),
        }
        self.ledger = desk.ledger
        self.ledger.before_commit = self._pause
        self._providers = ResourceProviders(**parts, ids=CountedIds())
        self._inventories = Inventories(ProviderRevisions(**parts), desk.replica)

    async def make(self) -> None:
        """Create the root, then all leaves simultaneously."""
        await self._providers.create("root", "root", None)
        await self.each(self.add)

    async def each(self, deed: Callable[[str], Awaitable[object]]) -> int:
        """Apply a change to every leaf simultaneously; return the number of commits."""
        before = self.ledger.commits
        await asyncio.gather(*(deed(f"leaf-{n}") for n in range(MANY)))
        return self.ledger.commits - before

    async def add(self, leaf: str) -> None:
        """Create a leaf."""
        await self._providers.create(leaf, leaf, "root")

    async def remove(self, leaf: str) -> None:
        """Remove a leaf."""
        await self._providers.remove(leaf)

    async def cut_off(self, leaf: str) -> None:
        """Make the leaf a root."""
        await self._providers.change(leaf, name=leaf, parent=None, may_move=True)

    async def stock(self, leaf: str) -> None:
        """Set the inventory of the root."""
        await self._inventories.set_all("root", {VCPU: Inventory(1 + len(leaf))}, None)

    async def _pause(self, units: object) -> None:
        del units
        await asyncio.sleep(0)


@pytest.fixture
async def tree() -> Tree:
    """Return a tree with its leaves."""
    tree = Tree()
    await tree.make()
    return tree


async def test_leaves_do_not_stand_in_each_others_way(tree: Tree) -> None:
    """Leaves are created and removed simultaneously with one commit each."""
    assert await tree.each(tree.remove) == MANY
    assert await tree.each(tree.add) == MANY
    assert len(await tree.ledger.all(Provider)) == 1 + MANY


@pytest.mark.parametrize("deed", [Tree.cut_off, Tree.stock])
async def test_whoever_has_lost_a_race_takes_turns(
    tree: Tree, deed: Callable[[Tree, str], Awaitable[object]]
) -> None:
    """Changes that compete take less than two commits each."""
    assert await tree.each(lambda leaf: deed(tree, leaf)) < 2 * MANY
