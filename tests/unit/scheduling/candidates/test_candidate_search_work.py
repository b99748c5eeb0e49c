"""Tests for the number of steps that a search takes."""

import pytest

from berth.scheduling.candidates.candidate_search import find_candidates
from berth.scheduling.candidates.query import CandidateQuery
from berth.tables.provider.providers import ProviderTable
from berth.tables.provider.sharing import SHARES
from tests.unit.scheduling.candidates.providers import (
    asking,
    forest,
    group,
    provider,
)

LIMIT = 1000
DEVICE = {"DEVICE": 1}


def devices(count: int, size: int = 1) -> ProviderTable:
    """Return a table of one host with devices."""
    children = (provider(f"d{n}", {"DEVICE": size}, below="host") for n in range(count))
    return forest(provider("host", {"VCPU": 8}), *children)


def asking_devices(
    count: int, amount: int = 1, *, isolates: bool = False, limit: int = LIMIT
) -> CandidateQuery:
    """Return a query of several groups that each request an amount of a device."""
    groups = (group(f"_{n}", {"DEVICE": amount}) for n in range(count))
    return asking(*groups, isolates=isolates, limit=limit)


def test_rows_alone_cost_no_steps() -> None:
    """Hosts without children take no steps."""
    table = forest(*(provider(f"h{n}", {"VCPU": 8, "DISK_GB": 8}) for n in range(10_000)))
    answer = find_candidates(table, asking(group(amounts={"VCPU": 1, "DISK_GB": 1}), limit=LIMIT))
    assert (answer.alone.size, len(answer.composed), answer.steps) == (LIMIT, 0, 0)


@pytest.mark.parametrize("isolates", [False, True])
@pytest.mark.parametrize("groups", [6, 8])
def test_groups_that_compete_for_devices(groups: int, isolates: bool) -> None:
    """A limit of 1,000 bounds the steps for groups that compete for eight devices."""
    answer = find_candidates(devices(8), asking_devices(groups, isolates=isolates))
    assert len(answer.composed) == LIMIT
    assert answer.steps <= 2 * groups * LIMIT
    assert (
        find_candidates(devices(8), asking_devices(groups, isolates=isolates, limit=1)).steps
        <= 8 * groups
    )


def test_trees_are_searched_as_they_are_wanted() -> None:
    """Trees are searched only until the limit is reached, one candidate of each first."""
    trees = [
        one
        for n in range(1000)
        for one in (
            provider(f"h{n}"),
            *(provider(f"h{n}c{m}", {"VCPU": 4}, below=f"h{n}") for m in range(2)),
            *(provider(f"h{n}d{m}", DEVICE, below=f"h{n}c{m % 2}") for m in range(4)),
        )
    ]
    table = forest(*trees)
    two = (group("1", {"VCPU": 1}), group("2", DEVICE))
    answer = find_candidates(table, asking(*two, limit=LIMIT))
    assert len({one.mappings[0][0] for one in answer.composed}) == LIMIT
    assert answer.steps == LIMIT
    assert find_candidates(table, asking(*two, limit=10)).steps == 10
    assert find_candidates(table, asking(*two)).steps == 8 * LIMIT
    near = find_candidates(table, asking(*two, same_subtree=["1 2"], limit=LIMIT))
    assert len(near.composed) == LIMIT
    assert near.steps <= 4 * LIMIT


@pytest.mark.parametrize("isolates", [False, True])
def test_too_few_devices_are_seen_at_once(isolates: bool) -> None:
    """Nine groups for eight devices take no steps."""
    answer = find_candidates(devices(8), asking_devices(9, isolates=isolates))
    assert (len(answer.composed), answer.steps) == (0, 0)


def test_rooms_that_are_good_for_the_same_are_alike() -> None:
    """Devices that differ in size but serve the same number of groups count as equivalent."""
    children = (provider(f"d{n}", {"DEVICE": 100 + n}, below="host") for n in range(16))
    answer = find_candidates(forest(provider("host"), *children), asking_devices(17, 60))
    assert not answer.composed
    assert answer.steps < 1000


def test_groups_that_cannot_be_apart() -> None:
    """Too few providers for some groups are found without trying all others."""
    few = [provider(f"a{n}", DEVICE, below="host", traits=f"A T{n}") for n in range(6)]
    many = [provider(f"b{n}", DEVICE, below="host", traits=f"B T{n}") for n in range(6)]
    table = forest(provider("host", traits="A B"), *few, *many)
    groups = [group(f"_b{n}", DEVICE, required=["B"]) for n in range(5)]
    groups += [group(f"_a{n}", DEVICE, required=["A"]) for n in range(7)]
    answer = find_candidates(table, asking(*groups, isolates=True, limit=LIMIT))
    assert not answer.composed
    assert answer.steps < 1000


def test_what_is_shared_by_all_is_listed_once() -> None:
    """Sharing providers of 300 hosts are searched once."""
    hosts = (provider(f"h{n}", {"VCPU": 1}, aggregates="ag") for n in range(300))
    pools = (provider(f"p{n}", {"DISK_GB": 9}, traits=SHARES, aggregates="ag") for n in range(100))
    answer = find_candidates(forest(*hosts, *pools), asking(group("1", {"DISK_GB": 1})))
    assert len(answer.composed) == 100
    assert answer.steps == 100
