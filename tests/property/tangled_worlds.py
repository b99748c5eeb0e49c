"""Random deep forests with many sharing providers, and queries with groups that interfere."""

from collections.abc import Sequence
from math import log
from random import Random
from uuid import UUID

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.scheduling.candidates.query import CandidateGroup, CandidateQuery
from berth.tables.provider.sharing import SHARES
from tests.property.candidate_worlds import AGGREGATES, CLASSES, TRAITS

STOCKS = (
    Inventory(total=1),
    Inventory(total=2),
    Inventory(total=3),
    Inventory(total=3, reserved=3),
    Inventory(total=7, reserved=6),
    Inventory(total=3, allocation_ratio=0.34),
    Inventory(total=2**31 - 1, allocation_ratio=2.5),
    Inventory(total=4, min_unit=2, step_size=2),
    Inventory(total=4, min_unit=3, max_unit=2),
    Inventory(total=6, max_unit=2),
)
ARRANGEMENTS_MAX = 10_000
"""A query with more arrangements than this is not compared with the reference."""


def tangled_forest(random: Random, providers_max: int = 9) -> list[Provider]:
    """Return trees of chains and branches, in many aggregates; parents come first."""
    deep, chained = random.choice((0.5, 0.9)), random.random()
    sharing, grouped = random.choice((0.0, 0.2, 0.6)), random.choice((0.1, 0.4, 0.7))
    traits, rich = random.choice((0.3, 0.6)), random.choice((0.3, 0.6, 0.9))
    forest: list[Provider] = []
    for number in range(random.randint(3, providers_max)):
        above = forest[-1:] if random.random() < chained else forest
        inventories = {name: random.choice(STOCKS) for name in CLASSES if random.random() < rich}
        has = {name for name in TRAITS if random.random() < traits}
        if random.random() < sharing:
            has.add(SHARES)
        forest.append(
            Provider(
                uuid=str(UUID(int=1000 + number)),
                name=f"provider-{number}",
                parent_uuid=random.choice(above).uuid if above and random.random() < deep else None,
                inventories=inventories,
                used={name: random.randint(0, 2) for name in inventories if random.random() < 0.2},
                traits=frozenset(has),
                aggregates=tuple(uuid for uuid in AGGREGATES if random.random() < grouped),
            )
        )
    return forest


def tangled_query(random: Random, forest: Sequence[Provider]) -> CandidateQuery:
    """Return a query with two to five suffixed groups, some without resources, and subtrees."""
    groups = [_single(random, forest, f"_{n}") for n in range(random.choice((2, 3, 3, 4, 5)))]
    suffixes = [group.suffix for group in groups]
    if random.random() < 0.5 or not any(group.amounts for group in groups):
        names = random.sample(CLASSES, random.choice((1, 2, 3)))
        groups.append(
            CandidateGroup(
                amounts={name: random.choice((1, 1, 2)) for name in names},
                required=tuple(_some(random, TRAITS, 1) for _ in range(random.choice((0, 1, 2)))),
                outside_of=_some(random, AGGREGATES, random.choice((0, 0, 0, 1))),
            )
        )
    random.shuffle(groups)
    sizes = [random.randint(1, len(suffixes)) for _ in range(random.choice((0, 1, 2, 3)))]
    return CandidateQuery(
        tuple(groups),
        isolates=random.random() < 0.6,
        root_forbidden=_some(random, TRAITS, random.choice((0, 0, 0, 0, 1))),
        same_subtree=tuple(_some(random, suffixes, size) for size in sizes),
        is_nested_aware=random.random() < 0.8,
    )


def can_all_be_tried(forest: Sequence[Provider], query: CandidateQuery) -> bool:
    """Tell whether the reference can try every arrangement in reasonable time."""
    slots = sum(1 if group.suffix else len(group.amounts) for group in query.groups)
    return slots * log(len(forest)) <= log(ARRANGEMENTS_MAX)


def _single(random: Random, forest: Sequence[Provider], suffix: str) -> CandidateGroup:
    names = random.sample(CLASSES, random.choice((0, 1, 1, 2)))
    traits = random.choice((0, 1, 1, 2)) if names else random.choice((0, 1, 1))
    members = random.choice((0, 0, 0, 1, 2))
    return CandidateGroup(
        suffix,
        {name: random.choice((1, 1, 1, 2)) for name in names},
        required=tuple(_some(random, TRAITS, random.choice((1, 1, 2))) for _ in range(traits)),
        forbidden=_some(random, TRAITS, int(random.random() < 0.05)),
        member_of=tuple(_some(random, AGGREGATES, 2) for _ in range(members)),
        outside_of=_some(random, AGGREGATES, int(random.random() < 0.05)),
        in_tree=random.choice(forest).uuid if random.random() < 0.05 else None,
    )


def _some(random: Random, names: Sequence[str], count: int) -> frozenset[str]:
    return frozenset(random.sample(names, count))
