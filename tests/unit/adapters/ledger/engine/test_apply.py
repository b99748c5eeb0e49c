"""Applying units: the keys that a batch requires, and the changes that it leaves to store."""

import pytest

from berth.adapters.ledger.engine.apply import apply_units, required_keys
from berth.adapters.ledger.engine.working_set import (
    ChangeSet,
    RequiredKeys,
    WorkingSet,
    exclusive_guard_key,
    shared_guard_key,
)
from berth.domain.inventory.allocation import Claim, Shortage, ShortageRule
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.domain.ledger.change import Change, Usage
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import (
    Add,
    Committed,
    Free,
    Guard,
    Heartbeats,
    Put,
    Reallocate,
    Rejected,
    RejectionCause,
    Remove,
    Take,
    TransferAllocations,
    Unit,
)
from berth.testing.builders import (
    make_allocation,
    make_decision,
    make_flavor,
    make_fleet,
    make_host,
    make_instance,
    make_migration,
    make_moving_consumer,
    make_provider,
    make_service,
    make_share,
    make_take,
    make_uuid,
)

HOST_1 = make_uuid("host", 1)
VM_1 = make_uuid("instance", 1)


def committed(*units: Unit) -> WorkingSet:
    """Return the working set after units were committed and stored."""
    working_set = WorkingSet()
    for outcome in apply_units(working_set, units):
        assert isinstance(outcome, Committed)
    working_set.take_changes()
    return working_set


def test_a_batch_requires_all_keys_that_it_reads() -> None:
    """Claims require keys, consumers and providers; guarded writes require the guarded records."""
    units: list[Unit] = [
        (make_take(1), Put(make_instance(1)), Put(make_decision(1))),
        (Free("c-2"), Heartbeats(("host-1",), 1.0), Add(make_flavor(7)), Guard("g", 1)),
        (Remove(Kind.PROVIDER, "p-3"), Remove(Kind.INSTANCE, "c-4"), Put(make_host(1))),
    ]
    assert required_keys(units) == RequiredKeys(
        claim_keys={"claim-1", exclusive_guard_key("g"), shared_guard_key("g")},
        records={
            Kind.INSTANCE: {VM_1, "c-4"},
            Kind.SERVICE: {"host-1"},
            Kind.FLAVOR: {"7"},
            Kind.HOST: {"p-3"},
            Kind.CONSUMER: {"c-2"},
        },
        providers={HOST_1, "p-3"},
        consumers={VM_1, "c-2", "c-4"},
    )


def test_a_transfer_requires_both_consumers() -> None:
    """A transfer requires the holdings and records of both consumers, but no providers."""
    taker = make_moving_consumer(1)
    assert required_keys(
        [(TransferAllocations(VM_1, taker), Put(make_migration(1)))]
    ) == RequiredKeys(records={Kind.CONSUMER: {VM_1, taker.uuid}}, consumers={VM_1, taker.uuid})


def test_a_refused_transfer_leaves_no_changes() -> None:
    """A refused transfer also undoes the earlier transfers and claims of its unit."""
    working_set = committed(*make_fleet(1, vcpus=2), (make_take(1),))
    taker, other = make_moving_consumer(1), make_moving_consumer(2)
    again = Take(Claim("again", (make_allocation(1),)))
    unit: Unit = (
        TransferAllocations(VM_1, taker),
        again,
        TransferAllocations(VM_1, other),
        TransferAllocations(VM_1, taker),
    )
    held = dict(working_set.held)
    (outcome,) = apply_units(working_set, [unit])
    assert outcome == Rejected(
        conflict=f"consumer {VM_1!r} holds no allocations",
        cause=RejectionCause.NOT_HELD,
        subject=VM_1,
    )
    assert working_set.change_set == ChangeSet()
    assert (working_set.held, working_set.consumers, working_set.capacities[HOST_1].used[VCPU]) == (
        held,
        {},
        1,
    )
    (outcome,) = apply_units(working_set, [unit[:3]])
    assert isinstance(outcome, Committed)
    change_set = working_set.take_changes()
    assert list(change_set.freed) == [VM_1]
    assert list(change_set.taken) == [taker.uuid, VM_1, other.uuid]
    assert {uuid for uuid, holding in working_set.held.items() if holding} == {
        taker.uuid,
        other.uuid,
    }


def test_a_refused_unit_leaves_no_changes() -> None:
    """The working set is as it was before the unit, and the change set is empty."""
    working_set = committed(*make_fleet(1, vcpus=1), (make_take(1),))
    unit: Unit = (
        Free(VM_1),
        Put(make_provider(1, vcpus=9)),
        Put(make_service(1)),
        Remove(Kind.HOST, HOST_1),
        Heartbeats(("host-1",), 5.0),
        make_take(2, amounts={VCPU: 10}),
    )
    capacity, held = working_set.capacities[HOST_1], dict(working_set.held)
    (outcome,) = apply_units(working_set, [unit])
    assert isinstance(outcome, Rejected)
    assert working_set.change_set == ChangeSet()
    assert working_set.capacities[HOST_1] is capacity
    assert capacity.used[VCPU] == 1
    assert working_set.held == held
    assert (Kind.HOST, HOST_1) in working_set.revisions


def test_usage_is_netted_over_the_batch() -> None:
    """A batch that takes and frees stores the net usage and the final allocations."""
    working_set = committed(*make_fleet(1), (make_take(1, amounts={VCPU: 4}),))
    apply_units(working_set, [(Free(VM_1),), (make_take(2, amounts={VCPU: 3}),)])
    change_set = working_set.take_changes()
    assert working_set.spent(change_set) == [(HOST_1, VCPU, -1, 3)]
    assert list(change_set.freed) == [VM_1]
    assert list(change_set.taken) == [make_uuid("instance", 2)]
    assert change_set.claimed == {"claim-2": 4}
    zeros = {MEMORY_MB: 0, DISK_GB: 0}
    assert change_set.changes == [
        Change(3, Usage(HOST_1, {VCPU: 0, **zeros}, 1)),
        Change(4, Usage(HOST_1, {VCPU: 3, **zeros}, 2)),
    ]


def test_a_later_put_takes_the_place_of_a_heartbeat() -> None:
    """Of a heartbeat and a put of the same service, only the later one is stored."""
    working_set = committed((Put(make_service(1)),))
    apply_units(working_set, [(Heartbeats(("host-1",), 5.0),), (Put(make_service(1)),)])
    assert working_set.take_changes().seen == {}
    apply_units(working_set, [(Put(make_service(1)),), (Heartbeats(("host-1",), 5.0),)])
    assert working_set.take_changes().seen == {"host-1": 5.0}


def test_a_claim_on_one_provider_may_take_all_that_is_left() -> None:
    """A claim for the exact rest is committed; more, or an invalid amount, is refused."""
    before = [*make_fleet(1, vcpus=4), (make_take(1, amounts={VCPU: 3}),)]
    for amounts, short in (
        ({VCPU: 1}, ()),
        ({VCPU: 1, MEMORY_MB: 32_768}, ()),
        ({VCPU: 2}, (Shortage(HOST_1, VCPU, 2, 1),)),
        ({VCPU: 5}, (Shortage(HOST_1, VCPU, 5, 1, ShortageRule.UNITS),)),
        ({VCPU: 0}, (Shortage(HOST_1, VCPU, 0, 0, ShortageRule.UNITS),)),
        ({"NOTHING": 1}, (Shortage(HOST_1, "NOTHING", 1, 0, ShortageRule.NO_INVENTORY),)),
    ):
        (outcome,) = apply_units(committed(*before), [(make_take(2, amounts=amounts),)])
        assert outcome == (Rejected(shortages=short) if short else Committed(3))
    (outcome,) = apply_units(committed(*before), [(make_take(2, on=9),)])
    nowhere = Shortage(make_uuid("host", 9), VCPU, 1, 0, ShortageRule.NO_PROVIDER)
    assert outcome == Rejected(shortages=(nowhere,))


def test_allocations_of_one_claim_add_up() -> None:
    """A claim is refused if its instances fit the host separately but not together."""
    two = tuple(make_allocation(number, amounts={VCPU: 3}) for number in (1, 2))
    (outcome,) = apply_units(committed(*make_fleet(1, vcpus=5)), [(Take(Claim("both", two)),)])
    assert outcome == Rejected(shortages=(Shortage(HOST_1, VCPU, 6, 5),))
    (outcome,) = apply_units(committed(*make_fleet(1, vcpus=6)), [(Take(Claim("both", two)),)])
    assert outcome == Committed(2)


@pytest.mark.parametrize(
    ("number", "seen", "difference"),
    [
        (1, 4, "is at generation 1, but generation 4 was expected"),
        (1, None, "is at generation 1, but no consumer was expected"),
        (2, 1, "does not exist, but generation 1 was expected"),
    ],
)
def test_a_consumer_at_another_generation_is_described(
    number: int, seen: int | None, difference: str
) -> None:
    """The conflict names the actual and the expected generation, or that there is no consumer."""
    working_set = committed(*make_fleet(1), (Reallocate((make_share(1, on_1=1),)),))
    stale = make_share(number, seen=seen, on_1=2)
    (outcome,) = apply_units(working_set, [(Reallocate((stale,)),)])
    assert isinstance(outcome, Rejected)
    uuid = make_uuid("consumer", number)
    assert outcome.conflict == f"consumer {uuid!r} {difference}; read it again"
