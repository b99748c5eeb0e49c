"""Numbered names: small numbers for names that somebody has."""

import pytest

from berth.tables.columnar.interned import NumberedNames


def test_a_name_keeps_its_number_while_somebody_has_it() -> None:
    """However many do."""
    names = NumberedNames()
    names.take(("a", "b"))
    names.take(("a",))
    names.release(("a",))
    assert names.by_name == {"a": 0, "b": 1}


def test_a_number_that_is_free_is_given_to_the_next() -> None:
    """So numbers stay small while names come and go."""
    names = NumberedNames()
    for number in range(100):
        names.take((f"name {number}",))
        assert set(names.by_name.values()) == {0}
        names.release((f"name {number}",))
    assert names.by_name == {}


def test_what_nobody_has_cannot_be_released() -> None:
    """That would be a mistake in counting."""
    with pytest.raises(KeyError):
        NumberedNames().release(("a",))
