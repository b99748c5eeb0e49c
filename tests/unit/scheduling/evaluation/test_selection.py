"""Tests for choosing the best host, or a random one of the best."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from berth.domain.compute.decision import ScoredHost
from berth.scheduling.evaluation.ranking import FullRanking, RestrictedRanking
from berth.scheduling.evaluation.selection import RandomSource, choose_host
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import Box, snapshot_of


@pytest.fixture
def hosts() -> HostTable:
    """Return a table of five hosts whose rows are not in the order of their names."""
    return table_of(snapshot_of([Box(name) for name in "ecadb"]))


def rank(hosts: HostTable, *scores: float) -> FullRanking:
    """Return a ranking with one score per row."""
    return FullRanking(hosts, hosts.alive_rows(), np.array(scores, dtype=np.float64))


def pick(
    hosts: HostTable, ranking: FullRanking, seed: int, size: int = 1, shuffle: bool = False
) -> str:
    """Return the name of the host chosen with a seed."""
    index, _ = choose_host(
        ranking, subset_size=size, shuffle=shuffle, random_source=RandomSource(seed), shown=3
    )
    return hosts.names([ranking.rows[index]])[0]


def test_the_best_score_is_first(hosts: HostTable) -> None:
    """Rows are ranked by score, and equal scores by name."""
    ranking = rank(hosts, 1, 5, 5, 0, 1)
    assert ranking.best(5) == [2, 1, 4, 0, 3]
    assert ranking.best(1) == [2]
    assert ranking.best(99) == [2, 1, 4, 0, 3]
    assert ranking.best(0) == []


def test_no_hosts_have_no_best(hosts: HostTable) -> None:
    """An empty ranking has no best hosts."""
    empty = FullRanking(hosts, np.zeros(0, dtype=np.intp), np.zeros(0))
    assert empty.best(3) == []


@pytest.mark.parametrize("count", [1, 2, 7, 300])
def test_the_best_of_many_are_found_among_ties(count: int) -> None:
    """The best of many rows are found in spite of ties."""
    names = [f"h{number:04}" for number in range(1_000)]
    Random(1).shuffle(names)
    hosts = table_of(snapshot_of([Box(name) for name in names]))
    scores = [float(number % 7 == 0) + 2.0 * (number == 500) for number in range(1_000)]
    expected = sorted(range(1_000), key=lambda i: (-scores[i], names[i]))[:count]
    assert rank(hosts, *scores).best(count) == expected


def test_without_chance_the_first_by_name_wins(hosts: HostTable) -> None:
    """Without a subset the first of equal hosts by name is chosen, whatever the seed."""
    ranking = rank(hosts, 1, 1, 1, 1, 1)
    assert {pick(hosts, ranking, seed) for seed in range(20)} == {"a"}


def test_a_subset_is_chosen_from_by_chance(hosts: HostTable) -> None:
    """A subset is chosen from at random, and no other host is chosen."""
    ranking = rank(hosts, 4, 3, 2, 1, 0)
    assert {pick(hosts, ranking, seed, size=2) for seed in range(40)} == {"e", "c"}
    assert {pick(hosts, ranking, seed, size=99) for seed in range(99)} == set("ecadb")


@pytest.mark.parametrize("size", [0, -3])
def test_a_subset_of_none_is_one(hosts: HostTable, size: int) -> None:
    """A subset size below 1 counts as 1, as in Nova."""
    assert pick(hosts, rank(hosts, 0, 0, 9, 0, 0), 0, size=size) == "a"


def test_shuffling_mixes_those_with_the_best_score(hosts: HostTable) -> None:
    """Shuffling chooses among all hosts with the best score, even beyond the subset."""
    ranking = rank(hosts, 1, 1, 1, 1, 0)
    assert {pick(hosts, ranking, seed, shuffle=True) for seed in range(99)} == set("ecad")
    mixed = {pick(hosts, ranking, seed, size=2, shuffle=True) for seed in range(99)}
    assert mixed == set("ecad")


def test_one_best_host_is_chosen_whatever_the_shuffle(hosts: HostTable) -> None:
    """A single best host is chosen whatever the shuffle."""
    ranking = rank(hosts, 1, 9, 1, 1, 1)
    assert {pick(hosts, ranking, seed, shuffle=True) for seed in range(20)} == {"c"}


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("shown", [0, 2, 99])
def test_runners_up_come_best_first_without_the_chosen(
    hosts: HostTable, shuffle: bool, shown: int
) -> None:
    """The runners-up are the next best hosts without the chosen one."""
    ranking = rank(hosts, 1, 2, 3, 4, 5)
    for seed in range(10):
        chosen, others = choose_host(
            ranking, subset_size=3, shuffle=shuffle, random_source=RandomSource(seed), shown=shown
        )
        expected = [index for index in (4, 3, 2, 1, 0) if index != chosen]
        assert others == expected[:shown]


class Counting:
    """A ranking that records how many of its best hosts were requested."""

    def __init__(self, ranking: FullRanking) -> None:
        self.asked: list[int] = []
        self._ranking = ranking
        self.size = ranking.size

    def count(self, maximum: int) -> int:
        """Return the number of hosts, or the maximum if there are more."""
        return self._ranking.count(maximum)

    def best(self, count: int) -> list[int]:
        """Record the count, and return the best hosts."""
        self.asked.append(count)
        return self._ranking.best(count)

    def tied(self) -> list[int]:
        """Return the hosts with the best score."""
        return self._ranking.tied()

    def row(self, number: int) -> int:
        """Return the row of a host."""
        return self._ranking.row(number)

    def find(self, row: int) -> int | None:
        """Return the index of the host in a row."""
        return self._ranking.find(row)

    def scored(self, numbers: Sequence[int]) -> list[ScoredHost]:
        """Return hosts with their scores."""
        return self._ranking.scored(numbers)


@pytest.mark.parametrize("size", [2, 5, 40])
@pytest.mark.parametrize("shown", [0, 3])
def test_a_draw_finds_no_more_hosts_than_it_needs(size: int, shown: int) -> None:
    """The choice is that of the whole subset, but only hosts up to the drawn one are found."""
    names = [f"h{number:02}" for number in range(30)]
    hosts = table_of(snapshot_of([Box(name) for name in names]))
    whole = rank(hosts, *[float(number % 5) for number in range(30)])
    for seed in range(60):
        counting = Counting(whole)
        chosen, others = choose_host(
            counting, subset_size=size, shuffle=False, random_source=RandomSource(seed), shown=shown
        )
        order = whole.best(size + shown)
        place = Random(seed).randrange(min(size, 30))
        assert chosen == order[place]
        assert others == [one for one in order if one != chosen][:shown]
        assert counting.asked == [max(place, shown) + 1]


@pytest.mark.parametrize("subset_size", [1, 2])
def test_no_more_hosts_are_tested_than_are_read(hosts: HostTable, subset_size: int) -> None:
    """A test of a host may place instances on trial, so hosts that nothing reads are not tested."""
    tested: list[int] = []

    def permits(number: int) -> bool:
        tested.append(number)
        return True

    ranking = RestrictedRanking(rank(hosts, 1, 2, 3, 4, 5), permits)
    choose_host(
        ranking, subset_size=subset_size, shuffle=False, random_source=RandomSource(1), shown=1
    )
    assert tested == [4, 3]
