"""The fit of groups: the hosts that can serve all of them, and from which providers."""

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
from berth.scheduling.rules.rule import UNLIMITED, Query
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.columnar.class_columns import ClassColumns, Ints
from berth.tables.host.hosts import HostTable

_CACHE: Final = "granular"
# The cache is cleared when it has this many requests, each of which is then prepared again when it
# is next used.
_KEPT_MAX: Final = 4_096


def fits_groups(hosts: HostTable, needs: Needs, rows: Selection, *, exact: bool = True) -> Mask:
    """Return, for each row, whether its providers can serve all that an instance needs.

    A class of the unsuffixed group that no provider of a row could supply on its own is ignored,
    because ResourcesFilter removes such rows.

    Args:
        hosts: the table.
        needs: the needs of one instance.
        rows: K rows.
        exact: whether to search the rows that bounds and packing leave undecided; if not, the
            result is False for them.

    Returns:
        (K,) bool.
    """
    if not needs.groups and not len(hosts.trees):
        return np.ones(count_of(rows), dtype=np.bool_)
    request = cached_tree_request(hosts, needs)
    providers = ProviderArrays(hosts, request, rows)
    bounds = bounds_of(request, providers)
    kept = bounds.certain
    if not needs.isolate:
        # There are three stages of increasing cost: bounds on all rows, greedy packing on the rows
        # that they leave open, and the search on the rest.
        easy = np.flatnonzero(bounds.possible & ~kept & ~providers.unsettled)
        if easy.size:
            kept[easy] = packs(request, ProviderArrays(hosts, request, _rows_at(rows, easy)))
    between = np.flatnonzero(bounds.possible & ~kept & exact)
    known: dict[tuple[ProviderView, ...], bool] = {}
    for index, row in zip(between.tolist(), _rows_at(rows, between).tolist(), strict=True):
        views = provider_views(hosts, request, row)
        # Hosts with equal providers share one search.
        if views not in known:
            known[views] = search(request, views) is not None
        kept[index] = known[views]
    return kept


class _TreeRequests:
    """Prepared requests by the identity of their needs, kept in the caches of the table."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Needs, TreeRequest]] = {}


def cached_tree_request(hosts: HostTable, needs: Needs) -> TreeRequest:
    """Return the prepared request of the needs, computed once per object."""
    kept = hosts.caches.get(_CACHE)
    if not isinstance(kept, _TreeRequests):
        kept = hosts.caches[_CACHE] = _TreeRequests()
    known = kept.known.get(id(needs))
    if known is None:
        if len(kept.known) >= _KEPT_MAX:
            kept.known.clear()
        # The needs are kept as well, so that no other object can have the same id.
        known = kept.known[id(needs)] = (needs, tree_request_of(needs))
    return known[1]


def _rows_at(rows: Selection, indices: Rows) -> Rows:
    return indices if isinstance(rows, slice) else rows[indices]


def provider_views(hosts: HostTable, request: TreeRequest, row: int) -> tuple[ProviderView, ...]:
    """Return the providers of a row for the search: the root, then the children by (name, UUID)."""
    trees = hosts.trees
    on_root = [hosts.resource(name) for name in request.classes]
    below = [trees.resource(name) for name in request.classes]
    traits = frozenset(name for name in request.traits if hosts.traits.holds(row, name))
    views = [ProviderView(_offers(on_root, row), traits)]
    for slot in trees.on_row(row):
        traits = trees.provider(slot).traits & request.traits if request.traits else request.traits
        views.append(ProviderView(_offers(below, slot), traits))
    return tuple(views)


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
    """Return the assignment of an instance on the providers of a row; see `rule.Assign`.

    The result is None if there are no groups and the root supplies all unsuffixed amounts.

    Raises:
        InvalidInputError: the providers cannot serve the request, which can only happen if the
            policy lacks GranularGroupsFilter.
    """
    needs = query.needs
    if not needs.groups and not hosts.trees.on_row(row):
        return None
    request = cached_tree_request(hosts, needs)
    found = search(request, provider_views(hosts, request, row))
    if found is None:
        raise InvalidInputError(
            "policy",
            "the providers of the chosen host cannot serve the request; add GranularGroupsFilter,"
            " which removes such hosts, to the policy",
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
        suffix: (uuids[provider],) for suffix, provider in sorted(found.groups.items())
    }
    if any(found.unsuffixed.values()):
        mappings[""] = _of_unsuffixed(uuids, needs, found)
    return Assignment(
        allocations={uuids[provider]: amounts for provider, amounts in sorted(taken.items())},
        mappings=mappings,
        root=None if root == needs.amounts else root,
    )


def _of_unsuffixed(uuids: Sequence[str], needs: Needs, found: GroupAssignment) -> tuple[str, ...]:
    views = {found.unsuffixed.get(name, ROOT) for name in needs.amounts}
    return tuple(uuids[provider] for provider in sorted(views))


def _add(taken: dict[int, Mapping[str, int]], provider: int, amounts: Mapping[str, int]) -> None:
    taken[provider] = add_amounts(taken.get(provider, {}), amounts)


COUNT_MAX = 10_000
"""The number of instances at which counting on one host stops."""


def takes_from_root(hosts: HostTable, needs: Needs, rows: Rows) -> Mask:
    """Return, for each of K rows, whether an instance takes all its amounts from the root."""
    if needs.groups:
        return np.zeros(rows.size, dtype=np.bool_)
    if not len(hosts.trees):
        return np.ones(rows.size, dtype=np.bool_)
    found = np.ones(len(hosts), dtype=np.bool_)
    found[hosts.trees.branches(hosts.all_rows).owners] = False
    return found[rows]


def repeats(hosts: HostTable, query: Query, rows: Rows) -> Ints:
    """Return the number of instances that fit on each row; see `rule.Repeats`.

    Unlike other rules' counts, this one may be 0, because rows may not have passed any filter. On a
    row without children the scarcest class limits the number. On a tree, instances compete for
    providers, so they are placed in turn, at most `COUNT_MAX` of them.
    """
    needs = query.needs
    counts = np.full(rows.size, UNLIMITED, dtype=np.int64)
    if not needs.amounts and not needs.groups:
        return counts
    for name, amount in needs.amounts.items():
        columns = hosts.resource(name)
        if columns is None:
            counts[:] = 0
        else:
            free = np.maximum(columns.free[rows], 0)
            fits = np.where(columns.fits(amount, rows), free // amount, 0)
            np.minimum(counts, fits, out=counts)
    on_trees = np.flatnonzero(~takes_from_root(hosts, needs, rows))
    if on_trees.size:
        request = cached_tree_request(hosts, needs)
        counts[on_trees] = counts_of(hosts, request, rows[on_trees].tolist())
    return counts


def counts_of(hosts: HostTable, request: TreeRequest, rows: Iterable[int]) -> list[int]:
    """Return the number of instances that fit on each row when placed in turn, up to COUNT_MAX.

    Each instance takes its best fit. A class that no provider could supply to a single instance is
    ignored, as in `search`.
    """
    known: dict[tuple[ProviderView, ...], int] = {}
    counts: list[int] = []
    for row in rows:
        views = provider_views(hosts, request, row)
        # Hosts with equal providers share one count.
        if views not in known:
            known[views] = _count(request, views)
        counts.append(known[views])
    return counts


def _count(request: TreeRequest, views: Sequence[ProviderView]) -> int:
    left = list(views)
    for count in range(COUNT_MAX):
        found = search(request, left)
        if found is None or (count and len(found.unsuffixed) < len(request.unsuffixed)):
            return count
        _take(request, left, found)
    return COUNT_MAX


def _take(request: TreeRequest, left: list[ProviderView], found: GroupAssignment) -> None:
    for place, amount in request.unsuffixed:
        provider = found.unsuffixed.get(request.classes[place], ROOT)
        left[provider] = _less(left[provider], ((place, amount),))
    for kind in request.kinds:
        for suffix in kind.suffixes:
            provider = found.groups[suffix]
            left[provider] = _less(left[provider], kind.wants)


def _less(provider: ProviderView, wants: Wants) -> ProviderView:
    offers = list(provider.offers)
    for place, amount in wants:
        offer = offers[place]
        if offer is not None:
            offers[place] = offer._replace(free=offer.free - amount)
    return provider._replace(offers=tuple(offers))
