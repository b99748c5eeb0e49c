"""Tests for the terms of inventories, which are stored once per combination."""

from berth.domain.inventory.resources import Inventory
from berth.tables.columnar.inventory_terms import AllocationTerms, InternedTerms


def test_inventories_that_differ_in_total_alone_share_their_terms() -> None:
    """Inventories that differ only in the total, or in a `max_unit` equal to it, share terms."""
    terms = InternedTerms()
    first = terms.take(Inventory(64, 2, max_unit=64, allocation_ratio=4.0))
    assert terms.take(Inventory(128, 2, max_unit=128, allocation_ratio=4.0)) == first
    assert terms.take(Inventory(96, 2, allocation_ratio=4.0)) == first
    assert terms.take(Inventory(96, 2, max_unit=64, allocation_ratio=4.0)) != first
    assert terms.all[first] == AllocationTerms(2, 1, 0, 1, 4.0)


def test_every_number_has_its_place_in_the_arrays() -> None:
    """The arrays hold the terms of every number, including reused numbers."""
    terms = InternedTerms()
    numbers = [terms.take(Inventory(100, reserved)) for reserved in range(20)]
    assert terms.reserved.take(numbers).tolist() == list(range(20))
    assert terms.ratio.take(numbers).tolist() == [1.0] * 20
    terms.release(numbers[7])
    assert terms.take(Inventory(100, 55, step_size=5)) == numbers[7]
    assert (terms.reserved[numbers[7]], terms.step_size[numbers[7]]) == (55, 5)


def test_a_row_without_inventory_has_no_terms() -> None:
    """Number 0 has only zeros, and releasing it changes nothing."""
    terms = InternedTerms()
    terms.release(0)
    assert terms.all[0] == AllocationTerms()
    assert (terms.min_unit[0], terms.ratio[0]) == (0, 0.0)
