"""Helpers that build small forests of providers and candidate queries."""

from collections.abc import Mapping, Sequence
from uuid import NAMESPACE_DNS, uuid5

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.scheduling.candidates.candidate_search import find_candidates
from berth.scheduling.candidates.query import CandidateGroup, CandidateQuery
from berth.tables.provider.providers import ProviderTable

Mapped = tuple[tuple[str, ...], ...]


def uuid_of(name: str) -> str:
    """Return the uuid of the provider or aggregate with this name."""
    return str(uuid5(NAMESPACE_DNS, name))


def provider(
    name: str,
    stock: Mapping[str, int | Inventory] | None = None,
    *,
    below: str | None = None,
    used: Mapping[str, int] | None = None,
    traits: str = "",
    aggregates: str = "",
) -> Provider:
    """Return a provider; `traits` and `aggregates` are names separated by spaces."""
    return Provider(
        uuid=uuid_of(name),
        name=name,
        parent_uuid=None if below is None else uuid_of(below),
        inventories={
            key: value if isinstance(value, Inventory) else Inventory(total=value)
            for key, value in (stock or {}).items()
        },
        used=used or {},
        traits=frozenset(traits.split()),
        aggregates=tuple(uuid_of(one) for one in aggregates.split()),
    )


def forest(*providers: Provider) -> ProviderTable:
    """Return a table of providers, put in the given order."""
    table = ProviderTable()
    for one in providers:
        table.put(one)
    return table


def group(  # noqa: PLR0913 - all that a group has, each by its name
    suffix: str = "",
    amounts: Mapping[str, int] | None = None,
    *,
    required: Sequence[str] = (),
    forbidden: str = "",
    member_of: Sequence[str] = (),
    outside_of: str = "",
    in_tree: str | None = None,
) -> CandidateGroup:
    """Return a group; each string of `required` and `member_of` is a set of alternatives."""
    return CandidateGroup(
        suffix,
        amounts or {},
        required=tuple(frozenset(names.split()) for names in required),
        forbidden=frozenset(forbidden.split()),
        member_of=tuple(frozenset(map(uuid_of, names.split())) for names in member_of),
        outside_of=frozenset(map(uuid_of, outside_of.split())),
        in_tree=None if in_tree is None else uuid_of(in_tree),
    )


def asking(
    *groups: CandidateGroup,
    isolates: bool = False,
    limit: int | None = None,
    root: str = "",
    same_subtree: Sequence[str] = (),
    is_nested_aware: bool = True,
) -> CandidateQuery:
    """Return a query; names in `root` with an exclamation mark are forbidden traits."""
    names = root.split()
    return CandidateQuery(
        groups,
        isolates=isolates,
        root_required=frozenset(name for name in names if not name.startswith("!")),
        root_forbidden=frozenset(name[1:] for name in names if name.startswith("!")),
        same_subtree=tuple(frozenset(one.split()) for one in same_subtree),
        limit=limit,
        is_nested_aware=is_nested_aware,
    )


def found(table: ProviderTable, query: CandidateQuery, start: int = 0) -> list[Mapped]:
    """Return the sorted candidates, each as the provider names that serve each group."""
    answer = find_candidates(table, query, start)
    names = [(table.base_record(row).name,) for row in answer.alone.tolist()]
    alone: list[Mapped] = [(name,) * len(query.groups) for name in names]
    return sorted(
        alone
        + [
            tuple(
                tuple(sorted(table.base_record(row).name for row in rows)) for rows in one.mappings
            )
            for one in answer.composed
        ]
    )
