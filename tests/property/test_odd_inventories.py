"""Inventories with no or negative capacity are stored and judged like any other."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import AMOUNT_MAX, Inventory
from berth.tables.columnar.class_columns import ClassColumns
from berth.tables.host.hosts import HostTable
from berth.testing.builders import make_host
from berth.testing.provider_strategies import CLASSES, odd_inventories

STOCKS = st.lists(
    st.dictionaries(st.sampled_from(CLASSES), odd_inventories(), max_size=3),
    min_size=1,
    max_size=3,
)


def table_of(stocks: list[dict[str, Inventory]], used: int) -> HostTable:
    """Return hosts with these inventories on root and child, each with this amount used."""
    hosts = HostTable()
    for number, stock in enumerate(stocks):
        host = make_host(number)
        hosts.put_host(host)
        everywhere = dict.fromkeys(stock, used)
        root = Provider(host.uuid, host.name, inventories=stock, used=everywhere)
        hosts.put_provider(root)
        hosts.put_provider(replace(root, uuid=f"child {number}", parent_uuid=host.uuid))
    return hosts


@given(stocks=STOCKS, used=st.integers(0, 9))
def test_a_table_tells_what_it_was_told(stocks: list[dict[str, Inventory]], used: int) -> None:
    """The table returns each host's inventories, with `max_unit` filled in, and its usage."""
    hosts = table_of(stocks, used)
    for row, stock in enumerate(stocks):
        filled = {name: replace(one, max_unit=one.unit_max) for name, one in stock.items()}
        assert hosts.inventories(row) == filled
        assert hosts.used(row) == (dict.fromkeys(stock, used) if used else {})


@given(stocks=STOCKS, used=st.integers(0, 9), amount=st.integers(1, 9))
def test_room_is_what_the_inventory_says(
    stocks: list[dict[str, Inventory]], used: int, amount: int
) -> None:
    """Columns of roots and children equal their inventory; without one, nothing fits."""
    hosts = table_of(stocks, used)
    for name in CLASSES:
        for row, stock in enumerate(stocks):
            (slot,) = hosts.trees.on_row(row)
            check(hosts.resource(name), row, stock.get(name), used, amount)
            check(hosts.trees.resource(name), slot, stock.get(name), used, amount)


def check(
    columns: ClassColumns | None, row: int, inventory: Inventory | None, used: int, amount: int
) -> None:
    """Check one class of a row against its inventory."""
    if columns is None or inventory is None:
        assert columns is None or not columns.fits(1, slice(0, row + 1))[row]
        return
    assert abs(inventory.capacity) <= AMOUNT_MAX
    assert columns.capacity[row] == inventory.capacity
    assert columns.free[row] == inventory.capacity - used
    assert columns.ratio[row] == inventory.allocation_ratio
    assert columns.physical_free[row] == inventory.total - inventory.reserved - used
    fits = (
        amount <= min(inventory.capacity - used, inventory.unit_max)
        and amount >= inventory.min_unit
        and amount % inventory.step_size == 0
    )
    assert bool(columns.fits(amount, slice(0, row + 1))[row]) == fits
