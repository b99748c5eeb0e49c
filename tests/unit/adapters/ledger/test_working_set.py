"""The books of a batch: what a draft does to them, and what undoing it leaves."""

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


def books_with(used: int) -> WorkingSet:
    """Return books of one provider that has so many VCPUs in use."""
    return WorkingSet(
        7,
        capacities={"p": ProviderCapacity(1, {VCPU: InventoryLimits(16, 16, 1, 1)}, {VCPU: used})},
    )


def test_undoing_puts_back_every_entry_in_turn() -> None:
    """Also one that was set twice, set and dropped, or was not there before."""
    working_set = books_with(used=3)
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


def test_what_is_used_is_told_once_after_everything_else() -> None:
    """However often a unit draws on a provider; the amounts are those at its end."""
    working_set = books_with(used=0)
    tx = UnitTransaction(working_set, ())
    tx.spend("p", {VCPU: 5})
    tx.emit(make_flavor(1))
    tx.spend("p", {VCPU: -2})
    assert tx.commit() == Committed(8)
    assert working_set.change_set.changes == [
        Change(8, make_flavor(1)),
        Change(8, Usage("p", {VCPU: 3}, 1)),
    ]


def test_a_provider_that_went_in_the_same_unit_is_not_told_of_as_used() -> None:
    """A follower would look for it in vain."""
    working_set = books_with(used=5)
    tx = UnitTransaction(working_set, ())
    tx.spend("p", {VCPU: -5})
    tx.drop(working_set.capacities, "p")
    tx.emit(RecordRemoved(Kind.PROVIDER, "p"))
    tx.commit()
    assert working_set.change_set.changes == [Change(8, RecordRemoved(Kind.PROVIDER, "p"))]


def test_a_unit_that_tells_nothing_still_has_its_place_in_the_feed() -> None:
    """A version that is missing there would look like a gap."""
    working_set = books_with(used=0)
    assert UnitTransaction(working_set, ()).commit() == Committed(8)
    assert working_set.change_set.changes == [Change(8, HostsAlive((), 0.0))]


def test_what_was_told_does_not_change_with_later_units() -> None:
    """A mapping of what is used is replaced, so that whoever has it may keep it."""
    working_set = books_with(used=0)
    for amount in (1, 2):
        tx = UnitTransaction(working_set, ())
        tx.spend("p", {VCPU: amount})
        tx.commit()
    assert [change.event for change in working_set.change_set.changes] == [
        Usage("p", {VCPU: 1}, 1),
        Usage("p", {VCPU: 3}, 1),
    ]


def test_only_differences_of_a_whole_batch_are_spent() -> None:
    """Of what was drawn and given back one row stays, to bear the provider's generation.

    A provider that is put is written down anew, so nothing of it is spent.
    """
    working_set = books_with(used=4)
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
