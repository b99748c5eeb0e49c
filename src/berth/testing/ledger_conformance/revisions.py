"""Replacing a provider at the generation that the caller has read."""

# ruff: noqa: S101, PLR2004 - a conformance suite is made of asserts

from dataclasses import replace

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import (
    Add,
    Committed,
    Free,
    Reallocate,
    RejectionCause,
    Remove,
    ReplaceProvider,
)
from berth.ports.ledger import Ledger
from berth.testing.builders import (
    make_consumer,
    make_fleet,
    make_provider,
    make_share,
    make_take,
    make_uuid,
)
from berth.testing.ledger_conformance.claims import HOST_1
from berth.testing.ledger_conformance.fixtures import (
    LedgerFixtures,
    as_refused,
    commit,
    refused,
)
from berth.testing.ledger_conformance.reallocations import generation_of, put

PROVIDER = make_provider(1)


def stocked(**totals: int) -> Provider:
    """Return the provider of `host-1` with inventories of these totals by class."""
    return replace(PROVIDER, inventories={name: Inventory(n) for name, n in totals.items()})


class RevisionTests(LedgerFixtures):
    """Tests of `ReplaceProvider`."""

    async def test_a_provider_is_replaced_and_its_generation_grows(self, ledger: Ledger) -> None:
        """Everything but the usage and the generation is replaced."""
        await commit(ledger, *make_fleet(1), (make_take(1),))
        revised = replace(
            stocked(VCPU=8, CUSTOM_X=1),
            name="other",
            traits=frozenset({"CUSTOM_FAST"}),
            aggregates=("b", "a"),
            owned_traits=frozenset(),
            owned_classes=frozenset({VCPU}),
            owned_parent_uuid="parent",
            created_at_s=1.5,
            updated_at_s=2.5,
            # Generation and usage in the record are the caller's; the ledger keeps its own.
            generation=77,
            used={VCPU: 5},
        )
        version = await commit(ledger, (ReplaceProvider(revised, generation=1),))
        expected = replace(revised, generation=2, used={VCPU: 1, "CUSTOM_X": 0})
        assert await ledger.get(Provider, HOST_1) == expected
        assert [one.event for one in await ledger.changes(version - 1)] == [expected]

    async def test_the_generation_grows_as_requested(self, ledger: Ledger) -> None:
        """`raises=0` keeps the generation; a write without `generation` accepts any stored one."""
        await commit(ledger, *make_fleet(1))
        await commit(ledger, (ReplaceProvider(replace(PROVIDER, name="other"), raises=0),))
        assert await generation_of(ledger) == 0
        await commit(
            ledger, (ReplaceProvider(PROVIDER),), (ReplaceProvider(PROVIDER, generation=1),)
        )
        assert await generation_of(ledger) == 2

    async def test_another_generation_is_refused(self, ledger: Ledger) -> None:
        """Claims increment the generation, even in one batch; the refusal gives the stored one."""
        await commit(ledger, *make_fleet(1))
        first, second = await ledger.commit(
            # The claim in the same batch has incremented the generation from 0 to 1.
            [(make_take(1),), (ReplaceProvider(PROVIDER, generation=0),)]
        )
        assert isinstance(first, Committed)
        late = await refused(ledger, (ReplaceProvider(PROVIDER, generation=2),))
        for refusal in (as_refused(second), late):
            assert refusal.conflict
            assert not refusal.stale
            found = (refusal.cause, refusal.subject, refusal.actual)
            assert found == (RejectionCause.GENERATION, HOST_1, 1)
        await commit(ledger, (ReplaceProvider(PROVIDER, generation=1),))

    async def test_a_missing_provider_is_not_created(self, ledger: Ledger) -> None:
        """Replacing a provider that does not exist, or was removed meanwhile, is refused."""
        refusal = await refused(ledger, (ReplaceProvider(PROVIDER),))
        assert refusal.conflict
        assert (refusal.cause, refusal.subject) == (RejectionCause.MISSING, HOST_1)
        await commit(ledger, (Add(PROVIDER),), (Remove(Kind.PROVIDER, HOST_1),))
        assert (
            await refused(ledger, (ReplaceProvider(PROVIDER, generation=0),))
        ).cause is RejectionCause.MISSING

    async def test_a_class_in_use_is_not_left_out(self, ledger: Ledger) -> None:
        """The refusal names the classes in use; after they are freed they may be left out."""
        amounts = {VCPU: 1, MEMORY_MB: 64}
        await commit(ledger, *make_fleet(1), put(make_share(1, on_1=amounts)))
        refusal = await refused(ledger, (ReplaceProvider(stocked(DISK_GB=1)),))
        assert refusal.conflict
        assert (refusal.cause, refusal.subject) == (RejectionCause.IN_USE, HOST_1)
        assert sorted(refusal.names) == [MEMORY_MB, VCPU]
        await commit(ledger, (Free(make_consumer(1).uuid), ReplaceProvider(stocked(DISK_GB=1))))
        provider = await ledger.get(Provider, HOST_1)
        assert provider is not None
        assert provider.inventories == {DISK_GB: Inventory(1)}

    async def test_an_inventory_may_shrink_below_its_usage(self, ledger: Ledger) -> None:
        """An inventory may shrink below its usage, even to 0."""
        await commit(ledger, *make_fleet(1), put(make_share(1, on_1=4)))
        await commit(ledger, (ReplaceProvider(stocked(VCPU=0)),))
        provider = await ledger.get(Provider, HOST_1)
        assert provider is not None
        assert (provider.used, provider.inventories) == ({VCPU: 4}, {VCPU: Inventory(0)})

    async def test_a_tree_is_reshaped_in_one_unit(self, ledger: Ledger) -> None:
        """A child gets inventory, allocations move to it, and the root loses the class."""
        child = Provider(make_uuid("child", 1), "child", HOST_1)
        await commit(ledger, *make_fleet(1), (Add(child),), put(make_share(1, on_1=4)))
        both = replace(child, inventories={VCPU: Inventory(8)})
        share = replace(make_share(1, seen=1), allocations={child.uuid: {VCPU: 4}})
        # The child needs inventory before allocations can move, and the root may lose the class
        # only afterwards: the order of writes in a unit matters.
        unit = (
            ReplaceProvider(both, generation=0),
            Reallocate((share,)),
            ReplaceProvider(both),
            ReplaceProvider(stocked(DISK_GB=1), generation=1),
        )
        # This unit fails in the middle, so the inventory given to the child must be taken back.
        short = replace(share, allocations={child.uuid: {VCPU: 9}})
        before = await ledger.snapshot(0.0)
        assert (await refused(ledger, (unit[0], Reallocate((short,)), *unit[2:]))).shortages
        assert (await refused(ledger, (unit[0], *unit[2:]))).cause is RejectionCause.IN_USE
        assert await ledger.snapshot(0.0) == before
        await commit(ledger, unit)
        found = {one.uuid: one for one in await ledger.all(Provider)}
        assert (found[HOST_1].generation, found[HOST_1].used) == (2, {DISK_GB: 0})
        assert (found[child.uuid].generation, found[child.uuid].used) == (3, {VCPU: 4})

    async def test_generations_survive_a_change_of_inventories(self, ledger: Ledger) -> None:
        """Generations incremented by claims survive a change of inventories."""
        await commit(ledger, *make_fleet(1))
        for number in range(1, 4):
            await commit(ledger, put(make_share(number, on_1=1)))
            await commit(ledger, (Free(make_consumer(number).uuid),))
        assert await generation_of(ledger) == 3
        await commit(ledger, (ReplaceProvider(replace(PROVIDER, inventories={}), raises=0),))
        assert await generation_of(ledger) == 3
        await commit(ledger, (ReplaceProvider(PROVIDER, generation=3),))
        await commit(ledger, put(make_share(1, on_1={DISK_GB: 1})))
        assert await generation_of(ledger) == 5
        await commit(ledger, (ReplaceProvider(stocked(DISK_GB=5), generation=5, raises=0),))
        assert await generation_of(ledger) == 5
