"""Strategies for small provider trees and requests for them.

Tests compare decisions with an exhaustive search, which only small trees permit.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from hypothesis import strategies as st

from berth.domain.compute.flavor import Flavor
from berth.domain.inventory.resources import VCPU, Inventory
from berth.domain.ledger.change import Snapshot
from berth.testing.fleets import GPU_MILLI, Box, Child, children_of

NIC = "CUSTOM_NIC"
CHILDREN_MAX = 4
TREE_TRAITS = ("CUSTOM_A", "CUSTOM_B")
SUFFIXES = ("1", "2", "_GPU", "-x")

# The inventories have each limit on its own (ratio, maximum, step, minimum and reserve), and
# capacities of 0 and below.
_STOCKS: Mapping[str, tuple[Inventory, ...]] = {
    VCPU: (
        Inventory(4),
        Inventory(4, allocation_ratio=2.0),
        Inventory(2),
        Inventory(4, allocation_ratio=-1.0),
    ),
    GPU_MILLI: (
        Inventory(1000),
        Inventory(1000),
        Inventory(2000, max_unit=1000),
        Inventory(1000, step_size=500),
        Inventory(1000, min_unit=300),
    ),
    NIC: (
        Inventory(1),
        Inventory(2),
        Inventory(0),
        Inventory(2, allocation_ratio=0.0),
        Inventory(1, reserved=2),
    ),
}
_AMOUNTS: Mapping[str, tuple[int, ...]] = {
    VCPU: (0, 1, 2, 4),
    GPU_MILLI: (250, 300, 500, 500, 700, 1000),
    NIC: (0, 1, 2),
}
# Each strategy is built once, since building one takes longer than drawing from it.
_TRAITS = st.frozensets(st.sampled_from(TREE_TRAITS))
_NAMES = st.frozensets(st.sampled_from(sorted(_STOCKS)))
_STOCKED = {name: st.sampled_from(stock) for name, stock in _STOCKS.items()}
_SHARES = st.sampled_from((0, 0, 0, 1, 2, 3, 4, 5))
_COUNTS = st.integers(0, CHILDREN_MAX)


@st.composite
def stocks(draw: st.DrawFn) -> tuple[dict[str, Inventory], dict[str, int]]:
    """Draw the inventories of one provider and its usage, which may exceed the capacity."""
    names = draw(_NAMES)
    has = {name: draw(_STOCKED[name]) for name in sorted(names)}
    used = {name: one.total * draw(_SHARES) // 4 for name, one in has.items()}
    return has, {name: amount for name, amount in used.items() if amount}


# There are at most two kinds of providers, because a choice between equal ones is the hard case.
_KINDS = st.lists(st.tuples(stocks(), _TRAITS), min_size=1, max_size=2)


@cache
def _above(*names: str) -> st.SearchStrategy[str]:
    return st.sampled_from(("", "", *names))


@st.composite
def children(draw: st.DrawFn) -> tuple[Child, ...]:
    """Draw up to `CHILDREN_MAX` child providers, some nested, many alike but for their names."""
    kinds = st.sampled_from(draw(_KINDS))
    made: list[Child] = []
    for number in range(draw(_COUNTS)):
        (has, used), traits = draw(kinds)
        above = draw(_above(*(child.name for child in made)))
        made.append(Child(f"child {number}", has, used, traits, above))
    return tuple(made)


_SOME_STOCKS = stocks()
_SOME_CHILDREN = children()


@st.composite
def planted(draw: st.DrawFn, box: Box) -> Box:
    """Draw a box with children; its root may also have some of their classes and traits."""
    has, used = draw(_SOME_STOCKS)
    traits = draw(_TRAITS)
    return replace(
        box,
        inventories={**box.inventories, **has},
        used={**box.used, **used},
        traits=box.traits | traits,
        children=draw(_SOME_CHILDREN),
    )


@st.composite
def with_trees(draw: st.DrawFn, snapshots: st.SearchStrategy[Snapshot]) -> Snapshot:
    """Draw a snapshot in which some hosts have child providers; all providers are shuffled."""
    snapshot = draw(snapshots)
    providers = list(snapshot.providers)
    for root in snapshot.providers:
        providers += children_of(root.uuid, draw(_SOME_CHILDREN))
    return replace(snapshot, providers=tuple(draw(st.permutations(providers))))


@st.composite
def tree_boxes(draw: st.DrawFn) -> list[Box]:
    """Draw a few hosts with provider trees, some of them without children."""
    names = [f"host-{number}" for number in range(draw(st.integers(1, 4)))]
    return [draw(planted(Box(name))) for name in names]


@st.composite
def granular_specs(draw: st.DrawFn) -> dict[str, str]:
    """Draw extra specs with request groups, and with unsuffixed resources and traits."""
    specs: dict[str, str] = {}
    for suffix in draw(st.lists(st.sampled_from(SUFFIXES), unique=True, max_size=4)):
        specs |= draw(_group_specs(suffix))
    for name in draw(st.frozensets(st.sampled_from((GPU_MILLI, NIC)))):
        specs[f"resources:{name}"] = str(draw(st.sampled_from(_AMOUNTS[name])))
    for trait in draw(st.frozensets(st.sampled_from(TREE_TRAITS), max_size=1)):
        specs[f"trait:{trait}"] = draw(st.sampled_from(("required", "forbidden")))
    any_of = draw(st.sampled_from((None, None, None, "|".join(TREE_TRAITS))))
    if any_of is not None:
        specs["berth:any_trait"] = any_of
    specs["group_policy"] = draw(st.sampled_from(("none", "isolate")))
    return specs


@st.composite
def _group_specs(draw: st.DrawFn, suffix: str) -> dict[str, str]:
    names = draw(st.frozensets(st.sampled_from(sorted(_AMOUNTS)), min_size=1, max_size=2))
    # A group that requests traits must also request a positive amount.
    amounts = {name: max(draw(st.sampled_from(_AMOUNTS[name])), 1) for name in sorted(names)}
    specs = {f"resources{suffix}:{name}": str(amount) for name, amount in amounts.items()}
    wanted = draw(st.sampled_from((None, None, None, "required", "forbidden")))
    if wanted is not None:
        specs[f"trait{suffix}:{draw(st.sampled_from(TREE_TRAITS))}"] = wanted
    return specs


def granular_flavors() -> st.SearchStrategy[Flavor]:
    """Draw a flavor with request groups that fit some of the trees."""
    return st.builds(
        Flavor,
        flavor_id=st.just("g"),
        name=st.just("granular"),
        vcpus=st.sampled_from((0, 1, 2)),
        memory_mb=st.sampled_from((0, 512)),
        extra_specs=granular_specs(),
    )
