"""Giving: which hosts can give all groups of a request, and what of a chosen one is given."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from berth.domain.compute.needs import Needs
from berth.domain.errors import InvalidInputError
from berth.domain.hardware.assignment import Assignment
from berth.domain.inventory.resources import add_amounts
from berth.scheduling.granular.bounds import bounds_of
from berth.scheduling.granular.packing import packs
from berth.scheduling.granular.provider_arrays import ProviderArrays
from berth.scheduling.granular.search import (
    ROOT,
    ClassCapacity,
    GroupAssignment,
    ProviderView,
    search,
)
from berth.scheduling.granular.tree_request import TreeRequest, Wants, tree_request_of
from berth.scheduling.rules.rule import Query
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.columnar.class_columns import ClassColumns
from berth.tables.host.hosts import HostTable

_CACHE: Final = "granular"
_KEPT_MAX: Final = 4_096


def fits_groups(hosts: HostTable, needs: Needs, rows: Selection, *, exact: bool = True) -> Mask:
    """Tell for each of the rows whether its providers can give all that an instance needs.

    What no provider of a row could give of the unsuffixed group alone is left out of account.

    Args:
        hosts: the table.
        needs: of one instance.
        rows: K rows.
        exact: search where that is not settled; without, such rows count as not able to.

    Returns:
        (K,) bool.
    """
    if not needs.groups and not len(hosts.trees):
        return np.ones(count_of(rows), dtype=np.bool_)
    ask = cached_tree_request(hosts, needs)
    providers = ProviderArrays(hosts, ask, rows)
    bounds = bounds_of(ask, providers)
    kept = bounds.surely
    if not needs.isolate:
        easy = np.flatnonzero(bounds.perhaps & ~kept & ~providers.unsettled)
        if easy.size:
            kept[easy] = packs(ask, ProviderArrays(hosts, ask, _rows_at(rows, easy)))
    between = np.flatnonzero(bounds.perhaps & ~kept & exact)
    known: dict[tuple[ProviderView, ...], bool] = {}
    for index, row in zip(between.tolist(), _rows_at(rows, between).tolist(), strict=True):
        givers = provider_views(hosts, ask, row)
        if givers not in known:
            known[givers] = search(ask, givers) is not None
        kept[index] = known[givers]
    return kept


class _Asks:
    """Asks by the needs that they follow from; whoever plans keeps these from call to call."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Needs, TreeRequest]] = {}


def cached_tree_request(hosts: HostTable, needs: Needs) -> TreeRequest:
    """Return what needs ask for, worked out once for the same object."""
    kept = hosts.caches.get(_CACHE)
    if not isinstance(kept, _Asks):
        kept = hosts.caches[_CACHE] = _Asks()
    known = kept.known.get(id(needs))
    if known is None:
        if len(kept.known) >= _KEPT_MAX:
            kept.known.clear()
        # The needs are kept too, so that nothing else can get their number.
        known = kept.known[id(needs)] = (needs, tree_request_of(needs))
    return known[1]


def _rows_at(rows: Selection, indices: Rows) -> Rows:
    return indices if isinstance(rows, slice) else rows[indices]


def provider_views(hosts: HostTable, ask: TreeRequest, row: int) -> tuple[ProviderView, ...]:
    """Return the providers of a row: its root, then its children by (name, uuid)."""
    trees = hosts.trees
    on_root = [hosts.resource(name) for name in ask.classes]
    below = [trees.resource(name) for name in ask.classes]
    traits = frozenset(name for name in ask.traits if hosts.traits.holds(row, name))
    givers = [ProviderView(_offers(on_root, row), traits)]
    for slot in trees.on_row(row):
        traits = trees.provider(slot).traits & ask.traits if ask.traits else ask.traits
        givers.append(ProviderView(_offers(below, slot), traits))
    return tuple(givers)


def _offers(classes: Sequence[ClassColumns | None], row: int) -> tuple[ClassCapacity | None, ...]:
    return tuple(
        None
        if columns is None or not columns.terms.item(row)
        else ClassCapacity(
            columns.free.item(row),
            columns.unit_max.item(row),
            columns.min_unit.item(row),
            columns.step_size.item(row),
        )
        for columns in classes
    )


def assign(hosts: HostTable, query: Query, row: int) -> Assignment | None:
    """Return what an instance gets of the providers of a row; see `rule.Assign`.

    None when the root gives just what the request asks for.

    Raises:
        InvalidInputError: no provider was found for a group, which only happens under a policy
            without the filter that says so.
    """
    needs = query.needs
    if not needs.groups and not hosts.trees.on_row(row):
        return None
    ask = cached_tree_request(hosts, needs)
    found = search(ask, provider_views(hosts, ask, row))
    if found is None:
        raise InvalidInputError(
            "policy", "hosts have child providers, so it needs the GranularGroupsFilter; add it"
        )
    if not found.groups and not any(found.unsuffixed.values()):
        return None
    return _assignment(hosts, needs, row, found)


def _assignment(hosts: HostTable, needs: Needs, row: int, found: GroupAssignment) -> Assignment:
    uuids = (hosts.uuid(row), *hosts.trees.uuids_on(row))
    taken: dict[int, Mapping[str, int]] = {}
    for name, amount in needs.amounts.items():
        _add(taken, found.unsuffixed.get(name, ROOT), {name: amount})
    for group in needs.groups:
        _add(taken, found.groups[group.suffix], group.amounts)
    root = taken.pop(ROOT, {})
    mappings: dict[str, tuple[str, ...]] = {
        suffix: (uuids[giver],) for suffix, giver in sorted(found.groups.items())
    }
    if any(found.unsuffixed.values()):
        mappings[""] = _of_unsuffixed(uuids, needs, found)
    return Assignment(
        allocations={uuids[giver]: amounts for giver, amounts in sorted(taken.items())},
        mappings=mappings,
        root=None if root == needs.amounts else root,
    )


def _of_unsuffixed(uuids: Sequence[str], needs: Needs, found: GroupAssignment) -> tuple[str, ...]:
    givers = {found.unsuffixed.get(name, ROOT) for name in needs.amounts}
    return tuple(uuids[giver] for giver in sorted(givers))


def _add(taken: dict[int, Mapping[str, int]], giver: int, amounts: Mapping[str, int]) -> None:
    taken[giver] = add_amounts(taken.get(giver, {}), amounts)


COUNT_MAX = 10_000
"""Instances after which the counting on one host ends."""


def counts_of(hosts: HostTable, ask: TreeRequest, rows: Iterable[int]) -> list[int]:
    """Count for each row how many instances fit, each given what fits it best; at most COUNT_MAX.

    Hosts that are alike are counted once. A class that no provider could give to one instance
    is left out of account, as in `search`.
    """
    known: dict[tuple[ProviderView, ...], int] = {}
    counts: list[int] = []
    for row in rows:
        givers = provider_views(hosts, ask, row)
        if givers not in known:
            known[givers] = _count(ask, givers)
        counts.append(known[givers])
    return counts


def _count(ask: TreeRequest, givers: Sequence[ProviderView]) -> int:
    left = list(givers)
    for count in range(COUNT_MAX):
        found = search(ask, left)
        if found is None or (count and len(found.unsuffixed) < len(ask.unsuffixed)):
            return count
        _take(ask, left, found)
    return COUNT_MAX


def _take(ask: TreeRequest, left: list[ProviderView], found: GroupAssignment) -> None:
    for place, amount in ask.unsuffixed:
        giver = found.unsuffixed.get(ask.classes[place], ROOT)
        left[giver] = _less(left[giver], ((place, amount),))
    for kind in ask.kinds:
        for suffix in kind.suffixes:
            giver = found.groups[suffix]
            left[giver] = _less(left[giver], kind.wants)


def _less(giver: ProviderView, wants: Wants) -> ProviderView:
    offers = list(giver.offers)
    for place, amount in wants:
        offer = offers[place]
        if offer is not None:
            offers[place] = offer._replace(free=offer.free - amount)
    return giver._replace(offers=tuple(offers))
