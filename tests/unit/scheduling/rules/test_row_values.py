"""Tests for row values, which are computed again only for changed rows."""

import numpy as np
import pytest

from berth.scheduling.rules.row_values import Matrix, row_values
from berth.tables.columnar.bitsets import Selection, count_of
from berth.tables.host.feed import apply_event, table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import Box, snapshot_of

BOXES = [Box(f"host-{number:02d}") for number in range(20)]


class Read:
    """A reader of used amounts that records the number of rows of each call."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, hosts: HostTable, rows: Selection) -> Matrix:
        """Return two values per row."""
        self.asked.append(count_of(rows))
        found = [
            np.zeros(count_of(rows)) if columns is None else columns.used[rows]
            for columns in map(hosts.resource, ("VCPU", "MEMORY_MB"))
        ]
        return np.array(found, dtype=np.float64)


@pytest.fixture
def hosts() -> HostTable:
    """Return a table of twenty unused hosts."""
    return table_of(snapshot_of(BOXES))


def test_only_rows_that_changed_are_read_again(hosts: HostTable) -> None:
    """Only changed rows are read again, and none if no row changed."""
    read = Read()
    assert row_values(hosts, "key", "used", read).shape == (2, 20)
    hosts.hold(3, {"VCPU": 2})
    hosts.hold(3, {"VCPU": 1, "MEMORY_MB": 512})
    hosts.hold(7, {"VCPU": 4})
    values = row_values(hosts, "key", "used", read)
    assert values[:, [3, 7, 8]].tolist() == [[3, 4, 0], [512, 0, 0]]
    assert row_values(hosts, "key", "used", read) is values
    assert read.asked == [20, 2]


def test_changes_of_other_columns_are_not_looked_at(hosts: HostTable) -> None:
    """Changes in other groups of the journal cause no reading."""
    read = Read()
    row_values(hosts, "key", "used", read)
    hosts.put_seen([box.name for box in BOXES], 5.0)
    row_values(hosts, "key", "used", read)
    assert read.asked == [20]


def test_much_that_changed_is_read_at_once(hosts: HostTable) -> None:
    """If more than a quarter of the rows changed, all rows are read."""
    read = Read()
    row_values(hosts, "key", "used", read)
    for row in range(6):
        hosts.hold(row, {"VCPU": row})
    assert row_values(hosts, "key", "used", read)[0, :7].tolist() == [0, 1, 2, 3, 4, 5, 0]
    assert read.asked == [20, 20]


def test_a_host_that_comes_has_values(hosts: HostTable) -> None:
    """A new host causes all rows to be read."""
    read = Read()
    row_values(hosts, "key", "used", read)
    box = Box("late", used={"VCPU": 5})
    apply_event(hosts, box.host)
    apply_event(hosts, box.provider)
    assert row_values(hosts, "key", "used", read)[0, 20] == 5
    assert read.asked == [20, 21]


def test_changes_that_are_forgotten_are_read_anew(hosts: HostTable) -> None:
    """All rows are read if the journal no longer has the changes."""
    read = Read()
    row_values(hosts, "key", "used", read)
    hosts.hold(1, {"VCPU": 1})
    for _ in range(140_000):
        hosts.journal.record(2, "used")
    assert row_values(hosts, "key", "used", read)[0, :3].tolist() == [0, 1, 0]
    assert read.asked == [20, 20]


def test_keys_and_stamps_tell_values_apart(hosts: HostTable) -> None:
    """Values are cached by key, and another stamp causes all rows to be read."""
    read, other = Read(), Read()
    row_values(hosts, "key", "used", read, stamp=1)
    row_values(hosts, "other", "used", other, stamp=1)
    row_values(hosts, "key", "used", read, stamp=2)
    row_values(hosts, "other", "used", other, stamp=1)
    assert (read.asked, other.asked) == ([20, 20], [20])


def test_who_fails_half_way_is_asked_again(hosts: HostTable) -> None:
    """After a failed reading the changed rows are read again."""
    read = Read()
    row_values(hosts, "key", "used", read)
    hosts.hold(1, {"VCPU": 1})

    def fails(hosts: HostTable, rows: Selection) -> Matrix:
        raise OverflowError

    with pytest.raises(OverflowError):
        row_values(hosts, "key", "used", fails)
    assert row_values(hosts, "key", "used", read)[0, 1] == 1
