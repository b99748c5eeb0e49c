"""Numbers that stand for values."""

from berth.tables.columnar import value_numbers
from berth.tables.columnar.interned import Numbers


def test_equal_values_have_equal_numbers() -> None:
    """Counted from 1."""
    made = Numbers[str]()
    assert [made.number(text) for text in "abab"] == [1, 2, 1, 2]


def test_a_number_is_never_given_twice() -> None:
    """What was forgotten gets a new one."""
    made = Numbers[int]()
    given = [made.number(value) for value in range(value_numbers._KEPT + 10)]
    again = made.number(0)
    assert again not in given
    assert len(set(given)) == len(given)
