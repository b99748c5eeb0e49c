"""Transfers, which pass everything that one consumer holds to another."""

# ruff: noqa: S101 - a conformance suite is made of asserts

from collections.abc import Mapping
from dataclasses import replace

from berth.domain.compute.instance import Instance
from berth.domain.inventory.allocation import Claim, Consumer, ConsumerAllocations
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.domain.ledger.change import Usage
from berth.domain.ledger.write import (
    Committed,
    Free,
    Put,
    RejectionCause,
    Take,
    TransferAllocations,
    Unit,
)
from berth.ports.ledger import Ledger
from berth.testing.builders import (
    make_allocation,
    make_claim,
    make_consumer,
    make_fleet,
    make_instance,
    make_migration,
    make_moving_consumer,
    make_share,
    make_take,
    make_uuid,
)
from berth.testing.ledger_conformance.claims import HOST_1, HOST_2, used_of
from berth.testing.ledger_conformance.feed import NOTHING, events_of
from berth.testing.ledger_conformance.fixtures import LedgerFixtures, commit, refused
from berth.testing.ledger_conformance.reallocations import generation_of, put

VM = make_uuid("instance", 1)
MOVE = make_moving_consumer(1)
LEAVES = TransferAllocations(VM, MOVE)
"""The write that transfers the instance's allocations to the migration."""
RETURNS = TransferAllocations(MOVE.uuid, replace(make_consumer(1), uuid=VM))
"""The write that transfers the migration's allocations to the instance."""
BOTH_HOSTS = Take(Claim("both", (make_allocation(1, amounts={VCPU: 3}), make_allocation(1, on=2))))
"""A claim of the instance on two hosts."""
PLACED: list[Unit] = [*make_fleet(2, vcpus=4), (BOTH_HOSTS, Put(make_instance(1)))]
"""Units that create two hosts and place the instance on both."""


def arrives(on: int, amount: int, key: str = "arrives") -> Take:
    """Return the claim of the instance for an amount of VCPUs on host `on`."""
    return Take(replace(make_claim(1, on=on, amounts={VCPU: amount}), key=key))


async def holds(ledger: Ledger, uuid: str) -> Mapping[str, Mapping[str, int]]:
    """Return the amounts that a consumer holds, by provider and class."""
    holding = await ledger.consumer_allocations(uuid)
    return {} if holding is None else holding.allocations


class TransferTests(LedgerFixtures):
    """Tests of `TransferAllocations`."""

    async def test_all_allocations_are_transferred(self, ledger: Ledger) -> None:
        """Allocations on all providers pass to the new holder, which is stored at generation 1."""
        await commit(ledger, *PLACED, (TransferAllocations(VM, replace(MOVE, generation=9)),))
        allocations = {HOST_1: {VCPU: 3}, HOST_2: {VCPU: 1}}
        stored = replace(MOVE, generation=1)
        assert await ledger.consumer_allocations(MOVE.uuid) == ConsumerAllocations(
            stored, allocations
        )
        assert await ledger.get(Consumer, MOVE.uuid) == stored
        assert await ledger.consumer_allocations(VM) is None
        assert await ledger.allocations(consumer_uuid=VM) == []
        (of_second,) = await ledger.provider_consumers(HOST_2)
        assert of_second == ConsumerAllocations(stored, {HOST_2: {VCPU: 1}})
        ours = await ledger.project_consumers(MOVE.project_id)
        assert [one.consumer for one in ours] == [stored]

    async def test_a_transfer_leaves_usage_unchanged(self, ledger: Ledger) -> None:
        """Neither usage nor generations change, so the feed reports nothing."""
        await commit(ledger, *PLACED)
        before = await ledger.snapshot(0.0)
        version = await commit(ledger, (LEAVES,))
        assert await events_of(ledger, version) == [NOTHING]
        assert await ledger.snapshot(0.0) == replace(before, version=version)
        assert await used_of(ledger) == {VCPU: 3}
        assert [await generation_of(ledger, host) for host in (HOST_1, HOST_2)] == [1, 1]

    async def test_an_instance_receives_allocations_without_a_record(self, ledger: Ledger) -> None:
        """A transfer back deletes the consumer record, and the instance is the consumer again."""
        await commit(ledger, *PLACED)
        before = await ledger.consumer_allocations(VM)
        await commit(ledger, (LEAVES,), (RETURNS,))
        assert await ledger.all(Consumer) == []
        assert await ledger.consumer_allocations(VM) == before
        assert await ledger.consumer_allocations(MOVE.uuid) is None

    async def test_the_record_of_the_source_is_deleted(self, ledger: Ledger) -> None:
        """The source's record is deleted, even one that a Placement client created."""
        consumer = replace(make_consumer(1), uuid=VM)
        share = replace(make_share(1, on_1=2), consumer=consumer)
        await commit(ledger, *make_fleet(1), put(share))
        assert await ledger.get(Consumer, VM) == replace(consumer, generation=1)
        await commit(ledger, (LEAVES,))
        assert await ledger.all(Consumer) == [replace(MOVE, generation=1)]
        await commit(ledger, (RETURNS,))
        assert await ledger.all(Consumer) == []
        assert await holds(ledger, VM) == {HOST_1: {VCPU: 2}}

    async def test_a_source_without_allocations_is_refused(self, ledger: Ledger) -> None:
        """The refusal names the empty source, even if the source held something before."""
        await commit(ledger, *make_fleet(1))
        for unit in ((LEAVES,), (make_take(1), Free(VM), LEAVES), (make_take(1), LEAVES, LEAVES)):
            refusal = await refused(ledger, unit)
            assert refusal.conflict
            assert (refusal.cause, refusal.subject) == (RejectionCause.NOT_HELD, VM)
        assert await used_of(ledger) == {}
        assert await ledger.allocations() == []

    async def test_an_empty_transfer_is_accepted_without_must_hold(self, ledger: Ledger) -> None:
        """Without `must_hold` an empty source is accepted, and no record of the target appears."""
        await commit(ledger, *make_fleet(1), (make_take(2),))
        before, held = await ledger.snapshot(0.0), await ledger.allocations()
        for taker in (MOVE, replace(make_consumer(2), uuid=make_uuid("instance", 2)), RETURNS.to):
            version = await commit(ledger, (TransferAllocations(VM, taker, must_hold=False),))
            assert await events_of(ledger, version) == [NOTHING]
        assert await ledger.snapshot(0.0) == replace(before, version=before.version + 3)
        assert await ledger.allocations() == held
        assert await ledger.all(Consumer) == []
        await commit(ledger, (make_take(1), replace(LEAVES, must_hold=False)))
        assert await holds(ledger, MOVE.uuid) == {HOST_1: {VCPU: 1}}

    async def test_a_target_with_allocations_is_refused(self, ledger: Ledger) -> None:
        """A target that holds something is refused, even if it is the source itself."""
        await commit(ledger, *PLACED, (make_take(2),))
        to_other = replace(make_consumer(2), uuid=make_uuid("instance", 2))
        to_itself = replace(make_consumer(1), uuid=VM)
        for taker in (to_other, to_itself):
            assert (await refused(ledger, (TransferAllocations(VM, taker),))).conflict
        assert await holds(ledger, VM) == {HOST_1: {VCPU: 3}, HOST_2: {VCPU: 1}}
        await commit(ledger, (Free(to_other.uuid), TransferAllocations(VM, to_other)))
        assert await holds(ledger, to_other.uuid) == {HOST_1: {VCPU: 3}, HOST_2: {VCPU: 1}}

    async def test_a_move_begins_in_one_unit(self, ledger: Ledger) -> None:
        """The migration keeps the source's capacity while the instance claims the destination's.

        If source and destination are the same host, both amounts are in use there.
        """
        await commit(ledger, *make_fleet(2, vcpus=4), (make_take(1), Put(make_instance(1))))
        move = make_migration(1)
        instance = replace(make_instance(1, host="host-2"), revision=1, migration_uuid=move.uuid)
        version = await commit(ledger, (LEAVES, arrives(1, 3), Put(instance), Put(move)))
        assert await holds(ledger, MOVE.uuid) == {HOST_1: {VCPU: 1}}
        assert await holds(ledger, VM) == {HOST_1: {VCPU: 3}}
        usage = Usage(HOST_1, {VCPU: 4, MEMORY_MB: 0, DISK_GB: 0}, generation=2)
        stored = replace(instance, revision=2)
        assert await events_of(ledger, version) == [stored, move, usage]
        assert await ledger.get(Instance, VM) == stored

    async def test_a_move_is_undone_in_one_unit(self, ledger: Ledger) -> None:
        """The instance's allocations are freed, and those that the migration kept are restored."""
        await commit(ledger, *make_fleet(2, vcpus=4), (make_take(1),), (LEAVES, arrives(2, 4)))
        await commit(ledger, (Free(VM), RETURNS))
        assert await holds(ledger, VM) == {HOST_1: {VCPU: 1}}
        assert await used_of(ledger, HOST_2) == {}
        assert await ledger.all(Consumer) == []

    async def test_a_refused_unit_transfers_nothing(self, ledger: Ledger) -> None:
        """Without capacity on the other host, nothing changes."""
        await commit(ledger, *PLACED)
        before, held = await ledger.snapshot(0.0), await ledger.allocations()
        refusal = await refused(ledger, (LEAVES, Put(make_migration(1)), arrives(2, 4)))
        assert [(one.asked, one.left) for one in refusal.shortages] == [(4, 3)]
        assert await ledger.snapshot(0.0) == before
        assert await ledger.allocations() == held
        assert await ledger.all(Consumer) == []
        await commit(ledger, (LEAVES, arrives(2, 3)))

    async def test_a_repeated_move_transfers_once(self, ledger: Ledger) -> None:
        """A unit with a known claim key is a repetition, whatever the source holds now."""
        unit = (LEAVES, arrives(2, 1))
        version = await commit(ledger, *make_fleet(2), (make_take(1),), unit)
        assert await ledger.commit([unit]) == [Committed(version, repeated=True)]
        assert await holds(ledger, VM) == {HOST_2: {VCPU: 1}}
        assert await holds(ledger, MOVE.uuid) == {HOST_1: {VCPU: 1}}

    async def test_units_of_one_batch_pass_allocations_on(self, ledger: Ledger) -> None:
        """Allocations can be taken, transferred twice and freed within one batch."""
        third = replace(make_consumer(3), consumer_type=None)
        await commit(
            ledger,
            *make_fleet(2),
            (make_take(1),),
            (LEAVES,),
            (TransferAllocations(MOVE.uuid, third),),
            (arrives(2, 2),),
        )
        assert await holds(ledger, third.uuid) == {HOST_1: {VCPU: 1}}
        assert await holds(ledger, VM) == {HOST_2: {VCPU: 2}}
        assert await ledger.all(Consumer) == [replace(third, generation=1)]
        await commit(ledger, (LEAVES,), (TransferAllocations(third.uuid, RETURNS.to),), (Free(VM),))
        assert await holds(ledger, MOVE.uuid) == {HOST_2: {VCPU: 2}}
        assert await used_of(ledger, HOST_1) == {}
        assert await used_of(ledger, HOST_2) == {VCPU: 2}

    async def test_transferred_allocations_are_freed_and_replaced(self, ledger: Ledger) -> None:
        """Transferred allocations can be replaced, transferred back and freed, repeatedly."""
        await commit(ledger, *make_fleet(2), (make_take(1),))
        for _ in range(2):
            await commit(ledger, (LEAVES,))
            share = replace(make_share(1, seen=1, on_1=2, on_2=1), consumer=MOVE)
            await commit(ledger, put(share))
            assert await used_of(ledger) == {VCPU: 2}
            await commit(ledger, (RETURNS,))
            await commit(ledger, (Free(VM),))
            assert await used_of(ledger) == {}
            await commit(ledger, (arrives(1, 1, key=f"again-{await ledger.version()}"),))
        assert await holds(ledger, VM) == {HOST_1: {VCPU: 1}}
