"""Reshape: inventories and their allocations move together, or not at all."""

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
"""The disk goes from a host to a part of it."""
CPU_GOES: WantedInventories = {HOST: (2, {}), PART: (0, inventories(MEMORY_MB=1, DISK_GB=100))}


@pytest.fixture
async def desk() -> PlacementDesk:
    """Return services with a host, which two consumers hold a disk of, and a bare part of it."""
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
    """Return what a consumer holds of the host and of the part."""
    both = {HOST: host, PART: part}
    return replace(
        share(number, seen=seen), allocations={uuid: one for uuid, one in both.items() if one}
    )


MOVED = (moved(1, {VCPU: 1}, {DISK_GB: 40}), moved(2, {}, {DISK_GB: 60}))


async def test_inventory_moves_while_it_is_in_use(desk: PlacementDesk) -> None:
    """Both providers and both consumers are as they are to be, after one unit."""
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
    """By each of three steps that has something to do with the provider."""
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
    """Return why a reshape is refused, and check that nothing of it happened."""
    before = await dump(desk.ledger)
    with pytest.raises((ProviderRefusedError, GenerationError, AllocationRefusedError)) as refused:
        await desk.reshape_service.reshape(wanted, shares)
    assert await dump(desk.ledger) == before
    await desk.reshape_service.reshape(TO_PART, MOVED)
    return refused.value


async def test_a_provider_that_has_changed(desk: PlacementDesk) -> None:
    """Both generations are told."""
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
    """An unknown provider or class, and a class that a consumer still holds in the end."""
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
    """After the inventories of the first step, and told as for any other claim."""
    error = await refusal(desk, TO_PART, shares)
    assert isinstance(error, AllocationRefusedError)
    assert error.rule is rule


async def test_others_keep_what_they_hold(desk: PlacementDesk) -> None:
    """Who is not named stands in the way of what it holds going away."""
    error = await refusal(desk, TO_PART, MOVED[:1])
    assert isinstance(error, ProviderRefusedError)
    assert (error.why, error.names) == (RefusalRule.INVENTORY_IN_USE, (DISK_GB,))


@pytest.mark.parametrize("place", range(5))
async def test_any_step_that_fails_undoes_those_before(desk: PlacementDesk, place: int) -> None:
    """Whatever write of the unit is refused, nothing of it is there."""
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
    """A change that comes between its decision and its commit makes it decide anew."""
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
    """One wins; the other is told that the provider has changed."""
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
