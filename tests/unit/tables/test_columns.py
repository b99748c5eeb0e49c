"""Columns: what each host has of one resource class."""

import numpy as np
import pytest

from berth.domain.host import Host, Service
from berth.domain.resources import AMOUNT_MAX, Inventory
from berth.tables.columns import ClassColumns, HostColumns


def columns_of(*inventories: Inventory) -> ClassColumns:
    """Return columns with these inventories, nothing used."""
    columns = ClassColumns(len(inventories))
    for row, inventory in enumerate(inventories):
        columns.put(row, inventory)
    return columns


def test_used_amounts_leave_less_room() -> None:
    """Free counts the ratio, physical_free does not, room ends at what one may ask for."""
    columns = columns_of(Inventory(10, reserved=2, allocation_ratio=2.0))
    columns.put_used(0, 5)
    assert columns.free[0] == 11
    assert columns.physical_free[0] == 3
    assert columns.ratio_free[0] == 13.0
    assert columns.room[0] == 10
    columns.put_used(0, 20)
    assert (columns.free[0], columns.physical_free[0], columns.room[0]) == (-4, -12, -4)


def test_fits_compares_with_room_unit_and_step() -> None:
    """Rows with units other than 1 are looked at one by one."""
    columns = columns_of(
        Inventory(10), Inventory(3), Inventory(10, min_unit=5), Inventory(10, step_size=4)
    )
    assert columns.fits(4, slice(0, 4)).tolist() == [True, False, False, True]
    assert columns.fits(5, slice(0, 4)).tolist() == [True, False, True, False]
    assert columns.fits(4, slice(0, 2)).tolist() == [True, False]
    assert columns.fits(1, slice(0, 0)).tolist() == []


def test_the_largest_amounts_do_not_overflow() -> None:
    """A large total times a large ratio is cut to what an amount may be."""
    columns = columns_of(Inventory(AMOUNT_MAX, allocation_ratio=10_000.0))
    columns.put_used(0, AMOUNT_MAX)
    assert columns.capacity[0] == AMOUNT_MAX
    assert columns.free[0] == 0
    assert columns.fits(1, slice(0, 1)).tolist() == [False]


def test_a_cleared_row_has_nothing() -> None:
    """Its old step size does not come back with a new inventory."""
    columns = columns_of(Inventory(10, step_size=4))
    columns.clear(0)
    assert columns.fits(1, slice(0, 1)).tolist() == [False]
    columns.put(0, Inventory(10))
    assert columns.fits(3, slice(0, 1)).tolist() == [True]


def test_growing_keeps_rows() -> None:
    """New rows have nothing."""
    columns = columns_of(Inventory(10, step_size=2))
    columns.resize(3)
    assert columns.fits(2, slice(0, 3)).tolist() == [True, False, False]
    assert columns.rows == 3


@pytest.mark.parametrize("inventory", [Inventory(10, reserved=3), Inventory(0), Inventory(9, 1, 2)])
def test_an_inventory_can_be_read_back(inventory: Inventory) -> None:
    """Only max_unit is filled in."""
    read = columns_of(inventory).inventory(0)
    assert (read.capacity, read.unit_max) == (inventory.capacity, inventory.unit_max)
    assert (read.min_unit, read.step_size) == (inventory.min_unit, inventory.step_size)


def test_a_row_without_service_is_disabled() -> None:
    """Nothing of an earlier service stays."""
    columns = HostColumns(1)
    columns.put_service(0, Service("h", "1", forced_down=True, last_seen_s=5.0))
    assert (columns.enabled[0], columns.forced_down[0], columns.last_seen_s[0]) == (True, True, 5)
    columns.put_service(0, None)
    assert (columns.enabled[0], columns.forced_down[0], columns.last_seen_s[0]) == (False, False, 0)


def test_a_row_has_the_failed_builds_of_its_service() -> None:
    """They go with it; what no array can hold is cut."""
    columns = HostColumns(1)
    columns.put_service(0, Service("h", "1", failed_builds=3, failed_at_s=7.5))
    assert (columns.failed_builds[0], columns.failed_at_s[0]) == (3, 7.5)
    columns.put_service(0, None)
    assert (columns.failed_builds[0], columns.failed_at_s[0]) == (0, 0.0)
    for failed, kept in ((10**30, AMOUNT_MAX), (-(10**30), 0)):
        columns.put_service(0, Service("h", "1", failed_builds=failed))
        assert columns.failed_builds[0] == kept


def test_hosts_are_found_by_their_cell() -> None:
    """A row without a host is in no cell that has a name."""
    columns = HostColumns(4)
    for row, cell in enumerate(("a", "b", "a")):
        columns.put_host(row, Host(str(row), "h", "h", cell=cell), profile=0)
    assert columns.in_cell("a", slice(0, 4), 4).tolist() == [True, False, True, False]
    assert columns.in_cell("b", np.array([2, 1]), 2).tolist() == [False, True]
    assert columns.in_cell("c", slice(0, 4), 4).tolist() == [False] * 4
    columns.clear(0)
    assert columns.in_cell("a", slice(0, 3), 3).tolist() == [False, False, True]


@pytest.mark.parametrize("version", [0, 6_002_000, -5])
def test_versions_of_hypervisors_are_numbers(version: int) -> None:
    """However large; what no array can hold is cut."""
    columns = HostColumns(1)
    columns.put_host(0, Host("u", "h", "h", hypervisor_version=version), profile=0)
    assert columns.hypervisor_version[0] == version
    columns.put_host(0, Host("u", "h", "h", hypervisor_version=-(10**30)), profile=0)
    assert columns.hypervisor_version[0] == -AMOUNT_MAX
