"""Laws of granular groups: the verdict is the one that trying every arrangement gives."""

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.needs import Needs
from berth.domain.hardware.assignment import Assignment, allocations_by_provider
from berth.domain.inventory.provider import Provider
from berth.scheduling.granular.bounds import bounds_of
from berth.scheduling.granular.explain import changes, why_not
from berth.scheduling.granular.group_fit import assign, fits_groups, provider_views
from berth.scheduling.granular.provider_arrays import ProviderArrays
from berth.scheduling.granular.search import STEPS_MAX, search
from berth.scheduling.granular.tree_request import tree_request_of
from berth.scheduling.rules.rule import Query
from berth.tables.host.feed import table_of
from berth.testing.fleets import NOW_S, Box, asking, snapshot_of
from berth.testing.tree_strategies import granular_flavors, tree_boxes

Left = dict[tuple[int, str], int]


def room(provider: Provider, name: str) -> int:
    """Return the most that one consumer may get of a provider's class, -1 without an inventory."""
    inventory = provider.inventories.get(name)
    if inventory is None:
        return -1
    return min(inventory.capacity - provider.used.get(name, 0), inventory.unit_max)


def could_give(provider: Provider, name: str, amount: int) -> bool:
    """Tell whether a provider could give one group that amount if the group were the only one."""
    inventory = provider.inventories.get(name)
    if inventory is None or amount < inventory.min_unit or amount % inventory.step_size:
        return False
    return amount <= room(provider, name)


def arrangements(
    needs: Needs, tree: tuple[Provider, ...]
) -> Iterator[tuple[dict[str, int], tuple[int, ...]]]:
    """Yield every choice of a provider for each unsuffixed class and for each group."""
    names = [
        name
        for name, amount in needs.amounts.items()
        if any(could_give(provider, name, amount) for provider in tree)
    ]
    everyone = range(len(tree))
    for unsuffixed in product(everyone, repeat=len(names)):
        for groups in product(everyone, repeat=len(needs.groups)):
            yield dict(zip(names, unsuffixed, strict=True)), groups


def is_right(  # noqa: PLR0911 - one return for each rule
    needs: Needs,
    tree: tuple[Provider, ...],
    unsuffixed: Mapping[str, int],
    groups: tuple[int, ...],
) -> bool:
    """Tell whether an arrangement keeps every rule."""
    root = tree[0]
    asked: dict[tuple[int, str], int] = {}
    used_traits: set[str] = set(root.traits)
    for name, giver in unsuffixed.items():
        provider = tree[giver]
        if not could_give(provider, name, needs.amounts[name]):
            return False
        if giver and needs.traits_forbidden & provider.traits:
            return False
        used_traits |= provider.traits
        asked[giver, name] = asked.get((giver, name), 0) + needs.amounts[name]
    anywhere = {trait for provider in tree for trait in provider.traits}
    wanted = [{trait} for trait in needs.traits_required] + [set(one) for one in needs.traits_any]
    if any(one & anywhere and not one & used_traits for one in wanted):
        return False
    for giver, group in zip(groups, needs.groups, strict=True):
        provider = tree[giver]
        if not group.traits_required <= provider.traits:
            return False
        if group.traits_forbidden & provider.traits:
            return False
        for name, amount in group.amounts.items():
            if not could_give(provider, name, amount):
                return False
            asked[giver, name] = asked.get((giver, name), 0) + amount
    if needs.isolate and len(set(groups)) < len(groups):
        return False
    return all(amount <= room(tree[giver], name) for (giver, name), amount in asked.items())


def expected(needs: Needs, tree: tuple[Provider, ...]) -> bool:
    """Tell whether any arrangement is right."""
    return any(is_right(needs, tree, *one) for one in arrangements(needs, tree))


def query_of(flavor: Flavor) -> Query:
    """Return the query of a request for one instance."""
    request = asking(flavor)
    return Query(request, request.needs, NOW_S, None, request.instance_uuids[0])


@given(boxes=tree_boxes(), flavor=granular_flavors(), data=st.data())
def test_a_host_gives_exactly_when_some_arrangement_is_right(
    boxes: list[Box], flavor: Flavor, data: st.DataObject
) -> None:
    """The verdict is the exhaustive one, lies within the bounds, and ignores the other rows."""
    hosts = table_of(snapshot_of(boxes))
    needs = query_of(flavor).needs
    verdict = fits_groups(hosts, needs, hosts.all_rows)
    right = [expected(needs, box.providers) for box in boxes]
    assert verdict.tolist() == right
    ask = tree_request_of(needs)
    bounds = bounds_of(ask, ProviderArrays(hosts, ask, hosts.all_rows))
    assert not (bounds.certain & ~bounds.possible).any()
    event(f"settled by bounds: {bool((bounds.certain == bounds.possible).all())}")
    event(f"gives: {any(right)}")
    easy = fits_groups(hosts, needs, hosts.all_rows, exact=False)
    assert not (easy & ~verdict).any()
    for row in np.flatnonzero(~verdict).tolist():
        assert why_not(hosts, needs, row)
    some = data.draw(st.lists(st.sampled_from(range(len(boxes))), unique=True))
    rows = np.array(some, dtype=np.intp)
    assert fits_groups(hosts, needs, rows).tolist() == [right[row] for row in some]


@given(boxes=tree_boxes(), flavor=granular_flavors())
def test_what_is_assigned_is_right(boxes: list[Box], flavor: Flavor) -> None:
    """Assigned amounts come from the providers of the row, fit there, and sum to the request."""
    hosts = table_of(snapshot_of(boxes))
    query = query_of(flavor)
    needs = query.needs
    for row, box in enumerate(boxes):
        tree = box.providers
        fits = all(
            any(could_give(one, name, amount) for one in tree)
            for name, amount in needs.amounts.items()
        )
        if not fits or not expected(needs, tree):
            continue
        assignment = assign(hosts, query, row)
        check(needs, tree, assignment)


def check(needs: Needs, tree: tuple[Provider, ...], assignment: Assignment | None) -> None:
    """Check an assignment against the needs and the tree."""
    by_uuid = {provider.uuid: provider for provider in tree}
    places = {provider.uuid: place for place, provider in enumerate(tree)}
    given_out = allocations_by_provider(tree[0].uuid, needs.amounts, assignment)
    total: dict[str, int] = {}
    for uuid, amounts in given_out.items():
        for name, amount in amounts.items():
            assert 0 < amount <= room(by_uuid[uuid], name)
            assert not amount % by_uuid[uuid].inventories[name].step_size
            total[name] = total.get(name, 0) + amount
    asked = dict(needs.amounts)
    for group in needs.groups:
        for name, amount in group.amounts.items():
            asked[name] = asked.get(name, 0) + amount
    assert total == asked
    mappings = {} if assignment is None else assignment.mappings
    assert mappings.keys() - {""} == {group.suffix for group in needs.groups}
    groups = tuple(places[mappings[group.suffix][0]] for group in needs.groups)
    rest = {uuid: dict(amounts) for uuid, amounts in given_out.items()}
    for place, group in zip(groups, needs.groups, strict=True):
        for name, amount in group.amounts.items():
            rest[tree[place].uuid][name] -= amount
    unsuffixed = {
        name: places[uuid]
        for uuid, amounts in rest.items()
        for name, amount in amounts.items()
        if amount
    }
    assert is_right(needs, tree, unsuffixed, groups)


@given(boxes=tree_boxes(), flavor=granular_flavors())
def test_changes_are_offered_for_hosts_that_cannot_give(boxes: list[Box], flavor: Flavor) -> None:
    """A change helps only rows that were asked about, and never increases what is asked for."""
    hosts = table_of(snapshot_of(boxes))
    needs = query_of(flavor).needs
    rows = np.flatnonzero(~fits_groups(hosts, needs, hosts.all_rows))
    for change in changes(hosts, needs, rows):
        assert set(change.rows.tolist()) <= set(rows.tolist())
        assert change.by is None or change.by < 0


@given(boxes=tree_boxes(), flavor=granular_flavors())
def test_the_order_of_children_makes_no_difference(boxes: list[Box], flavor: Flavor) -> None:
    """The search succeeds with the children in reverse order exactly if it succeeds in order."""
    hosts = table_of(snapshot_of(boxes))
    ask = tree_request_of(query_of(flavor).needs)
    for row in range(len(boxes)):
        root, *children = provider_views(hosts, ask, row)
        found = search(ask, [root, *children])
        backwards = search(ask, [root, *reversed(children)])
        assert (found is None) == (backwards is None)
    assert STEPS_MAX > 0
