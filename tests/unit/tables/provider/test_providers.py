"""Tests for the provider table: rows, trees and look-ups."""

from dataclasses import replace

import pytest

from berth.domain.errors import NotFoundError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.tables.provider.providers import ProviderTable
from berth.tables.provider.sharing import SHARES


def table_of(*providers: Provider) -> ProviderTable:
    """Return a table of providers."""
    table = ProviderTable()
    for provider in providers:
        table.put(provider)
    return table


def row_of(table: ProviderTable, uuid: str) -> int:
    """Return the row of a provider and assert that it has one."""
    row = table.row_of(uuid)
    assert row is not None
    return row


def chain(count: int, root: str | None = None) -> list[Provider]:
    """Return providers 0, 1 and so on, each of which is the parent of the next."""
    uuids = [root, *map(str, range(count))]
    return [Provider(str(n), f"name {n}", uuids[n]) for n in range(count)]


def test_a_provider_is_found_by_uuid_and_name() -> None:
    """Providers are found by uuid, and by names that may be shared and may change."""
    table = table_of(Provider("u", "n"), Provider("v", "n"), Provider("w", "m"))
    rows = {uuid: row_of(table, uuid) for uuid in "uvw"}
    assert table.by_name.rows("n") == {rows["u"], rows["v"]}
    table.put(Provider("u", "m"))
    assert table.by_name.rows("n") == {rows["v"]}
    assert table.by_name.rows("m") == {rows["u"], rows["w"]}
    assert table.uuid(rows["u"]) == "u"
    assert table.row_of("x") is None
    assert table.by_name.rows("x") == set()


def test_a_record_is_as_the_ledger_has_it() -> None:
    """A record equals that of the ledger, with used amounts for every class of its inventories."""
    told = Provider(
        *("u", "n", None, 3),
        inventories={"VCPU": Inventory(4), "DISK_GB": Inventory(9, max_unit=9)},
        used={"VCPU": 1},
        traits=frozenset(("A",)),
        aggregates=("y", "x"),
        owned_traits=frozenset(),
        created_at_s=1.5,
        updated_at_s=2.5,
    )
    table = table_of(told)
    row = row_of(table, "u")
    assert table.record(row) == replace(told, used={"VCPU": 1, "DISK_GB": 0})
    assert table.base_record(row) == replace(told, used={}, generation=0)
    assert table.generations.item(row) == table.generations[row] == 3
    table.put_used("u", {"DISK_GB": 2}, 4)
    assert table.record(row) == replace(told, generation=4, used={"VCPU": 0, "DISK_GB": 2})
    table.put_used("u", {}, None)
    assert table.record(row).generation == 4


def test_a_row_without_provider_is_refused() -> None:
    """Reading an unused row raises NotFoundError."""
    table = table_of(Provider("u", "n"))
    table.remove("u")
    for row in (-1, 0, 1, 99):
        for read in (table.uuid, table.record, table.base_record, table.used):
            with pytest.raises(NotFoundError):
                read(row)


def test_a_child_waits_for_its_parents() -> None:
    """A provider has no row until the chain of its parents is complete."""
    told = chain(5)
    table = table_of(*reversed(told[1:]))
    assert len(table) == 0
    assert table.unattached.keys() == {"1", "2", "3", "4"}
    assert table.row_of("4") is None
    table.put_used("4", {"VCPU": 1}, 9)
    table.put(told[0])
    assert not table.unattached
    assert [table.uuid(table.root[row]) for row in range(5)] == ["0"] * 5
    assert table.record(row_of(table, "4")).generation == 9


def test_a_parent_that_goes_leaves_those_below_waiting() -> None:
    """Providers below a removed parent are unattached until the parent returns."""
    told = chain(4)
    table = table_of(*told)
    table.remove("1")
    assert table.alive_rows().size == 1
    assert table.unattached.keys() == {"2", "3"}
    table.put(told[1])
    assert len(table) == table.alive_rows().size == 4
    assert table.lineage.children_of(row_of(table, "2")) == (row_of(table, "3"),)


def test_a_deep_subtree_moves_between_trees() -> None:
    """A subtree that moves keeps its rows and gets new roots, revisions and forest entries."""
    table = table_of(*chain(60), Provider("r", "r"))
    rows = [row_of(table, str(n)) for n in range(60)]
    before = table.revisions.copy()
    assert table.forest().sizes[rows[0]] == 60
    table.put(replace(chain(60)[20], parent_uuid="r"))
    assert [row_of(table, str(n)) for n in range(60)] == rows
    assert {table.uuid(table.root[row]) for row in rows[20:]} == {"r"}
    assert (table.revisions[rows[20:]] != before[rows[20:]]).all()
    assert (table.revisions[rows[:20]] == before[rows[:20]]).all()
    sizes = table.forest().sizes
    assert (sizes[rows[0]], sizes[row_of(table, "r")]) == (20, 41)
    table.put(replace(chain(60)[40], parent_uuid=None))
    assert table.parent[rows[40]] == -1
    assert table.forest().tree(rows[40]).tolist() == rows[40:]


def test_a_cycle_is_unattached_until_it_is_broken() -> None:
    """Providers in a cycle, and those below it, are unattached until it is broken."""
    told = chain(4)
    table = table_of(*told)
    table.put(replace(told[1], parent_uuid="3"))
    assert table.unattached.keys() == {"1", "2", "3"}
    table.put(replace(told[3], parent_uuid="0"))
    assert not table.unattached
    assert table.uuid(table.parent[row_of(table, "1")]) == "3"
    table.put(replace(told[0], parent_uuid="0"))
    assert table.unattached.keys() == {"0", "1", "2", "3"}


def test_rows_are_reused() -> None:
    """A reused row has nothing of its former provider."""
    full = Provider(
        *("u", "n", None, 5),
        inventories={"VCPU": Inventory(4)},
        used={"VCPU": 3},
        traits=frozenset((SHARES,)),
        aggregates=("x",),
    )
    table = table_of(full, Provider("v", "v", aggregates=("x",)))
    assert table.sharing().rows.tolist() == [row_of(table, "u")]
    for number in range(200):
        table.remove("u")
        assert table.resource("VCPU") is None
        table.put(Provider("other", "other"))
        row = row_of(table, "other")
        assert table.record(row) == Provider("other", "other")
        assert table.sharing().rows.size == 0
        table.remove("other")
        table.put(replace(full, aggregates=(f"x {number}",)))
    assert len(table) == 2
    assert set(table.aggregate_numbers.values()) == {0, 1}


def test_a_table_grows() -> None:
    """Columns, sets and trees grow with the table."""
    table = ProviderTable()
    for number in range(300):
        table.put(
            Provider(
                *(str(number), "n", None, number),
                inventories={"VCPU": Inventory(number)},
                traits=frozenset((f"T{number % 3}",)),
                aggregates=(f"x{number % 5}",),
            )
        )
    columns = table.resource("VCPU")
    assert columns is not None
    assert columns.total[table.all_rows].tolist() == list(range(300))
    assert table.generations.tolist() == list(range(300))
    assert table.traits.has("T1", table.all_rows).sum() == 100
    number = table.aggregate_numbers["x4"]
    assert table.aggregates.has_any((number,), table.all_rows).sum() == 60
    assert table.alive.all()


def test_room_may_be_made_before() -> None:
    """Reserving room does not change the providers and never shrinks the table."""
    table = table_of(Provider("u", "n"))
    table.reserve(1000)
    table.reserve(1)
    assert len(table) == 1
    assert table.row_of("u") == 0


def test_arrays_are_as_long_as_the_table() -> None:
    """All arrays are as long as the table."""
    table = table_of(*chain(3))
    arrays = (table.alive, table.parent, table.root, table.generations, table.revisions)
    assert [array.size for array in arrays] == [3] * 5
    assert table.all_rows == slice(0, 3)


def test_trees_are_kept_until_they_change() -> None:
    """The forest and the sharing are rebuilt only when a change affects them."""
    table = table_of(*chain(3))
    forest, sharing = table.forest(), table.sharing()
    table.put_used("1", {"VCPU": 1}, 3)
    table.put(replace(chain(3)[1], traits=frozenset(("A",)), generation=9))
    assert table.forest() is forest
    assert table.sharing() is sharing
    table.put(replace(chain(3)[1], aggregates=("x",)))
    assert table.forest() is forest
    assert table.sharing() is not sharing
    table.put(replace(chain(3)[2], traits=frozenset((SHARES,))))
    assert table.sharing().rows.tolist() == [row_of(table, "2")]
    assert table.forest() is forest
    table.put(replace(chain(3)[2], parent_uuid="0"))
    assert table.sharing().rows.size == 0
    assert table.forest() is not forest
