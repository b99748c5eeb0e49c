"""Tests for the verdicts about groups and for assigning them."""

from collections.abc import Mapping

import numpy as np
import pytest

from berth.domain.errors import InvalidInputError
from berth.domain.hardware.assignment import Assignment
from berth.domain.inventory.resources import VCPU, Inventory
from berth.scheduling.granular import group_fit
from berth.scheduling.granular.group_fit import assign, fits_groups
from berth.scheduling.rules.rule import Query
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import (
    GPU_MILLI,
    NOW_S,
    Box,
    Child,
    asking,
    child_uuid,
    gpus,
    sized,
    snapshot_of,
    uuid_of,
)

BOXES = (
    Box("bare"),
    Box("busy", children=gpus(0, 300, 700)),
    Box("free", children=gpus(1000, 1000)),
    Box("odd", children=(Child("card", {GPU_MILLI: Inventory(2000), "N": Inventory(1)}),)),
    Box("own", inventories={**sized(), GPU_MILLI: Inventory(500)}),
)


@pytest.fixture
def hosts() -> HostTable:
    """Return a table of hosts with and without children."""
    return table_of(snapshot_of(BOXES))


def query(specs: Mapping[str, str]) -> Query:
    """Return the query of a small request with these extra specs."""
    request = asking(specs=specs)
    return Query(request, request.needs, NOW_S, None, request.instance_uuids[0])


def shares(*amounts: int, policy: str = "none") -> dict[str, str]:
    """Return extra specs of groups that each request an amount of a GPU."""
    specs = {f"resources_{n}:{GPU_MILLI}": str(one) for n, one in enumerate(amounts)}
    return specs | {"group_policy": policy}


@pytest.mark.parametrize(
    ("specs", "names"),
    [
        (shares(500), ["busy", "free", "odd", "own"]),
        (shares(1000), ["free", "odd"]),
        (shares(500, 500), ["free", "odd"]),
        (shares(500, 500, policy="isolate"), ["free"]),
        (shares(700, 300), ["busy", "free", "odd"]),
        (shares(700, 300, policy="isolate"), ["busy", "free"]),
        (shares(1000, 600, 400), ["free", "odd"]),
        (shares(1000, 700, 300, policy="isolate"), []),
        ({"resources_1:N": "1", "resources_2:VCPU": "7", "group_policy": "none"}, ["odd"]),
        ({"resources_1:VCPU": "8"}, []),
        ({"resources_1:CUSTOM_NONE": "1"}, []),
    ],
)
def test_hosts_that_give_all_groups(
    hosts: HostTable, specs: dict[str, str], names: list[str]
) -> None:
    """The verdicts for the whole table equal those for each row alone."""
    needs = query(specs).needs
    verdict = fits_groups(hosts, needs, hosts.all_rows)
    assert list(hosts.names(np.flatnonzero(verdict))) == names
    alone = [bool(fits_groups(hosts, needs, np.array([row]))[0]) for row in range(len(hosts))]
    assert alone == verdict.tolist()


def test_what_is_not_settled_counts_as_no_unless_it_is_searched(hosts: HostTable) -> None:
    """Without `exact` a case that only the search can decide is refused."""
    hosts.trees.hold(child_uuid(uuid_of("free"), "GPU 0"), {GPU_MILLI: 994})
    hosts.trees.hold(child_uuid(uuid_of("free"), "GPU 1"), {GPU_MILLI: 991})
    needs = query(shares(5, 4, 4, 2)).needs
    row = np.array([2])
    assert fits_groups(hosts, needs, row).tolist() == [True]
    assert fits_groups(hosts, needs, row, exact=False).tolist() == [False]


def test_without_children_and_groups_there_is_nothing_to_say() -> None:
    """Hosts without children pass requests without groups."""
    hosts = table_of(snapshot_of([Box("a")]))
    needs = query({"trait:CUSTOM_X": "required"}).needs
    assert fits_groups(hosts, needs, hosts.all_rows).tolist() == [True]


def test_groups_are_assigned_to_children(hosts: HostTable) -> None:
    """Groups are assigned to the best-fitting children."""
    one, two = (child_uuid(uuid_of("busy"), f"GPU {number}") for number in (1, 2))
    assert assign(hosts, query(shares(600, 200)), 1) == Assignment(
        allocations={one: {GPU_MILLI: 200}, two: {GPU_MILLI: 600}},
        mappings={"_0": (two,), "_1": (one,)},
    )
    card = child_uuid(uuid_of("odd"), "card")
    assert assign(hosts, query(shares(600, 100)), 3) == Assignment(
        allocations={card: {GPU_MILLI: 700}}, mappings={"_0": (card,), "_1": (card,)}
    )


def test_a_group_on_the_root_adds_to_what_the_root_gives(hosts: HostTable) -> None:
    """An assignment of a group to the root includes the root's other amounts."""
    root = uuid_of("bare")
    assert assign(hosts, query({"resources1:VCPU": "2"}), 0) == Assignment(
        mappings={"1": (root,)}, root={VCPU: 3, "MEMORY_MB": 1024, "DISK_GB": 10}
    )


def test_the_unsuffixed_group_is_spread_where_the_root_cannot_give(hosts: HostTable) -> None:
    """A class that only a child has is assigned to the child, with a mapping without suffix."""
    root, card = uuid_of("odd"), child_uuid(uuid_of("odd"), "card")
    assert assign(hosts, query({"resources:N": "1"}), 3) == Assignment(
        allocations={card: {"N": 1}},
        mappings={"": (root, card)},
        root={VCPU: 1, "MEMORY_MB": 1024, "DISK_GB": 10},
    )


def test_nothing_is_assigned_when_the_root_gives_all(hosts: HostTable) -> None:
    """Nothing is assigned if the root serves the whole request."""
    assert assign(hosts, query({}), 0) is None
    assert assign(hosts, query({}), 1) is None


def test_a_row_that_cannot_give_is_a_mistake_in_the_policy(hosts: HostTable) -> None:
    """Assigning a row that cannot serve the groups raises an error that names the filter."""
    with pytest.raises(InvalidInputError, match="GranularGroupsFilter"):
        assign(hosts, query(shares(2000)), 1)


def test_asks_are_kept_for_the_same_needs_only(
    hosts: HostTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cached requests are not confused when the cache is full."""
    monkeypatch.setattr(group_fit, "_KEPT_MAX", 7)
    kept = [query(shares(amount)) for amount in range(690, 710)]
    row = np.array([1])
    for one in (*kept, *kept[:5]):
        amount = next(iter(one.needs.groups)).amounts[GPU_MILLI]
        assert fits_groups(hosts, one.needs, row).tolist() == [amount <= 700]
