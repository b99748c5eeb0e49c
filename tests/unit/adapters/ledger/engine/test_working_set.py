"""The working set of a batch: the changes of a unit's transaction, and undoing them."""

from copy import deepcopy

from berth.adapters.ledger.engine.working_set import (
    InventoryLimits,
    ProviderCapacity,
    UnitTransaction,
    WorkingSet,
)
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.change import Change, HostsAlive, RecordRemoved, Usage
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Committed
from berth.testing.builders import make_flavor

FLAVOR = (Kind.FLAVOR, "1")


def working_set_with(used: int) -> WorkingSet:
    """Return a working set with one provider that has this many VCPUs in use."""
    return WorkingSet(
        7,
        capacities={"p": ProviderCapacity(1, {VCPU: InventoryLimits(16, 16, 1, 1)}, {VCPU: used})},
    )


def test_undo_restores_every_entry() -> None:
    """Undo also restores entries that were set twice, set and dropped, or new."""
    working_set = working_set_with(used=3)
    working_set.revisions[FLAVOR] = 1
    before = deepcopy(working_set)
    tx = UnitTransaction(working_set, ())
    tx.set(working_set.revisions, FLAVOR, 2)
    tx.set(working_set.revisions, FLAVOR, 3)
    tx.drop(working_set.revisions, FLAVOR)
    tx.drop(working_set.revisions, (Kind.FLAVOR, "unknown"))
    tx.set(working_set.claimed, "claim", 8)
    tx.spend("p", {VCPU: 5})
    tx.spend("p", {VCPU: -1})
    assert working_set.capacities["p"].used == {VCPU: 7}
    tx.undo()
    assert working_set == before


def test_usage_is_reported_once_and_last() -> None:
    """A unit that changes a provider twice has one usage event, with the final amounts."""
    working_set = working_set_with(used=0)
    tx = UnitTransaction(working_set, ())
    tx.spend("p", {VCPU: 5})
    tx.events.append(make_flavor(1))
    tx.spend("p", {VCPU: -2})
    assert tx.commit() == Committed(8)
    assert working_set.change_set.changes == [
        Change(8, make_flavor(1)),
        Change(8, Usage("p", {VCPU: 3}, 1)),
    ]


def test_a_removed_provider_has_no_usage_event() -> None:
    """A unit that removes a provider has no usage event, since followers no longer know it."""
    working_set = working_set_with(used=5)
    tx = UnitTransaction(working_set, ())
    tx.spend("p", {VCPU: -5})
    tx.drop(working_set.capacities, "p")
    tx.events.append(RecordRemoved(Kind.PROVIDER, "p"))
    tx.commit()
    assert working_set.change_set.changes == [Change(8, RecordRemoved(Kind.PROVIDER, "p"))]


def test_a_unit_without_events_is_in_the_feed() -> None:
    """A unit without events gets an empty one, because a missing version would look like a gap."""
    working_set = working_set_with(used=0)
    assert UnitTransaction(working_set, ()).commit() == Committed(8)
    assert working_set.change_set.changes == [Change(8, HostsAlive((), 0.0))]


def test_events_do_not_change_with_later_units() -> None:
    """A later unit replaces the mapping of usage and leaves the one in earlier events alone."""
    working_set = working_set_with(used=0)
    for amount in (1, 2):
        tx = UnitTransaction(working_set, ())
        tx.spend("p", {VCPU: amount})
        tx.commit()
    assert [change.event for change in working_set.change_set.changes] == [
        Usage("p", {VCPU: 1}, 1),
        Usage("p", {VCPU: 3}, 1),
    ]


def test_only_differences_of_a_whole_batch_are_spent() -> None:
    """Changes that cancel out leave one row, which carries the provider's generation.

    A provider that was put is stored as a whole, so `spent` leaves it out.
    """
    working_set = working_set_with(used=4)
    for amount in (3, -3):
        tx = UnitTransaction(working_set, ())
        tx.spend("p", {VCPU: amount})
        tx.commit()
    assert working_set.spent(working_set.change_set) == [("p", VCPU, 0, 4)]
    assert working_set.generations(working_set.spent(working_set.change_set)) == [1]
    tx = UnitTransaction(working_set, ())
    tx.spend("p", {VCPU: 2}, raises=True)
    tx.spend("p", {VCPU: 0}, raises=True)
    tx.commit()
    assert working_set.spent(working_set.change_set) == [("p", VCPU, 2, 6)]
    assert working_set.generations(working_set.spent(working_set.change_set)) == [2]
    working_set.change_set.puts[Kind.PROVIDER, "p"] = None
    assert working_set.spent(working_set.change_set) == []
