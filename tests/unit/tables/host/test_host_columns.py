"""Tests for the fixed columns of hosts."""

import numpy as np
import pytest

from berth.domain.compute.host import Host, Service
from berth.domain.inventory.resources import AMOUNT_MAX
from berth.tables.host.host_columns import HostColumns


def test_a_row_without_service_is_disabled() -> None:
    """A row without a service is disabled and has no values of an earlier service."""
    columns = HostColumns(1)
    columns.put_service(0, Service("h", "1", forced_down=True, last_seen_s=5.0), "n")
    assert (columns.enabled[0], columns.forced_down[0], columns.last_seen_s[0]) == (True, True, 5)
    columns.put_service(0, None, "n")
    assert (columns.enabled[0], columns.forced_down[0], columns.last_seen_s[0]) == (False, False, 0)


def test_a_row_has_the_failed_builds_of_its_service() -> None:
    """A row has its service's failed builds, clipped to the range of the column."""
    columns = HostColumns(1)
    columns.put_service(0, Service("h", "1", failed_builds=3, failed_at_s=7.5), "n")
    assert (columns.failed_builds[0], columns.failed_at_s[0]) == (3, 7.5)
    columns.put_service(0, None, "n")
    assert (columns.failed_builds[0], columns.failed_at_s[0]) == (0, 0.0)
    for failed, kept in ((10**30, AMOUNT_MAX), (-(10**30), 0)):
        columns.put_service(0, Service("h", "1", failed_builds=failed), "n")
        assert columns.failed_builds[0] == kept


def test_hosts_are_found_by_their_cell() -> None:
    """The rows of hosts in a cell are found; a cleared row is in no named cell."""
    columns = HostColumns(4)
    for row, cell in enumerate(("a", "b", "a")):
        columns.put_host(row, Host(str(row), "h", "h", cell=cell))
    assert columns.in_cell("a", slice(0, 4), 4).tolist() == [True, False, True, False]
    assert columns.in_cell("b", np.array([2, 1]), 2).tolist() == [False, True]
    assert columns.in_cell("c", slice(0, 4), 4).tolist() == [False] * 4
    columns.clear(0)
    assert columns.in_cell("a", slice(0, 3), 3).tolist() == [False, False, True]


@pytest.mark.parametrize("version", [0, 6_002_000, -5])
def test_versions_of_hypervisors_are_numbers(version: int) -> None:
    """A hypervisor version is stored as a number, clipped to the range of the column."""
    columns = HostColumns(1)
    columns.put_host(0, Host("u", "h", "h", hypervisor_version=version))
    assert columns.hypervisor_version[0] == version
    columns.put_host(0, Host("u", "h", "h", hypervisor_version=-(10**30)))
    assert columns.hypervisor_version[0] == -AMOUNT_MAX
