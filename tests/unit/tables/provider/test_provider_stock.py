"""Tests for the amounts of providers by resource class."""

from berth.domain.inventory.resources import Inventory
from berth.tables.provider.provider_stock import ProviderStock


def test_a_class_has_columns_while_any_row_has_it() -> None:
    """A class has columns while any row has an inventory or usage of it."""
    stock = ProviderStock(2)
    stock.put(0, (), {"A": Inventory(1), "B": Inventory(2)}, {})
    stock.put(1, (), {"B": Inventory(3)}, {"B": 1})
    stock.put(0, ("A", "B"), {"B": Inventory(4)}, {"B": 2})
    assert list(stock.classes) == ["B"]
    stock.clear(0, ("B",))
    assert stock.classes["B"].total.tolist() == [0, 3]
    stock.clear(1, ("B",))
    assert not stock.classes


def test_all_that_is_used_is_set_at_once() -> None:
    """Setting the usage of a row sets classes that are not named to 0."""
    stock = ProviderStock(1)
    has = {"A": Inventory(9), "B": Inventory(9)}
    stock.put(0, (), has, {"A": 3, "B": 4})
    stock.put_used(0, has, {"B": 5})
    assert stock.used(0, has) == {"A": 0, "B": 5}
    assert [stock.classes[name].free[0] for name in has] == [9, 4]


def test_what_is_used_without_an_inventory_is_kept() -> None:
    """Usage without an inventory is kept until it ends, and gives no room."""
    stock = ProviderStock(1)
    stock.put(0, (), {}, {"A": 3})
    assert stock.used(0, ()) == {"A": 3}
    assert not stock.classes["A"].fits(1, slice(0, 1)).any()
    stock.put(0, (), {"A": Inventory(9)}, {"A": 3})
    assert stock.used(0, ("A",)) == {"A": 3}
    stock.clear(0, ("A",))
    stock.put_used(0, (), {"A": 1})
    stock.put_used(0, (), {})
    assert not stock.classes


def test_an_inventory_with_nothing_to_give_is_one() -> None:
    """An inventory with a ratio of 0 or below is stored and has no room."""
    stock = ProviderStock(3)
    for row, ratio in enumerate((0.0, -1.0)):
        stock.put(row, (), {"A": Inventory(4, allocation_ratio=ratio)}, {})
    columns = stock.classes["A"]
    assert columns.capacity.tolist() == [0, -4, 0]
    assert (columns.terms != 0).tolist() == [True, True, False]
    assert not columns.fits(1, slice(0, 3)).any()
