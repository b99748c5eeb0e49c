"""The books of a batch: what a draft does to them, and what undoing it leaves."""

from copy import deepcopy

from berth.adapters.ledger.engine.working_set import (
    InventoryLimits,
    ProviderCapacity,
    UnitTransaction,
    WorkingSet,
)
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.change import Alive, Change, Gone, Usage
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Committed
from berth.testing.builders import make_flavor

FLAVOR = (Kind.FLAVOR, "1")


def books_with(used: int) -> WorkingSet:
    """Return books of one provider that has so many VCPUs in use."""
    return WorkingSet(
        7, rooms={"p": ProviderCapacity(1, {VCPU: InventoryLimits(16, 16, 1, 1)}, {VCPU: used})}
    )


def test_undoing_puts_back_every_entry_in_turn() -> None:
    """Also one that was set twice, set and dropped, or was not there before."""
    books = books_with(used=3)
    books.revisions[FLAVOR] = 1
    before = deepcopy(books)
    draft = UnitTransaction(books, ())
    draft.set(books.revisions, FLAVOR, 2)
    draft.set(books.revisions, FLAVOR, 3)
    draft.drop(books.revisions, FLAVOR)
    draft.drop(books.revisions, (Kind.FLAVOR, "unknown"))
    draft.set(books.claimed, "claim", 8)
    draft.spend("p", {VCPU: 5})
    draft.spend("p", {VCPU: -1})
    assert books.rooms["p"].used == {VCPU: 7}
    draft.undo()
    assert books == before


def test_what_is_used_is_told_once_after_everything_else() -> None:
    """However often a unit draws on a provider; the amounts are those at its end."""
    books = books_with(used=0)
    draft = UnitTransaction(books, ())
    draft.spend("p", {VCPU: 5})
    draft.tell(make_flavor(1))
    draft.spend("p", {VCPU: -2})
    assert draft.commit() == Committed(8)
    assert books.dirt.changes == [Change(8, make_flavor(1)), Change(8, Usage("p", {VCPU: 3}, 1))]


def test_a_provider_that_went_in_the_same_unit_is_not_told_of_as_used() -> None:
    """A follower would look for it in vain."""
    books = books_with(used=5)
    draft = UnitTransaction(books, ())
    draft.spend("p", {VCPU: -5})
    draft.drop(books.rooms, "p")
    draft.tell(Gone(Kind.PROVIDER, "p"))
    draft.commit()
    assert books.dirt.changes == [Change(8, Gone(Kind.PROVIDER, "p"))]


def test_a_unit_that_tells_nothing_still_has_its_place_in_the_feed() -> None:
    """A version that is missing there would look like a gap."""
    books = books_with(used=0)
    assert UnitTransaction(books, ()).commit() == Committed(8)
    assert books.dirt.changes == [Change(8, Alive((), 0.0))]


def test_what_was_told_does_not_change_with_later_units() -> None:
    """A mapping of what is used is replaced, so that whoever has it may keep it."""
    books = books_with(used=0)
    for amount in (1, 2):
        draft = UnitTransaction(books, ())
        draft.spend("p", {VCPU: amount})
        draft.commit()
    assert [change.event for change in books.dirt.changes] == [
        Usage("p", {VCPU: 1}, 1),
        Usage("p", {VCPU: 3}, 1),
    ]


def test_only_differences_of_a_whole_batch_are_spent() -> None:
    """Of what was drawn and given back one row stays, to bear the provider's generation.

    A provider that is put is written down anew, so nothing of it is spent.
    """
    books = books_with(used=4)
    for amount in (3, -3):
        draft = UnitTransaction(books, ())
        draft.spend("p", {VCPU: amount})
        draft.commit()
    assert books.spent(books.dirt) == [("p", VCPU, 0, 4)]
    assert books.generations(books.spent(books.dirt)) == [1]
    draft = UnitTransaction(books, ())
    draft.spend("p", {VCPU: 2}, raises=True)
    draft.spend("p", {VCPU: 0}, raises=True)
    draft.commit()
    assert books.spent(books.dirt) == [("p", VCPU, 2, 6)]
    assert books.generations(books.spent(books.dirt)) == [2]
    books.dirt.puts[Kind.PROVIDER, "p"] = None
    assert books.spent(books.dirt) == []
