"""Tests for interned values, pools and numbered names."""

import pytest

from berth.tables.columnar import interned as interned_module
from berth.tables.columnar.interned import Interned, NameIds, Pool, ValueIds


def test_equal_values_have_one_number() -> None:
    """Equal values share a number, which finds the value and its count of rows."""
    interned = Interned("")
    assert interned.take("a") == interned.take("a") == 1
    assert interned.take("b") == 2
    assert interned.all == ["", "a", "b"]
    assert [interned.row_count(number) for number in range(3)] == [0, 2, 1]


def test_an_unused_number_is_given_to_the_next_value() -> None:
    """A number without users is reused, so values that keep changing do not accumulate."""
    interned = Interned("")
    interned.take("a")
    for report in range(100):
        interned.release(interned.take(str(report)))
    assert interned.all == ["", "a", None]
    assert interned.take("new") == 2


def test_the_version_grows_with_new_values_alone() -> None:
    """The version changes only when a new value is added."""
    interned = Interned("")
    interned.take("a")
    version = interned.version
    interned.take("a")
    interned.release(0)
    interned.release(1)
    assert interned.version == version
    interned.take("b")
    assert interned.version > version


def test_nothing_is_never_forgotten() -> None:
    """Releasing the empty value never removes it."""
    interned = Interned("")
    interned.release(interned.take(""))
    assert interned.take("") == 0
    assert interned.take("a") == 1


def test_a_pool_keeps_one_object_for_equal_keys() -> None:
    """A pool keeps one object for equal keys as long as it has users."""
    pool: Pool[str, list[int]] = Pool()
    first, second = [1], [1]
    assert pool.take("a", first) is pool.take("a", second) is first
    pool.release("a")
    assert pool.take("a", second) is first
    pool.release("a")
    pool.release("a")
    assert len(pool) == 0
    assert pool.take("a", second) is second


def test_equal_values_have_equal_numbers() -> None:
    """Equal values get equal numbers, starting at 1."""
    made = ValueIds[str]()
    assert [made.number(text) for text in "abab"] == [1, 2, 1, 2]


def test_a_number_is_never_given_twice() -> None:
    """A forgotten value gets a new number, which was never used before."""
    made = ValueIds[int]()
    given = [made.number(value) for value in range(interned_module._IDS_KEPT + 10)]
    again = made.number(0)
    assert again not in given
    assert len(set(given)) == len(given)


def test_a_name_keeps_its_number_while_it_is_used() -> None:
    """A name keeps its number until all of its users have released it."""
    names = NameIds()
    names.take(("a", "b"))
    names.take(("a",))
    names.release(("a",))
    assert names.by_name == {"a": 0, "b": 1}


def test_a_number_that_is_free_is_given_to_the_next() -> None:
    """A released number is given to the next name."""
    names = NameIds()
    for number in range(100):
        names.take((f"name {number}",))
        assert set(names.by_name.values()) == {0}
        names.release((f"name {number}",))
    assert names.by_name == {}


def test_an_unused_name_cannot_be_released() -> None:
    """Releasing a name without users raises KeyError."""
    with pytest.raises(KeyError):
        NameIds().release(("a",))
