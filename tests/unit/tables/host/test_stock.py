"""Tests for amounts by resource class and the holds in addition to them."""

from hypothesis import given
from hypothesis import strategies as st

from berth.domain.inventory.resources import Inventory
from berth.tables.host.stock import Stock


def stock_of(*totals: int) -> Stock:
    """Return a stock whose rows have the given VCPU totals."""
    stock = Stock(len(totals))
    for row, total in enumerate(totals):
        stock.put(row, {"VCPU": Inventory(total)}, {})
    return stock


def test_held_amounts_count_as_used_until_they_are_released() -> None:
    """Held amounts count as used until they are released, and new usage does not affect them."""
    stock = stock_of(8)
    stock.hold(0, {"VCPU": 3})
    stock.put_used(0, {"VCPU": 2})
    assert stock.used(0) == {"VCPU": 5}
    stock.release_hold(0, {"VCPU": 3})
    assert stock.used(0) == {"VCPU": 2}


def test_no_more_is_released_than_is_held() -> None:
    """Releasing more than is held frees only what is held."""
    stock = stock_of(8)
    stock.release_hold(0, {"VCPU": 3})
    stock.hold(0, {"VCPU": 1})
    stock.release_hold(0, {"VCPU": 3, "CUSTOM_GPU": 1})
    assert stock.used(0) == {}
    assert stock.classes["VCPU"].free[0] == 8


def test_a_whole_hold_can_be_released_at_once() -> None:
    """Releasing without amounts releases the whole hold."""
    stock = stock_of(8)
    stock.hold(0, {"VCPU": 3})
    stock.hold(0, {"VCPU": 1})
    stock.release_hold(0)
    assert stock.used(0) == {}


def test_a_class_that_comes_later_counts_what_is_held_of_it() -> None:
    """A hold counts although its class gets its first inventory later."""
    stock = stock_of(8, 8)
    stock.hold(0, {"CUSTOM_GPU": 1})
    stock.put(1, {"CUSTOM_GPU": Inventory(4)}, {})
    assert stock.used(0) == {"CUSTOM_GPU": 1}
    stock.release_hold(0, {"CUSTOM_GPU": 1})
    assert stock.used(0) == {}
    assert stock.classes["CUSTOM_GPU"].used.tolist() == [0, 0]


def test_a_class_that_is_no_longer_reported_has_no_room() -> None:
    """A class without an inventory has no room and keeps its used amount."""
    stock = stock_of(8)
    stock.put(0, {}, {"VCPU": 2})
    assert stock.used(0) == {"VCPU": 2}
    assert stock.inventories(0) == {}
    assert stock.classes["VCPU"].fits(1, slice(0, 1)).tolist() == [False]


def test_a_cleared_row_holds_nothing() -> None:
    """A cleared row has no holds."""
    stock = stock_of(8)
    stock.hold(0, {"VCPU": 3})
    stock.clear(0)
    stock.put(0, {"VCPU": Inventory(4)}, {})
    assert stock.used(0) == {}
    stock.release_hold(0, {"VCPU": 3})
    assert stock.classes["VCPU"].free[0] == 4


_CLASSES = ("VCPU", "MEMORY_MB", "CUSTOM_NEW")
_USED = st.dictionaries(st.sampled_from(_CLASSES), st.integers(0, 40))


@given(
    limits=st.lists(st.sampled_from((0, 3, 16)), min_size=4, max_size=4),
    held=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=4),
    rounds=st.lists(st.dictionaries(st.integers(0, 3), _USED, max_size=4), max_size=3),
)
def test_usage_of_several_rows_is_that_of_each(
    limits: list[int], held: list[tuple[int, int]], rounds: list[dict[int, dict[str, int]]]
) -> None:
    """Setting the usage of rows together equals setting it row by row, with holds and limits."""
    together, apart = stock_of(), stock_of()
    for stock in (together, apart):
        stock.resize(5)
        for row, limit in enumerate(limits):
            stock.put(row, {"VCPU": Inventory(16, max_unit=limit, allocation_ratio=1.5)}, {})
        for row, amount in held:
            stock.hold(row, {"VCPU": amount})
    for used in rounds:
        changed = [row for row, amounts in used.items() if apart.put_used(row, amounts)]
        assert together.put_used_of(used) == changed
        for name, columns in apart.classes.items():
            mine = together.classes[name]
            assert mine.used.tolist() == columns.used.tolist()
            assert mine.room.tolist() == columns.room.tolist()
