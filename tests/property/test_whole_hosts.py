"""Weighers of whole hosts agree with values counted provider by provider."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from berth.domain.compute.needs import Needs
from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.change import Snapshot
from berth.scheduling.rules.rule import Query
from berth.scheduling.weighers import left_capacity, usable_capacity
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleet_strategies import requests, snapshots
from berth.testing.fleets import NOW_S
from berth.testing.tree_strategies import granular_flavors, with_trees

STEPS = 1000
COMMON = {"VCPU", "PCPU", "MEMORY_MB", "DISK_GB"}
REQUESTS = st.builds(
    lambda one, flavor: replace(one, flavor=flavor), requests(), granular_flavors()
)


def counted(hosts: HostTable, row: int) -> dict[str, tuple[int, int]]:
    """Return (capacity, used) of a host by class, counted provider by provider."""
    trees = hosts.trees
    found: dict[str, tuple[int, int]] = {}
    slots = trees.on_row(row)
    providers = [({n: hosts.resource(n) for n in hosts.resource_classes}, row)]
    providers += [({n: trees.resource(n) for n in trees.resource_classes}, slot) for slot in slots]
    for classes, place in providers:
        for name, columns in classes.items():
            assert columns is not None
            capacity, used = found.get(name, (0, 0))
            found[name] = (
                capacity + columns.capacity[place].item(),
                used + columns.used[place].item(),
            )
    return {name: (capacity, used) for name, (capacity, used) in found.items() if capacity > 0}


def asked_by(needs: Needs) -> dict[str, int]:
    """Return the sum of all amounts asked for, by class."""
    asked: dict[str, int] = {}
    for amounts in (needs.amounts, *(group.amounts for group in needs.groups)):
        for name, amount in amounts.items():
            asked[name] = asked.get(name, 0) + amount
    return asked


def usable(found: dict[str, tuple[int, int]], asked: dict[str, int]) -> float:
    """Return the value of UsableCapacityWeigher for one host."""
    free = {name: (capacity - used) / capacity for name, (capacity, used) in found.items()}
    share = {name: asked.get(name, 0) / found[name][0] for name in found}
    before = min([1.0, *free.values()])
    after = min([1.0, *(free[name] - share[name] for name in found)])
    counting = set(asked) - COMMON or set(asked)
    taken = max([0.0, *(share[name] for name in found if name in counting)])
    return taken / (taken + before - after) if taken else 0.0


@given(snapshot=with_trees(snapshots()), request=REQUESTS)
def test_capacity_is_counted_over_the_tree(snapshot: Snapshot, request: Request) -> None:
    """Both capacity weighers have the values counted over all providers of a host."""
    hosts = table_of(snapshot)
    try:
        needs = request.needs
    except InvalidInputError:
        assume(False)
        raise
    query = Query(request, needs, NOW_S, None, request.instance_uuids[0])
    asked = asked_by(needs)
    rows = hosts.alive_rows()
    usables = usable_capacity.build(steps=STEPS).raw(hosts, query, rows)
    lefts = left_capacity.build().raw(hosts, query, rows)
    if usables is None or lefts is None:
        assert not asked
        return
    for row, one, left in zip(rows.tolist(), usables, lefts, strict=True):
        found = counted(hosts, row)
        assert abs(one - usable(found, asked)) <= 0.5 / STEPS + 1e-9
        after = [max(0.0, (c - u - asked[n]) / c) for n, (c, u) in found.items() if n in asked]
        assert abs(left - sum(after) / len(asked)) <= 1e-9
