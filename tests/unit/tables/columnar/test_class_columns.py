"""Tests for the columns of one resource class."""

import pytest

from berth.domain.inventory.resources import AMOUNT_MAX, Inventory
from berth.tables.columnar.class_columns import ClassColumns


def columns_of(*inventories: Inventory) -> ClassColumns:
    """Return columns with these inventories and nothing used."""
    columns = ClassColumns(len(inventories))
    for row, inventory in enumerate(inventories):
        columns.put(row, inventory)
    return columns


def test_used_amounts_leave_less_room() -> None:
    """`free` includes the ratio, `physical_free` does not, and `room` is limited by max_unit."""
    columns = columns_of(Inventory(10, reserved=2, allocation_ratio=2.0))
    columns.put_used(0, 5)
    assert columns.free[0] == 11
    assert columns.physical_free[0] == 3
    assert columns.ratio_free[0] == 13.0
    assert columns.room[0] == 10
    columns.put_used(0, 20)
    assert [columns.free[0], columns.physical_free[0], columns.room[0]] == [-4, -12, -4]
    assert (columns.free.item(0), columns.physical_free.item(0)) == (-4, -12)
    assert columns.ratio_free.item(0) == columns.ratio_free[0] == -2.0


def test_fits_compares_with_room_unit_and_step() -> None:
    """The amount must fit the room, the minimum unit and the step size."""
    columns = columns_of(
        Inventory(10), Inventory(3), Inventory(10, min_unit=5), Inventory(10, step_size=4)
    )
    assert columns.fits(4, slice(0, 4)).tolist() == [True, False, False, True]
    assert columns.fits(5, slice(0, 4)).tolist() == [True, False, True, False]
    assert columns.fits(4, slice(0, 2)).tolist() == [True, False]
    assert columns.fits(1, slice(0, 0)).tolist() == []


def test_the_largest_amounts_do_not_overflow() -> None:
    """The capacity of a large total with a large ratio is clipped to the largest amount."""
    columns = columns_of(Inventory(AMOUNT_MAX, allocation_ratio=10_000.0))
    columns.put_used(0, AMOUNT_MAX)
    assert columns.capacity[0] == AMOUNT_MAX
    assert columns.free[0] == 0
    assert columns.fits(1, slice(0, 1)).tolist() == [False]


def test_a_cleared_row_has_nothing() -> None:
    """A cleared row has no room, and a new inventory does not inherit the old step size."""
    columns = columns_of(Inventory(10, step_size=4))
    columns.clear(0)
    assert columns.fits(1, slice(0, 1)).tolist() == [False]
    columns.put(0, Inventory(10))
    assert columns.fits(3, slice(0, 1)).tolist() == [True]


def test_growing_keeps_rows() -> None:
    """New rows have no inventory, and old rows keep theirs."""
    columns = columns_of(Inventory(10, step_size=2))
    columns.resize(3)
    assert columns.fits(2, slice(0, 3)).tolist() == [True, False, False]
    assert columns.rows == 3


@pytest.mark.parametrize("inventory", [Inventory(10, reserved=3), Inventory(0), Inventory(9, 1, 2)])
def test_an_inventory_can_be_read_back(inventory: Inventory) -> None:
    """The inventory read back has the same terms, with `max_unit` filled in."""
    read = columns_of(inventory).inventory(0)
    assert (read.capacity, read.unit_max) == (inventory.capacity, inventory.unit_max)
    assert (read.min_unit, read.step_size) == (inventory.min_unit, inventory.step_size)
