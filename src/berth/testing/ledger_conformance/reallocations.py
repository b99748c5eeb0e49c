"""Reallocations, which replace everything that consumers hold, whichever API allocated it."""

# ruff: noqa: S101, PLR2004 - a conformance suite is made of asserts

from dataclasses import replace

import pytest

from berth.domain.inventory.allocation import Consumer, Shortage, ShortageRule
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.change import Usage
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import (
    Add,
    ConsumerUpdate,
    Free,
    Put,
    Reallocate,
    Rejected,
    RejectionCause,
    Remove,
    Take,
)
from berth.ports.ledger import Ledger
from berth.testing.builders import (
    CREATED_AT_S,
    make_claim,
    make_consumer,
    make_fleet,
    make_instance,
    make_provider,
    make_share,
    make_take,
    make_uuid,
)
from berth.testing.ledger_conformance.claims import HOST_1, HOST_2, used_of
from berth.testing.ledger_conformance.fixtures import LedgerFixtures, commit, refused


async def generation_of(ledger: Ledger, provider_uuid: str = HOST_1) -> int:
    """Return the generation of a provider."""
    provider = await ledger.get(Provider, provider_uuid)
    assert provider is not None
    return provider.generation


def put(*shares: ConsumerUpdate) -> tuple[Reallocate]:
    """Return the unit that gives consumers their shares."""
    return (Reallocate(shares),)


async def holds(ledger: Ledger, number: int = 1) -> dict[int, int]:
    """Return the VCPUs that a consumer holds on hosts 1 to 3, by host number."""
    found = await ledger.allocations(consumer_uuid=make_uuid("consumer", number))
    hosts = {make_uuid("host", on): on for on in range(1, 4)}
    return {hosts[one.provider_uuid]: one.amounts[VCPU] for one in found}


class ReallocationTests(LedgerFixtures):
    """Tests of `Reallocate`, and of `Free` for consumers with a record."""

    async def test_a_new_consumer_is_kept_at_generation_1(self, ledger: Ledger) -> None:
        """The record of a new consumer is read back as written, by key and in the list."""
        await commit(ledger, *make_fleet(1), put(make_share(1, on_1=2)))
        stored = replace(make_consumer(1), generation=1)
        assert await ledger.get(Consumer, stored.uuid) == stored
        assert await ledger.all(Consumer) == [stored]
        assert await used_of(ledger) == {VCPU: 2}
        assert await holds(ledger) == {1: 2}

    async def test_all_of_it_is_replaced(self, ledger: Ledger) -> None:
        """Allocations that are not repeated are released; the time of creation stays."""
        await commit(ledger, *make_fleet(3), put(make_share(1, on_1=2, on_2={MEMORY_MB: 64})))
        again = make_share(1, seen=1, on_2=1, on_3=3)
        # A client repeats all attributes; only the time of creation is the ledger's own.
        later = replace(again.consumer, user_id="user-2", created_at_s=5e9, updated_at_s=5e9)
        await commit(ledger, put(replace(again, consumer=later)))
        assert await holds(ledger) == {2: 1, 3: 3}
        assert await used_of(ledger, HOST_1) == {}
        assert await used_of(ledger, HOST_2) == {VCPU: 1}
        stored = await ledger.get(Consumer, later.uuid)
        assert stored == replace(later, generation=2, created_at_s=CREATED_AT_S + 1)

    async def test_a_consumer_at_another_generation_refuses_all(self, ledger: Ledger) -> None:
        """The refusal names the consumer and its generation; an unchecked share is accepted."""
        uuid = make_consumer(2).uuid
        await commit(ledger, *make_fleet(1), put(make_share(2, on_1=1)))
        # None means that the consumer does not exist; 0 and 2 are other generations than its own.
        for seen in (None, 0, 2):
            refusal = await refused(ledger, put(make_share(1, on_1=1), make_share(2, seen=seen)))
            assert refusal.conflict
            assert not refusal.stale
            found = (refusal.cause, refusal.subject, refusal.actual)
            assert found == (RejectionCause.CONSUMER_GENERATION, uuid, 1)
        # The share gives a generation for a consumer that does not exist.
        refusal = await refused(ledger, put(make_share(3, seen=1, on_1=1)))
        found = (refusal.cause, refusal.subject, refusal.actual)
        assert found == (RejectionCause.CONSUMER_GENERATION, make_consumer(3).uuid, None)
        assert await holds(ledger, 1) == {}
        # Without the check, the same write is accepted twice and raises the generation each time.
        for _ in range(2):
            await commit(ledger, put(replace(make_share(2, on_1=5), is_checked=False)))
        assert await holds(ledger, 2) == {1: 5}
        stored = await ledger.get(Consumer, uuid)
        assert stored is not None
        assert stored.generation == 3

    async def test_an_emptied_consumer_is_deleted(self, ledger: Ledger) -> None:
        """A consumer that comes back is new, and emptying an unknown consumer is accepted."""
        await commit(ledger, *make_fleet(1), put(make_share(1, on_1=1)))
        await commit(ledger, put(make_share(1, seen=1)))
        assert await ledger.all(Consumer) == []
        assert await ledger.allocations() == []
        assert await used_of(ledger) == {}
        await commit(ledger, put(make_share(1)), put(make_share(1, on_1={})))
        assert await ledger.all(Consumer) == []
        assert (await refused(ledger, put(make_share(1, seen=2, on_1=1)))).actual is None
        await commit(ledger, put(make_share(1, on_1=1)))

    async def test_generations_of_providers(self, ledger: Ledger) -> None:
        """New allocations and emptied consumers increment generations; `Free` does not."""
        await commit(ledger, *make_fleet(3), put(make_share(1, on_1=1), make_share(2, on_1=1)))
        hosts = [make_uuid("host", n) for n in (1, 2, 3)]
        assert [await generation_of(ledger, host) for host in hosts] == [1, 0, 0]
        await commit(ledger, put(make_share(1, seen=1, on_2=1)))
        assert [await generation_of(ledger, host) for host in hosts] == [1, 1, 0]
        await commit(ledger, put(make_share(1, seen=2, on_2=1)))
        assert [await generation_of(ledger, host) for host in hosts] == [1, 2, 0]
        await commit(ledger, put(make_share(1, seen=3), make_share(2, seen=1, on_3=1)))
        assert [await generation_of(ledger, host) for host in hosts] == [1, 3, 1]
        await commit(ledger, (Free(make_consumer(2).uuid),))
        assert [await generation_of(ledger, host) for host in hosts] == [1, 3, 1]
        await commit(ledger, (make_take(1), make_take(2)), (Put(make_provider(3)),))
        assert [await generation_of(ledger, host) for host in hosts] == [2, 3, 2]
        snapshot = await ledger.snapshot(0.0)
        assert [one.generation for one in snapshot.providers] == [2, 3, 2]

    async def test_the_feed_tells_usage_with_the_generation(self, ledger: Ledger) -> None:
        """The feed reports even providers whose generation alone changed, but no consumers."""
        await commit(ledger, *make_fleet(2), put(make_share(1, on_1=1)))
        version = await commit(ledger, put(make_share(1, seen=1, on_1=1)))
        zeros = {MEMORY_MB: 0, DISK_GB: 0}
        events = [change.event for change in await ledger.changes(version - 1)]
        assert events == [Usage(HOST_1, {VCPU: 1, **zeros}, 2)]
        version = await commit(ledger, put(make_share(1, seen=2, on_2=2)))
        events = [change.event for change in await ledger.changes(version - 1)]
        assert events == [
            Usage(HOST_1, {VCPU: 0, **zeros}, 2),
            Usage(HOST_2, {VCPU: 2, **zeros}, 1),
        ]

    async def test_consumers_are_summed_and_refused_together(self, ledger: Ledger) -> None:
        """All shares together have to fit; a refused unit creates no consumer."""
        await commit(ledger, *make_fleet(1, vcpus=5))
        before = await ledger.snapshot(0.0)
        shares = [make_share(number, on_1=2) for number in (1, 2, 3)]
        refusal = await refused(ledger, put(*shares))
        assert refusal == Rejected(shortages=(Shortage(HOST_1, VCPU, asked=6, left=5),))
        assert await ledger.all(Consumer) == []
        assert await ledger.allocations() == []
        assert await ledger.snapshot(0.0) == before
        await commit(ledger, put(*shares[:2]))
        moved = (make_share(1, seen=1), make_share(2, seen=1, on_1=5))
        await commit(ledger, put(*moved))
        assert await used_of(ledger) == {VCPU: 5}

    async def test_every_rule_is_named(self, ledger: Ledger) -> None:
        """A refusal says whether the provider, the class, the unit or the capacity is wrong."""
        inventories = {VCPU: Inventory(total=8, min_unit=2, max_unit=4, step_size=2)}
        provider = replace(make_provider(1), inventories=inventories)
        await commit(ledger, (Put(provider),), put(make_share(9, on_1=4)))
        for amounts, rule, left in (
            ({"CUSTOM_X": 1}, ShortageRule.NO_INVENTORY, 0),
            ({VCPU: 1}, ShortageRule.UNITS, 0),
            ({VCPU: 3}, ShortageRule.UNITS, 0),
            ({VCPU: 6}, ShortageRule.UNITS, 4),
        ):
            refusal = await refused(ledger, put(make_share(1, on_1=amounts)))
            ((name, asked),) = amounts.items()
            assert refusal.shortages == (Shortage(HOST_1, name, asked, left, rule),)
        refusal = await refused(ledger, put(make_share(1, on_1=4), make_share(2, on_1=4)))
        assert refusal.shortages == (Shortage(HOST_1, VCPU, 8, 4, ShortageRule.CAPACITY),)
        refusal = await refused(ledger, put(make_share(1, on_2=4)))
        assert refusal.shortages == (Shortage(HOST_2, VCPU, 4, 0, ShortageRule.NO_PROVIDER),)

    async def test_usage_above_the_capacity_may_not_grow(self, ledger: Ledger) -> None:
        """Usage above the capacity may stay or shrink, but not grow."""
        await commit(ledger, *make_fleet(1), put(make_share(1, on_1=6), make_share(2, on_1=6)))
        fewer = {VCPU: Inventory(total=8, max_unit=16)}
        await commit(ledger, (Put(replace(make_provider(1), inventories=fewer)),))
        refusal = await refused(ledger, put(make_share(1, seen=1, on_1=7)))
        assert refusal.shortages == (Shortage(HOST_1, VCPU, asked=7, left=2),)
        assert (await refused(ledger, (make_take(1),))).shortages
        await commit(ledger, put(make_share(1, seen=1, on_1=6)))
        await commit(ledger, put(make_share(1, seen=2, on_1=5), make_share(2, seen=1, on_1=7)))
        await commit(ledger, put(make_share(1, seen=3, on_1=4)))
        assert await used_of(ledger) == {VCPU: 11}
        await commit(ledger, put(make_share(2, seen=2, on_1=4)))
        assert await used_of(ledger) == {VCPU: 8}
        assert await holds(ledger, 2) == {1: 4}

    async def test_a_consumer_is_named_once(self, ledger: Ledger) -> None:
        """A unit with two shares of one consumer is refused."""
        await commit(ledger, *make_fleet(1))
        assert (await refused(ledger, put(make_share(1, on_1=1), make_share(1)))).conflict

    async def test_units_of_one_batch_see_each_other(self, ledger: Ledger) -> None:
        """Each unit sees the generations that earlier units of the batch have left."""
        await commit(ledger, *make_fleet(1))
        outcomes = await ledger.commit(
            [
                put(make_share(1, on_1=1)),
                put(make_share(1, on_1=2)),
                put(make_share(1, seen=1, on_1=3)),
                (make_take(1), make_take(2)),
                put(make_share(1, seen=2)),
                put(make_share(1, on_1=4)),
                (Put(make_provider(1)),),
                put(make_share(1, seen=1, on_1=5)),
            ]
        )
        assert [isinstance(one, Rejected) for one in outcomes] == [False, True, *[False] * 6]
        assert await used_of(ledger) == {VCPU: 7}
        assert await generation_of(ledger) == 7
        stored = await ledger.get(Consumer, make_consumer(1).uuid)
        assert stored == replace(make_consumer(1), generation=2)

    async def test_an_instance_is_a_consumer_at_generation_1(self, ledger: Ledger) -> None:
        """A client can replace an instance's allocations, and Berth can still free them."""
        instance = make_instance(1, host="host-1")
        await commit(ledger, *make_fleet(2), (make_take(1), Put(instance)))
        consumer = replace(make_consumer(1), uuid=instance.uuid, consumer_type=None)
        share = replace(make_share(1, seen=1, on_2=2), consumer=consumer, keeps_type=True)
        await commit(ledger, put(share))
        stored = await ledger.get(Consumer, instance.uuid)
        assert stored == replace(consumer, generation=2, consumer_type="INSTANCE")
        assert await used_of(ledger, HOST_1) == {}
        again = Take(replace(make_claim(1, on=2), key="again"))
        await commit(ledger, (Free(instance.uuid), again))
        assert await ledger.get(Consumer, instance.uuid) is None

    async def test_a_type_that_is_stored_may_stay(self, ledger: Ledger) -> None:
        """`keeps_type` keeps the stored type, for clients without types; else it is replaced."""
        uuid = make_consumer(1).uuid
        await commit(ledger, *make_fleet(1), put(make_share(1, on_1=1)))
        share = make_share(1, seen=1, on_1=2)
        share = replace(share, consumer=replace(share.consumer, consumer_type=None))
        await commit(ledger, put(replace(share, keeps_type=True)))
        kept = await ledger.get(Consumer, uuid)
        await commit(ledger, put(replace(share, seen=2)))
        replaced = await ledger.get(Consumer, uuid)
        assert kept is not None
        assert replaced is not None
        assert (kept.consumer_type, replaced.consumer_type) == ("INSTANCE", None)

    async def test_freeing_drops_the_record(self, ledger: Ledger) -> None:
        """Freeing deletes the record; freeing nothing is refused only with `must_hold`."""
        uuid = make_consumer(1).uuid
        await commit(ledger, *make_fleet(1), put(make_share(1, on_1=1)), (Free(uuid),))
        assert await ledger.all(Consumer) == []
        await commit(ledger, put(make_share(1, on_1=1)))
        await commit(ledger, (Free(uuid, must_hold=True),))
        assert await ledger.all(Consumer) == []
        assert await used_of(ledger) == {}
        await commit(ledger, (Free(uuid),))
        refusal = await refused(ledger, (Free(uuid, must_hold=True),))
        assert refusal.conflict
        assert (refusal.cause, refusal.subject) == (RejectionCause.NOT_HELD, uuid)

    @pytest.mark.parametrize("write", [Put, Add])
    async def test_consumers_cannot_be_saved_directly(
        self, ledger: Ledger, write: type[Put] | type[Add]
    ) -> None:
        """Consumer records follow from allocations, so writing or removing one is refused."""
        assert (await refused(ledger, (write(make_consumer(1)),))).conflict
        await commit(ledger, *make_fleet(1), put(make_share(1, on_1=1)))
        remove = Remove(Kind.CONSUMER, make_consumer(1).uuid)
        assert (await refused(ledger, (remove,))).conflict
        assert len(await ledger.all(Consumer)) == 1
