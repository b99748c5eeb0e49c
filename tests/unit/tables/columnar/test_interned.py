"""Interned values: numbered, counted, and forgotten when nobody has them."""

from berth.tables.columnar.interned import Interned, Pool


def test_equal_values_have_one_number() -> None:
    """And the value can be read back by it."""
    interned = Interned("")
    assert interned.take("a") == interned.take("a") == 1
    assert interned.take("b") == 2
    assert interned.all == ["", "a", "b"]
    assert [interned.having(number) for number in range(3)] == [0, 2, 1]


def test_a_number_that_nobody_has_is_given_to_the_next_value() -> None:
    """So what changes at every report does not pile up."""
    interned = Interned("")
    interned.take("a")
    for report in range(100):
        interned.release(interned.take(str(report)))
    assert interned.all == ["", "a", None]
    assert interned.take("new") == 2


def test_the_version_grows_with_new_values_alone() -> None:
    """What was derived of the values by number holds until then."""
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
    """Rows that have nothing may come and go."""
    interned = Interned("")
    interned.release(interned.take(""))
    assert interned.take("") == 0
    assert interned.take("a") == 1


def test_a_pool_keeps_one_object_for_equal_keys() -> None:
    """For as long as anybody keeps it."""
    pool: Pool[str, list[int]] = Pool()
    first, second = [1], [1]
    assert pool.take("a", first) is pool.take("a", second) is first
    pool.release("a")
    assert pool.take("a", second) is first
    pool.release("a")
    pool.release("a")
    assert len(pool) == 0
    assert pool.take("a", second) is second
