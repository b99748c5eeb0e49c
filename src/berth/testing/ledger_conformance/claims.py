"""Claims: none exceeds the free capacity, each is all or nothing, and each key is claimed once."""

# ruff: noqa: S101, PLR2004 - a conformance suite is made of asserts

import asyncio
from dataclasses import replace

from berth.domain.inventory.allocation import Allocation, Claim, Shortage, ShortageRule
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.write import Committed, Free, Put, Rejected, Take
from berth.ports.ledger import Ledger
from berth.testing.builders import (
    make_allocation,
    make_claim,
    make_fleet,
    make_instance,
    make_provider,
    make_take,
    make_uuid,
)
from berth.testing.ledger_conformance.fixtures import LedgerFixtures, commit, refused

HOST_1 = make_uuid("host", 1)
HOST_2 = make_uuid("host", 2)


async def used_of(ledger: Ledger, provider_uuid: str = HOST_1) -> dict[str, int]:
    """Return the usage of a provider by class, without zeros."""
    provider = await ledger.get(Provider, provider_uuid)
    assert provider is not None
    return {name: amount for name, amount in provider.used.items() if amount}


class ClaimTests(LedgerFixtures):
    """Tests of `Take` and `Free`."""

    async def test_a_claim_that_fits_is_used_and_allocated(self, ledger: Ledger) -> None:
        """The amounts of a committed claim are in use, and can be read as an allocation."""
        amounts = {VCPU: 2, MEMORY_MB: 512}
        await commit(ledger, *make_fleet(1), (make_take(1, amounts=amounts),))
        assert await used_of(ledger) == amounts
        assert await ledger.allocations() == [make_allocation(1, amounts=amounts)]

    async def test_the_last_unit_of_capacity_can_be_taken_and_no_more(self, ledger: Ledger) -> None:
        """A claim of exactly the remaining capacity fits; a claim of one unit more does not."""
        await commit(ledger, *make_fleet(1, vcpus=4), (make_take(1, amounts={VCPU: 3}),))
        refusal = await refused(ledger, (make_take(2, amounts={VCPU: 2}),))
        assert refusal == Rejected(shortages=(Shortage(HOST_1, VCPU, asked=2, left=1),))
        await commit(ledger, (make_take(3, amounts={VCPU: 1}),))
        assert await used_of(ledger) == {VCPU: 4}

    async def test_capacity_is_what_ratio_and_reserve_leave(self, ledger: Ledger) -> None:
        """Capacity is (total - reserved) x ratio, even if that exceeds the total."""
        inventory = Inventory(total=10, reserved=2, allocation_ratio=1.5)
        provider = replace(make_provider(1), inventories={VCPU: inventory})
        await commit(ledger, (Put(provider),), (make_take(1, amounts={VCPU: 10}),))
        refusal = await refused(ledger, (make_take(2, amounts={VCPU: 3}),))
        assert refusal.shortages == (Shortage(HOST_1, VCPU, asked=3, left=2),)

    async def test_a_claim_is_summed_over_its_consumers(self, ledger: Ledger) -> None:
        """The amounts of all consumers of a claim are added up, and are refused together."""
        await commit(ledger, *make_fleet(1, vcpus=5))
        allocations = tuple(make_allocation(n, amounts={VCPU: 2}) for n in (1, 2, 3))
        refusal = await refused(ledger, (Take(Claim("gang", allocations)),))
        assert refusal.shortages == (Shortage(HOST_1, VCPU, asked=6, left=5),)
        assert await used_of(ledger) == {}
        assert await ledger.allocations() == []

    async def test_earlier_units_of_a_batch_count(self, ledger: Ledger) -> None:
        """The units of one commit are decided in order; each sees the claims of earlier ones."""
        await commit(ledger, *make_fleet(1, vcpus=3))
        # The second unit is refused, so the amount that it asked for is left for the third.
        units = [(make_take(n, amounts={VCPU: amount}),) for n, amount in enumerate((2, 2, 1), 1)]
        first, second, third = await ledger.commit(units)
        assert first == Committed(2)
        assert second == Rejected(shortages=(Shortage(HOST_1, VCPU, asked=2, left=1),))
        assert third == Committed(3)

    async def test_every_shortage_is_named(self, ledger: Ledger) -> None:
        """A refusal gives the requested and the free amount of each class of each provider."""
        await commit(ledger, *make_fleet(2, vcpus=2))
        allocations = (
            make_allocation(1, on=1, amounts={VCPU: 3, MEMORY_MB: 1}),
            make_allocation(2, on=2, amounts={VCPU: 1, MEMORY_MB: 99_999}),
        )
        refusal = await refused(ledger, (Take(Claim("both", allocations)),))
        assert refusal.shortages == (
            Shortage(HOST_1, VCPU, 3, 2, ShortageRule.UNITS),
            Shortage(HOST_2, MEMORY_MB, 99_999, 32_768, ShortageRule.UNITS),
        )

    async def test_nothing_is_left_of_what_is_unknown(self, ledger: Ledger) -> None:
        """An unknown provider or class has 0 left."""
        await commit(ledger, *make_fleet(1))
        no_class = await refused(ledger, (make_take(1, amounts={"CUSTOM_FPGA": 1}),))
        assert no_class.shortages == (
            Shortage(HOST_1, "CUSTOM_FPGA", 1, 0, ShortageRule.NO_INVENTORY),
        )
        no_host = await refused(ledger, (make_take(1, on=2),))
        assert no_host.shortages == (Shortage(HOST_2, VCPU, 1, 0, ShortageRule.NO_PROVIDER),)

    async def test_an_allocation_may_not_pass_max_unit(self, ledger: Ledger) -> None:
        """One allocation gets at most `max_unit` and at most the total, however much is free."""
        inventories = {
            VCPU: Inventory(total=8, allocation_ratio=4.0),
            MEMORY_MB: Inventory(total=1024, max_unit=256),
        }
        await commit(ledger, (Put(replace(make_provider(1), inventories=inventories)),))
        by_total = await refused(ledger, (make_take(1, amounts={VCPU: 9}),))
        assert by_total.shortages == (Shortage(HOST_1, VCPU, 9, 8, ShortageRule.UNITS),)
        by_unit = await refused(ledger, (make_take(1, amounts={MEMORY_MB: 257}),))
        assert by_unit.shortages == (Shortage(HOST_1, MEMORY_MB, 257, 256, ShortageRule.UNITS),)
        both = tuple(make_allocation(n, amounts={VCPU: 8, MEMORY_MB: 256}) for n in (1, 2))
        await commit(ledger, (Take(Claim("two", both)),))

    async def test_an_allocation_keeps_to_min_unit_and_step_size(self, ledger: Ledger) -> None:
        """Amounts below `min_unit`, between steps, zero or negative are refused with 0 left."""
        inventories = {VCPU: Inventory(total=64, min_unit=4, step_size=2)}
        await commit(ledger, (Put(replace(make_provider(1), inventories=inventories)),))
        for amount in (2, 5, 0, -4):
            refusal = await refused(ledger, (make_take(1, amounts={VCPU: amount}),))
            assert refusal.shortages == (Shortage(HOST_1, VCPU, amount, 0, ShortageRule.UNITS),)
        await commit(ledger, (make_take(1, amounts={VCPU: 6}),))

    async def test_a_repeated_claim_takes_once(self, ledger: Ledger) -> None:
        """Repeating a claim key returns its first version and takes nothing."""
        version = await commit(ledger, *make_fleet(1), (make_take(1),))
        again = await ledger.commit([(make_take(1),), (make_take(1),)])
        # Callers retry after an error that leaves open whether the claim was committed.
        assert again == [Committed(version, repeated=True)] * 2
        assert await used_of(ledger) == {VCPU: 1}
        # A repetition must not even make a version: followers would apply it twice.
        assert await ledger.version() == version

    async def test_a_claim_repeated_within_a_batch_takes_once(self, ledger: Ledger) -> None:
        """The second of two equal claims in one commit is a repetition of the first."""
        await commit(ledger, *make_fleet(1))
        outcomes = await ledger.commit([(make_take(1),), (make_take(1),)])
        assert outcomes == [Committed(2), Committed(2, repeated=True)]
        assert await used_of(ledger) == {VCPU: 1}

    async def test_a_repetition_wins_over_every_conflict(self, ledger: Ledger) -> None:
        """A unit whose claim was committed is a repetition even if its other writes conflict."""
        instance = make_instance(1)
        unit = (make_take(1), Put(instance))
        await commit(ledger, *make_fleet(1), unit)
        assert await ledger.commit([unit]) == [Committed(2, repeated=True)]

    async def test_a_refused_claim_may_be_tried_again(self, ledger: Ledger) -> None:
        """A refusal does not use up a claim's key."""
        await commit(ledger, *make_fleet(1, vcpus=1), (make_take(1),))
        await refused(ledger, (make_take(2),))
        await commit(ledger, (Free(make_uuid("instance", 1)),), (make_take(2),))

    async def test_keys_of_one_unit_stand_together(self, ledger: Ledger) -> None:
        """A unit is refused if only some of its claims are known, or if two have the same key."""
        await commit(ledger, *make_fleet(1), (make_take(1),))
        assert (await refused(ledger, (make_take(1), make_take(2)))).conflict
        assert (await refused(ledger, (make_take(3), make_take(3)))).conflict

    async def test_a_consumer_has_one_claim(self, ledger: Ledger) -> None:
        """A consumer that holds allocations gets no others under another key."""
        await commit(ledger, *make_fleet(2), (make_take(1),))
        other = Take(replace(make_claim(1, on=2), key="other"))
        assert (await refused(ledger, (other,))).conflict

    async def test_a_claim_names_a_consumer_and_provider_once(self, ledger: Ledger) -> None:
        """A claim with two allocations of one consumer on one provider is refused."""
        await commit(ledger, *make_fleet(1))
        claim = Claim("twice", (make_allocation(1), make_allocation(1)))
        assert (await refused(ledger, (Take(claim),))).conflict

    async def test_freed_room_can_be_taken_in_the_same_unit(self, ledger: Ledger) -> None:
        """One unit may free capacity and take the same capacity, as a move does."""
        await commit(ledger, *make_fleet(2, vcpus=4), (make_take(1, amounts={VCPU: 4}),))
        free = Free(make_uuid("instance", 1))
        allocations = (
            make_allocation(1, on=1, amounts={VCPU: 2}),
            make_allocation(1, on=2, amounts={VCPU: 2}),
        )
        await commit(ledger, (free, Take(Claim("resize", allocations))))
        assert await ledger.allocations() == list(allocations)
        assert await used_of(ledger, HOST_1) == await used_of(ledger, HOST_2) == {VCPU: 2}

    async def test_a_refused_unit_leaves_no_trace(self, ledger: Ledger) -> None:
        """All writes of a refused unit are undone, those before the refused one included."""
        await commit(ledger, *make_fleet(1, vcpus=1), (make_take(1), Put(make_instance(1))))
        before = await ledger.snapshot(0.0)
        unit = (
            Free(make_uuid("instance", 1)),
            Put(make_provider(1, vcpus=99)),
            Put(make_instance(2)),
            make_take(2),
            # Only this last write conflicts, after all writes before it have been applied.
            Put(replace(make_instance(1), revision=7)),
        )
        assert (await refused(ledger, unit)).conflict
        assert await ledger.snapshot(0.0) == before
        assert await ledger.allocations() == [make_allocation(1)]

    async def test_freeing_nothing_is_no_error(self, ledger: Ledger) -> None:
        """Freeing a consumer that holds nothing is committed and changes nothing."""
        await commit(ledger, *make_fleet(1), (make_take(1),), (Free("unknown"),))
        assert await used_of(ledger) == {VCPU: 1}

    async def test_allocations_are_found_by_consumer_and_provider(self, ledger: Ledger) -> None:
        """Allocations can be listed for one consumer, one provider, or both."""
        takes = [(make_take(n, on=on),) for n, on in ((1, 1), (2, 1), (3, 2))]
        await commit(ledger, *make_fleet(2), *takes)
        first, second, third = (make_allocation(n, on=on) for n, on in ((1, 1), (2, 1), (3, 2)))
        assert await ledger.allocations() == [first, second, third]
        assert await ledger.allocations(provider_uuid=HOST_1) == [first, second]
        assert await ledger.allocations(consumer_uuid=third.consumer_uuid) == [third]
        consumer = first.consumer_uuid
        assert await ledger.allocations(consumer_uuid=consumer, provider_uuid=HOST_2) == []

    async def test_concurrent_claims_never_overcommit(self, ledger: Ledger) -> None:
        """Of 40 concurrent callers for the last 10 units, exactly 10 succeed."""
        await commit(ledger, *make_fleet(1, vcpus=10))
        answers = await asyncio.gather(
            *(ledger.commit([(make_take(n), Put(make_instance(n)))]) for n in range(1, 41))
        )
        versions = [a[0].version for a in answers if isinstance(a[0], Committed)]
        assert sorted(versions) == list(range(2, 12))
        assert await used_of(ledger) == {VCPU: 10}
        assert len(await ledger.allocations()) == 10

    async def test_a_cancelled_commit_leaves_the_ledger_usable(self, ledger: Ledger) -> None:
        """The unit of a cancelled caller may be committed, and the ledger keeps working."""
        await commit(ledger, *make_fleet(1))
        task = asyncio.ensure_future(ledger.commit([(make_take(1),)]))
        # This lets the commit reach the writer, so that it is cancelled while it is in progress.
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await commit(ledger, (make_take(2),))
        # Whether or not the unit was committed, its key makes a retry take the amounts only once.
        outcome = (await ledger.commit([(make_take(1),)]))[0]
        assert isinstance(outcome, Committed)
        assert await used_of(ledger) == {VCPU: 2}

    async def test_a_provider_may_be_a_child(self, ledger: Ledger) -> None:
        """A claim may span a host's provider and its children, for one consumer."""
        child = replace(
            make_provider(2), parent_uuid=HOST_1, inventories={"CUSTOM_GPU": Inventory(total=1)}
        )
        await commit(ledger, (Put(make_provider(1)), Put(child)))
        allocations = (
            make_allocation(1, on=1),
            Allocation(make_uuid("instance", 1), child.uuid, {"CUSTOM_GPU": 1}),
        )
        await commit(ledger, (Take(Claim("tree", allocations)),))
        assert await used_of(ledger, child.uuid) == {"CUSTOM_GPU": 1}
