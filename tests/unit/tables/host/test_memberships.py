"""Tests for the memberships of hosts in aggregates and their metadata."""

import numpy as np
import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.tables.host.memberships import Memberships

EVERYONE = slice(0, 3)


def aggregate(number: int, *hosts: str, **metadata: str) -> Aggregate:
    """Return an aggregate of these hosts."""
    return Aggregate(number, f"u{number}", f"n{number}", frozenset(hosts), metadata)


def memberships(*aggregates: Aggregate) -> Memberships:
    """Return memberships whose rows 0, 1 and 2 are hosts a, b and c."""
    made = Memberships(rows_of)
    made.resize(3)
    for row, name in enumerate("abc"):
        made.put_row(row, name)
    for one in aggregates:
        made.put(one)
    return made


def rows_of(name: str) -> list[int]:
    """Return the rows of a host name; only a, b and c have one."""
    return ["abc".index(name)] if name in "abc" else []


def test_aggregates_of_a_host_come_by_id() -> None:
    """The aggregates of a host are sorted by id."""
    found = memberships(aggregate(10, "a"), aggregate(2, "a", "b"))
    assert [one.aggregate_id for one in found.of_host("a")] == [2, 10]
    assert found.of_host("nobody") == ()
    assert [found.by_row.get(row) for row in range(3)] == [{2, 10}, {2}, frozenset()]


def test_a_change_concerns_the_hosts_that_came_or_left() -> None:
    """A change returns the rows of hosts that came or left; new metadata, the rows of all hosts."""
    found = memberships()
    assert sorted(found.put(aggregate(1, "a", "b"))) == [0, 1]
    assert sorted(found.put(aggregate(1, "b", "c"))) == [0, 2]
    assert found.put(aggregate(1, "b", "c")) == []
    assert found.put(aggregate(1, "c", "d", key="x")) == [1, 2]
    assert found.put(aggregate(1, "c", "d", key="y")) == [2]
    assert found.of_host("a") == ()
    assert found.remove(1) == [2]
    assert found.remove(1) == []
    assert found.by_id == {}


def test_a_change_of_metadata_asks_for_no_host() -> None:
    """A change of metadata looks up no host by name.

    Such look-ups would grow with the aggregate, which may contain most of the fleet.
    """
    asked: list[str] = []

    def counting(name: str) -> list[int]:
        asked.append(name)
        return [int(name)]

    names = [str(row) for row in range(50)]
    found = Memberships(counting)
    found.resize(50)
    found.put(aggregate(1, *names))
    found.put(aggregate(2, *names[::2], availability_zone="even"))
    asked.clear()
    changed = found.put(aggregate(1, *names, availability_zone="all", limit="3"))
    assert changed == list(range(50))
    assert [found.zones.get(row) for row in range(3)] == [{"all", "even"}, {"all"}, {"all", "even"}]
    assert found.least_of("limit", slice(0, 50)) is not None
    found.put(aggregate(2, *names[::2], availability_zone="even", other=""))
    assert found.zones.get(2) == {"all", "even"}
    assert asked == []


def test_metadata_and_hosts_may_change_at_once() -> None:
    """A change of metadata and hosts gives the same state as a fresh table."""
    others = aggregate(2, "b", "c", availability_zone="z2"), aggregate(3, "c", limit="7")
    found = memberships(*others, aggregate(1, "a", "b", availability_zone="z1", limit="1"))
    for one in (
        aggregate(1, "b", "c", availability_zone="z1, z3", limit="2"),
        aggregate(1, "a", "b", "c", limit="2"),
        aggregate(1, "a", availability_zone="z2"),
        aggregate(1, "a", "b", "d", availability_zone=" ,z4", limit="x"),
        aggregate(1),
    ):
        found.put(one)
        fresh = memberships(*others, one)
        for row in range(3):
            assert found.zones.get(row) == fresh.zones.get(row)
            assert found.by_row.get(row) == fresh.by_row.get(row)
            assert found.words("limit", row) == fresh.words("limit", row)
        assert least(found, "limit") == least(fresh, "limit")


def test_zones_are_those_of_all_aggregates() -> None:
    """A host is in the zones of all its aggregates; empty names are ignored."""
    found = memberships(
        aggregate(1, "a", "b", availability_zone="z1"),
        aggregate(2, "a", availability_zone="z2, z3,"),
    )
    assert found.zones.get(0) == {"z1", "z2", "z3"}
    assert found.zones.get(2) == frozenset()


def test_words_are_split_stripped_and_put_together() -> None:
    """Values are split at commas and stripped; an empty value is one empty word, as in Nova."""
    found = memberships(
        aggregate(1, "a", "b", ssd="yes, no ,"),
        aggregate(2, "a", ssd="maybe"),
        aggregate(3, "c", ssd="", other="x"),
    )
    assert found.with_key("ssd") == {1: {"yes", "no", ""}, 2: {"maybe"}, 3: {""}}
    assert found.with_key("nothing") == {}
    assert set(found.by_key) == {"ssd", "other"}
    assert found.words("ssd", 0) == {"yes", "no", "", "maybe"}
    assert found.words("ssd", 2) == {""}
    assert found.words("other", 0) == frozenset()


def least(found: Memberships, key: str, *, above: float = -np.inf) -> list[float] | None:
    """Return the least numbers of all rows, with -99 for rows without one."""
    values = found.least_of(key, EVERYONE, above=above)
    return None if values is None else np.nan_to_num(values, nan=-99).tolist()


def test_the_least_number_of_several_aggregates_counts() -> None:
    """The least finite number among a host's aggregates is used; other text is ignored."""
    found = memberships(
        aggregate(1, "a", "b", limit="5"),
        aggregate(2, "a", limit=" 3.5 "),
        aggregate(3, "b", "c", limit="many"),
        aggregate(4, "a", limit="-inf"),
        aggregate(5, "a", limit="nan"),
        aggregate(6, "a", limit=""),
        aggregate(7, "b", other="1"),
    )
    assert least(found, "limit") == [3.5, 5, -99]
    assert least(found, "limit", above=3.5) == [5, 5, -99]
    assert least(found, "nothing") is None
    few = found.least_of("limit", np.array([1, 1, 0]))
    assert few is not None
    assert few.tolist() == [5, 5, 3.5]


def test_the_aggregate_that_gives_the_least_number_is_known() -> None:
    """The aggregate with the least number is returned; ties go to the lowest id."""
    found = memberships(
        aggregate(3, "a", limit="2"),
        aggregate(2, "a", limit="2.0"),
        aggregate(1, "a", limit="0"),
        aggregate(4, "b", limit="x"),
    )
    lowest, giver = found.least_at("limit", 0), found.least_at("limit", 0, above=0)
    assert lowest is not None
    assert lowest.aggregate_id == 1
    assert giver is not None
    assert giver.aggregate_id == 2
    assert found.least_at("limit", 1) is None
    assert found.least_at("nothing", 0) is None


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (aggregate(1, "a", "b", limit="9"), [9, 7, -99]),
        (aggregate(1, "a", "b", other="9"), [-99, 7, -99]),
        (aggregate(1, "c", limit="5"), [-99, 7, 5]),
        (aggregate(3, "b", "c", limit="1"), [5, 1, 1]),
        (aggregate(1, limit="5"), [-99, 7, -99]),
        (aggregate(9, "a", "c"), [5, 7, -99]),
        (2, [5, 5, -99]),
        (1, [-99, 7, -99]),
    ],
)
def test_numbers_follow_every_change(change: Aggregate | int, after: list[float]) -> None:
    """The least numbers follow changes of metadata, hosts and aggregates."""
    found = memberships(aggregate(1, "a", "b", limit="5"), aggregate(2, "b", limit="4"))
    assert least(found, "limit") == [5, 4, -99]
    found.put(aggregate(2, "b", limit="7"))
    found.put(aggregate(1, "a", limit="5"))
    assert least(found, "limit") == [5, 7, -99]
    if isinstance(change, int):
        found.put(aggregate(1, "a", "b", limit="5"))
        found.remove(change)
    else:
        found.put(change)
    assert least(found, "limit") == after


def test_a_key_that_is_gone_is_forgotten() -> None:
    """A metadata key that no aggregate has any more is dropped with its cached numbers."""
    found = memberships(aggregate(1, "a", limit="5"))
    assert least(found, "limit") == [5, -99, -99]
    found.put(aggregate(1, "a"))
    assert least(found, "limit") is None
    assert found._least == {}
    assert list(found.by_key) == []


def test_a_row_without_host_is_in_no_aggregate() -> None:
    """A row without a host is in no aggregate, and a host that returns is in its aggregates."""
    found = memberships(aggregate(1, "a", "b", limit="5"))
    found.put_row(0, None)
    assert found.by_row.has_any([1], EVERYONE).tolist() == [False, True, False]
    assert least(found, "limit") == [-99, 5, -99]
    found.put_row(0, "a")
    assert found.by_row.has_any([1], np.array([0, 2])).tolist() == [True, False]
