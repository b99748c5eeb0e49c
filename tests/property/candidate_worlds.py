"""Random forests of providers, and random candidate queries about them."""

from collections.abc import Sequence
from random import Random
from uuid import UUID

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.scheduling.candidates.query import CandidateGroup, CandidateQuery
from berth.tables.provider.providers import ProviderTable
from berth.tables.provider.sharing import SHARES

CLASSES: tuple[str, ...] = (VCPU, MEMORY_MB, DISK_GB, "CUSTOM_DEVICE")
TRAITS = ("CUSTOM_A", "CUSTOM_B", "CUSTOM_C")
AGGREGATES = tuple(str(UUID(int=number)) for number in range(1, 5))
SUFFIXES = ("_1", "_2", "_3")
NAMED_ONLY = "_NAMED"


def random_forest(random: Random, providers_max: int = 12) -> list[Provider]:
    """Return the providers of some random trees, some of them sharing; parents come first."""
    depth, sharing, grouped = (
        random.choice((0.0, 0.4, 0.8)),
        random.choice((0.0, 0.1, 0.3)),
        random.choice((0.0, 0.2, 0.4)),
    )
    forest: list[Provider] = []
    for number in range(random.randint(1, providers_max)):
        parent = random.choice(forest).uuid if forest and random.random() < depth else None
        inventories = {name: _inventory(random) for name in CLASSES if random.random() < 0.45}
        traits = {name for name in TRAITS if random.random() < 0.35}
        if random.random() < sharing:
            traits.add(SHARES)
        forest.append(
            Provider(
                uuid=str(UUID(int=1000 + number)),
                name=f"provider-{number}",
                parent_uuid=parent,
                inventories=inventories,
                used={name: random.randint(0, 3) for name in inventories if random.random() < 0.3},
                traits=frozenset(traits),
                aggregates=tuple(uuid for uuid in AGGREGATES if random.random() < grouped),
            )
        )
    return forest


def random_query(random: Random, forest: Sequence[Provider]) -> CandidateQuery:
    """Return a random candidate query that may use any of the parameters."""
    suffixes = SUFFIXES[: random.choice((0, 0, 1, 2, 2, 3))]
    groups = [_group(random, forest, suffix, random.choice((1, 1, 2))) for suffix in suffixes]
    if not suffixes or random.random() < 0.5:
        groups.append(_group(random, forest, "", random.choice((1, 1, 2, 3))))
    subtrees: list[frozenset[str]] = []
    if suffixes and random.random() < 0.4:
        if len(suffixes) < len(SUFFIXES):
            groups.append(_group(random, forest, NAMED_ONLY, 0))
            subtrees.append(frozenset({NAMED_ONLY, random.choice(suffixes)}))
        if random.random() < 0.5:
            subtrees.append(frozenset(random.sample(suffixes, random.randint(1, len(suffixes)))))
    random.shuffle(groups)
    required = frozenset(name for name in TRAITS if random.random() < 0.05)
    forbidden = frozenset(name for name in (*TRAITS, SHARES) if random.random() < 0.03)
    return CandidateQuery(
        tuple(groups),
        isolates=random.random() < 0.4,
        root_required=required,
        root_forbidden=forbidden - required,
        same_subtree=tuple(subtrees),
        is_nested_aware=random.random() < 0.8,
    )


def crowded_tree(random: Random) -> list[Provider]:
    """Return one tree in which several devices are alike, for groups that compete for them."""
    root, *numa = (
        Provider(str(UUID(int=n)), f"cell-{n}", None if n == 1 else str(UUID(int=1)))
        for n in range(1, random.randint(3, 4))
    )
    devices = [
        Provider(
            uuid=str(UUID(int=100 + number)),
            name=f"device-{number}",
            parent_uuid=random.choice((root, *numa)).uuid,
            inventories={
                name: Inventory(total=random.choice((1, 2, 2, 3))) for name in CLASSES[:2]
            },
            traits=frozenset(name for name in TRAITS[:1] if random.random() < 0.4),
        )
        for number in range(random.randint(2, 5))
    ]
    return [root, *numa, *devices]


def crowding_query(random: Random) -> CandidateQuery:
    """Return a query in which three to five groups compete for the devices of a tree."""
    suffixes = [f"_{number}" for number in range(random.randint(3, 4))]
    groups = [
        CandidateGroup(
            suffix,
            {name: random.choice((1, 1, 2)) for name in random.sample(CLASSES[:2], 1)},
            required=(frozenset(TRAITS[:1]),) if random.random() < 0.2 else (),
        )
        for suffix in suffixes
    ]
    if random.random() < 0.5:
        amounts = dict.fromkeys(CLASSES[:2], random.choice((1, 2)))
        traits = (frozenset(TRAITS[:1]),) if random.random() < 0.5 else ()
        groups.append(CandidateGroup("", amounts, required=traits))
    random.shuffle(groups)
    subtree = frozenset(random.sample(suffixes, 2))
    return CandidateQuery(
        tuple(groups),
        isolates=random.random() < 0.5,
        same_subtree=(subtree,) if random.random() < 0.4 else (),
    )


def table_of(random: Random, providers: Sequence[Provider]) -> ProviderTable:
    """Return a table of these providers, which are added in random order."""
    table = ProviderTable()
    for provider in random.sample(list(providers), len(providers)):
        table.put(provider)
    return table


def _inventory(random: Random) -> Inventory:
    total = random.randint(1, 6)
    return Inventory(
        total=total,
        reserved=random.choice((0, 0, 0, 1)),
        min_unit=random.choice((1, 1, 1, 2)),
        max_unit=random.choice((0, 0, 99, total, 2)),
        step_size=random.choice((1, 1, 1, 2)),
        allocation_ratio=random.choice((1.0, 1.0, 0.7, 1.5, 2.0)),
    )


def _group(random: Random, forest: Sequence[Provider], suffix: str, classes: int) -> CandidateGroup:
    amounts = {name: random.choice((1, 1, 1, 2, 3)) for name in random.sample(CLASSES, classes)}
    required = tuple(
        frozenset(random.sample(TRAITS, random.choice((1, 1, 2))))
        for _ in range(random.choice((0, 0, 0, 1, 2)) if amounts else random.choice((0, 1, 1)))
    )
    member_of = tuple(
        frozenset(random.sample(AGGREGATES, random.choice((1, 2, 3))))
        for _ in range(random.choice((0, 0, 0, 0, 0, 1, 2)))
    )
    unknown = str(UUID(int=9999))
    return CandidateGroup(
        suffix,
        amounts,
        required=required,
        forbidden=frozenset(random.sample((*TRAITS, SHARES), random.choice((0, 0, 0, 0, 0, 1)))),
        member_of=member_of,
        outside_of=frozenset(random.sample((*AGGREGATES, unknown), random.choice((0, 0, 0, 0, 1)))),
        in_tree=random.choice([unknown, *(one.uuid for one in forest)])
        if random.random() < 0.1
        else None,
    )
