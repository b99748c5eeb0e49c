"""Tests for reshapes, which move inventories together with their allocations."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, ResourceClass
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import (
    Add,
    ConsumerUpdate,
    Guard,
    Put,
    Reallocate,
    Remove,
    ReplaceProvider,
    Unit,
)
from berth.services.providers.allocations import AllocationRefusedError, AllocationRule
from berth.services.providers.provider_writes import ProviderRefusedError, RefusalRule, class_guard
from berth.services.providers.reshape import GenerationError, WantedInventories
from berth.testing.builders import make_uuid
from tests.unit.services.placement_desk import PlacementDesk, dump, inventories, share

HOST, PART = make_uuid("host", 1), make_uuid("host", 2)
TO_PART: WantedInventories = {
    HOST: (2, inventories(VCPU=8)),
    PART: (0, inventories(DISK_GB=100)),
}
"""The inventories after the disk has moved from the host to its part."""
CPU_GOES: WantedInventories = {HOST: (2, {}), PART: (0, inventories(MEMORY_MB=1, DISK_GB=100))}


@pytest.fixture
async def desk() -> PlacementDesk:
    """Return services with a host whose disk two consumers hold, and an empty child."""
    desk = PlacementDesk()
    host = Provider(HOST, "host", None, 0, inventories(VCPU=8, DISK_GB=100))
    await desk.ledger.write(Put(host), Put(Provider(PART, "part", HOST)))
    await desk.follower.start()
    await desk.allocation_service.put([share(1, {VCPU: 1, DISK_GB: 40})])
    await desk.allocation_service.put([share(2, {DISK_GB: 60})])
    return desk


def moved(
    number: int, host: Mapping[str, int], part: Mapping[str, int], seen: int = 1
) -> ConsumerUpdate:
    """Return the update by which a consumer holds amounts of the host and of the part."""
    both = {HOST: host, PART: part}
    return replace(
        share(number, seen=seen), allocations={uuid: one for uuid, one in both.items() if one}
    )


MOVED = (moved(1, {VCPU: 1}, {DISK_GB: 40}), moved(2, {}, {DISK_GB: 60}))


async def test_inventory_moves_while_it_is_in_use(desk: PlacementDesk) -> None:
    """An inventory in use moves to another provider in one unit with its allocations."""
    before = await desk.ledger.version()
    await desk.reshape_service.reshape(TO_PART, MOVED)
    assert await desk.ledger.version() == before + 1
    host, part = await desk.provider(1), await desk.provider(2)
    assert (dict(host.inventories), host.used) == (inventories(VCPU=8), {VCPU: 1})
    assert (dict(part.inventories), part.used) == (inventories(DISK_GB=100), {DISK_GB: 100})
    assert (part.parent_uuid, part.name) == (HOST, "part")
    assert await desk.held(1) == {HOST: {VCPU: 1}, PART: {DISK_GB: 40}}
    assert await desk.held(2) == {PART: {DISK_GB: 60}}


async def test_generations_are_raised_step_by_step(desk: PlacementDesk) -> None:
    """The generation of a provider rises with each step that concerns it."""
    await desk.reshape_service.reshape(TO_PART, MOVED)
    assert ((await desk.provider(1)).generation, (await desk.provider(2)).generation) == (5, 3)
    await desk.reshape_service.reshape({PART: (3, inventories(DISK_GB=200))}, ())
    assert (await desk.provider(2)).generation == 5
    await desk.allocation_service.put([moved(1, {}, {}, 2), moved(2, {}, {}, 2)])
    generation = (await desk.provider(2)).generation
    await desk.reshape_service.reshape({PART: (generation, {})}, ())
    part = await desk.provider(2)
    assert (part.generation, part.inventories) == (generation + 1, {})


async def refusal(
    desk: PlacementDesk, wanted: WantedInventories, shares: Sequence[ConsumerUpdate] = MOVED
) -> Exception:
    """Return the error that refuses a reshape, and check that nothing changed."""
    before = await dump(desk.ledger)
    with pytest.raises((ProviderRefusedError, GenerationError, AllocationRefusedError)) as refused:
        await desk.reshape_service.reshape(wanted, shares)
    assert await dump(desk.ledger) == before
    await desk.reshape_service.reshape(TO_PART, MOVED)
    return refused.value


async def test_a_provider_that_has_changed(desk: PlacementDesk) -> None:
    """A wrong provider generation is reported with the actual and the seen one."""
    error = await refusal(desk, {**TO_PART, PART: (7, inventories(DISK_GB=100))})
    assert isinstance(error, GenerationError)
    assert (error.provider_uuid, error.actual, error.seen) == (PART, 0, 7)


@pytest.mark.parametrize(
    ("wanted", "why", "subject"),
    [
        ({**TO_PART, "nobody": (0, {})}, RefusalRule.NO_PROVIDER, "nobody"),
        ({**TO_PART, PART: (0, inventories(CUSTOM_NO=1))}, RefusalRule.NO_CLASS, "CUSTOM_NO"),
        (CPU_GOES, RefusalRule.INVENTORY_IN_USE, HOST),
    ],
)
async def test_inventories_that_cannot_be(
    desk: PlacementDesk, wanted: WantedInventories, why: RefusalRule, subject: str
) -> None:
    """An unknown provider or class, and a class still in use, are refused."""
    error = await refusal(desk, wanted)
    assert isinstance(error, ProviderRefusedError)
    assert (error.why, error.subject) == (why, subject)
    assert error.names == ((VCPU,) if why is RefusalRule.INVENTORY_IN_USE else ())


@pytest.mark.parametrize(
    ("shares", "rule"),
    [
        ((MOVED[0], moved(2, {}, {DISK_GB: 61})), AllocationRule.CAPACITY),
        ((MOVED[0], moved(2, {}, {MEMORY_MB: 60})), AllocationRule.NO_INVENTORY),
        ((MOVED[0], moved(2, {}, {DISK_GB: 60}, seen=4)), AllocationRule.CONSUMER_GENERATION),
        ((MOVED[0], share(2, {VCPU: 1}, on=9, seen=1)), AllocationRule.NO_PROVIDER),
    ],
)
async def test_allocations_that_cannot_be(
    desk: PlacementDesk, shares: Sequence[ConsumerUpdate], rule: AllocationRule
) -> None:
    """Allocations that break a rule are refused as in any other claim."""
    error = await refusal(desk, TO_PART, shares)
    assert isinstance(error, AllocationRefusedError)
    assert error.rule is rule


async def test_others_keep_what_they_hold(desk: PlacementDesk) -> None:
    """A class that an unnamed consumer still holds cannot be removed."""
    error = await refusal(desk, TO_PART, MOVED[:1])
    assert isinstance(error, ProviderRefusedError)
    assert (error.why, error.names) == (RefusalRule.INVENTORY_IN_USE, (DISK_GB,))


@pytest.mark.parametrize("place", range(5))
async def test_any_step_that_fails_undoes_those_before(desk: PlacementDesk, place: int) -> None:
    """A unit that fails at any step leaves nothing behind."""
    before = await dump(desk.ledger)
    units: list[Unit] = []

    async def spoil(committed: Sequence[Unit]) -> None:
        units.extend(committed)

    desk.ledger.before_commit = spoil
    await desk.reshape_service.reshape(TO_PART, MOVED)
    desk.ledger.before_commit = None
    (unit,) = units
    steps = [write for write in unit if isinstance(write, ReplaceProvider | Reallocate)]
    assert len(steps) == 5
    fresh = PlacementDesk()
    host = Provider(HOST, "host", None, 0, inventories(VCPU=8, DISK_GB=100))
    await fresh.ledger.write(Put(host), Put(Provider(PART, "part", HOST)))
    await fresh.follower.start()
    await fresh.allocation_service.put([share(1, {VCPU: 1, DISK_GB: 40})])
    await fresh.allocation_service.put([share(2, {DISK_GB: 60})])
    assert await dump(fresh.ledger) == before
    bad = Remove(Kind.PROVIDER, "nobody")
    (outcome,) = await fresh.ledger.commit([(*steps[: place + 1], bad, *steps[place + 1 :])])
    assert getattr(outcome, "conflict", None)
    assert await dump(fresh.ledger) == before


async def test_a_reshape_waits_for_nobody(desk: PlacementDesk) -> None:
    """A reshape is decided anew if another change is committed meanwhile."""
    meanwhile = [Add(ResourceClass("CUSTOM_NEW", 1))]

    async def interfere(units: Sequence[Unit]) -> None:
        del units
        if meanwhile:
            version = await desk.ledger.version()
            await desk.ledger.write(Guard(class_guard("CUSTOM_OLD"), version), meanwhile.pop())

    await desk.ledger.write(Add(ResourceClass("CUSTOM_OLD", 0)))
    desk.ledger.before_commit = interfere
    wanted = {**TO_PART, PART: (0, inventories(DISK_GB=100, CUSTOM_OLD=1))}
    await desk.reshape_service.reshape(wanted, MOVED)
    assert not meanwhile
    assert "CUSTOM_OLD" in (await desk.provider(2)).inventories


async def test_two_reshapes_at_once(desk: PlacementDesk) -> None:
    """Of two simultaneous reshapes one succeeds, and the other has a wrong generation."""
    second = PlacementDesk(desk.ledger)
    await second.follower.start()
    results = await asyncio.gather(
        desk.reshape_service.reshape(TO_PART, MOVED),
        second.reshape_service.reshape(TO_PART, MOVED),
        return_exceptions=True,
    )
    assert [type(one) for one in results].count(type(None)) == 1
    (error,) = [one for one in results if one is not None]
    assert isinstance(error, GenerationError)
