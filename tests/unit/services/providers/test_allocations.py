"""Tests for claims through the Placement API and the rules that refuse them."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from berth.domain.errors import ConflictError
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.write import ConsumerUpdate, Put
from berth.services.providers.allocations import AllocationRefusedError, AllocationRule
from berth.testing.builders import make_provider, make_uuid
from tests.unit.services.placement_desk import PlacementDesk, dump, share

HOST = make_uuid("host", 1)


@pytest.fixture
async def desk() -> PlacementDesk:
    """Return services with two providers of 16 VCPUs, of which one request may have 4."""
    desk = PlacementDesk()
    for number in (1, 2):
        provider = make_provider(number)
        limited = {
            VCPU: Inventory(16, max_unit=4),
            MEMORY_MB: Inventory(32_768),
            DISK_GB: Inventory(1000, max_unit=5000),
        }
        await desk.ledger.write(
            Put(Provider(provider.uuid, provider.name, None, 0, inventories=limited))
        )
    await desk.ledger.write(Put(Provider(make_uuid("host", 3), "bare")))
    await desk.follower.start()
    return desk


async def refusal(desk: PlacementDesk, *shares: ConsumerUpdate) -> AllocationRefusedError:
    """Return the error that refuses these updates, and check that nothing changed."""
    before = await dump(desk.ledger)
    with pytest.raises(AllocationRefusedError) as refused:
        await desk.allocation_service.put(shares)
    assert await dump(desk.ledger) == before
    return refused.value


async def test_what_a_consumer_holds_is_replaced(desk: PlacementDesk) -> None:
    """A consumer's allocations are replaced in one unit, and the provider's generation rises."""
    await desk.allocation_service.put([share()])
    assert await desk.held() == {HOST: {VCPU: 1}}
    assert (await desk.provider()).generation == 1
    await desk.allocation_service.put([share(amounts={VCPU: 2, DISK_GB: 5}, seen=1)])
    assert await desk.held() == {HOST: {VCPU: 2, DISK_GB: 5}}
    provider = await desk.provider()
    assert (provider.generation, provider.used) == (2, {VCPU: 2, MEMORY_MB: 0, DISK_GB: 5})
    await desk.allocation_service.put([share(amounts={}, seen=2)])
    assert await desk.held() == {}
    assert not any((await desk.provider()).used.values())


async def test_several_consumers_change_together(desk: PlacementDesk) -> None:
    """Several consumers change together or not at all."""
    await desk.allocation_service.put([share(n, {VCPU: 4}) for n in (1, 2, 3, 4)])
    assert (await refusal(desk, share(5, {VCPU: 4}))).rule is AllocationRule.CAPACITY
    await desk.allocation_service.put([share(1, {}, seen=1), share(5, {VCPU: 4})])
    assert (await desk.held(1), await desk.held(5)) == ({}, {HOST: {VCPU: 4}})


async def test_a_refused_consumer_leaves_nothing(desk: PlacementDesk) -> None:
    """A refused consumer leaves no record."""
    await refusal(desk, share(on=9))
    await desk.allocation_service.put([share(amounts={}, seen=None)])
    await desk.allocation_service.put([share()])
    assert await desk.held() == {HOST: {VCPU: 1}}


@pytest.mark.parametrize(
    ("amounts", "on", "rule", "names"),
    [
        ({VCPU: 1}, 9, AllocationRule.NO_PROVIDER, ()),
        ({DISK_GB: 1, "CUSTOM_NO": 1}, 1, AllocationRule.NO_CLASS, ("CUSTOM_NO",)),
        ({DISK_GB: 1, VCPU: 1}, 3, AllocationRule.NO_INVENTORY, (VCPU, DISK_GB)),
        ({VCPU: 5}, 1, AllocationRule.UNITS, (VCPU,)),
        ({DISK_GB: 1001, VCPU: 5}, 1, AllocationRule.CAPACITY, (DISK_GB,)),
        ({VCPU: 5, DISK_GB: 1001}, 1, AllocationRule.UNITS, (VCPU,)),
    ],
)
async def test_the_first_rule_is_told(
    desk: PlacementDesk,
    amounts: Mapping[str, int],
    on: int,
    rule: AllocationRule,
    names: Sequence[str],
) -> None:
    """The first broken rule is reported with its provider and classes."""
    error = await refusal(desk, share(amounts=amounts, on=on))
    assert (error.rule, error.subject, error.names) == (rule, make_uuid("host", on), names)


async def test_the_first_amount_that_is_wrong_is_told(desk: PlacementDesk) -> None:
    """The first amount that breaks a rule is reported."""
    first, second = share(1, {VCPU: 4}), share(2, {DISK_GB: 5001})
    error = await refusal(desk, first, second, share(3, {VCPU: 5}))
    assert (error.rule, error.names) == (AllocationRule.UNITS, (DISK_GB,))


async def test_amounts_are_summed_in_the_order_of_the_request(desk: PlacementDesk) -> None:
    """Amounts are summed in the order of the request."""
    amounts = ({DISK_GB: 600}, {MEMORY_MB: 20_000}, {MEMORY_MB: 20_000}, {DISK_GB: 600})
    error = await refusal(desk, *(share(n, one) for n, one in enumerate(amounts, 1)))
    assert (error.rule, error.names) == (AllocationRule.CAPACITY, (MEMORY_MB,))


async def test_a_class_that_one_provider_has_not(desk: PlacementDesk) -> None:
    """Only the class that the provider lacks is reported."""
    small = Provider(make_uuid("host", 3), "bare", inventories={VCPU: Inventory(1)})
    await desk.ledger.write(Put(small))
    error = await refusal(desk, share(amounts={VCPU: 1, DISK_GB: 1}, on=3))
    assert (error.rule, error.names) == (AllocationRule.NO_INVENTORY, (DISK_GB,))


async def test_a_consumer_that_has_changed_is_told_with_both_generations(
    desk: PlacementDesk,
) -> None:
    """A wrong consumer generation is reported with the actual and the seen one."""
    error = await refusal(desk, share(seen=3))
    assert (error.rule, error.actual, error.seen) == (AllocationRule.CONSUMER_GENERATION, None, 3)
    await desk.allocation_service.put([share()])
    error = await refusal(desk, share())
    assert (error.subject, error.actual, error.seen) == (make_uuid("consumer", 1), 1, None)


async def test_a_consumer_named_twice_is_refused(desk: PlacementDesk) -> None:
    """A consumer that is named twice is refused."""
    with pytest.raises(ConflictError, match="named twice"):
        await desk.allocation_service.put([share(), share()])


async def test_all_is_freed_at_once_or_there_was_nothing(desk: PlacementDesk) -> None:
    """Freeing a consumer keeps the generation, and is refused if it holds nothing."""
    consumer = make_uuid("consumer", 1)
    await desk.allocation_service.put([share(amounts={VCPU: 2})])
    await desk.allocation_service.release(consumer)
    provider = await desk.provider()
    assert (provider.generation, provider.used[VCPU]) == (1, 0)
    assert await desk.ledger.get(Consumer, consumer) is None
    with pytest.raises(AllocationRefusedError) as refused:
        await desk.allocation_service.release(consumer)
    assert (refused.value.rule, refused.value.subject) == (AllocationRule.NOT_HELD, consumer)


async def test_many_claims_of_one_provider_at_once() -> None:
    """Many simultaneous claims of one provider are all counted."""
    desk = PlacementDesk()
    await desk.ledger.write(Put(make_provider(1, vcpus=200)))
    await desk.follower.start()
    second = PlacementDesk(desk.ledger)
    await second.follower.start()
    await asyncio.gather(
        *((desk, second)[n % 2].allocation_service.put([share(n)]) for n in range(200))
    )
    for one in (desk, second):
        provider = await one.provider()
        assert (provider.used[VCPU], provider.generation) == (200, 200)
    assert len(await desk.ledger.provider_consumers(HOST)) == 200
    assert (await refusal(desk, share(200))).rule is AllocationRule.CAPACITY
