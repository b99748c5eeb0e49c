"""Explanations: the groups without a provider on a host, and single changes that would help."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from berth.domain.compute.needs import Needs
from berth.domain.inventory.resource_group import ResourceGroup
from berth.scheduling.granular.group_fit import fits_groups, provider_views
from berth.scheduling.granular.search import ProviderView
from berth.scheduling.granular.tree_request import GroupKind, TreeRequest, tree_request_of
from berth.tables.columnar.bitsets import Rows
from berth.tables.host.hosts import HostTable

# A message names at most this many suffixes; a flavor may have up to 64.
_NAMED_MAX = 3

# Changes are searched for at most this many kinds of groups, because each kind costs several passes
# over the fleet.
_KINDS_MAX = 8


@dataclass(frozen=True, slots=True)
class GroupChange:
    """One change to a request, with the hosts on which its groups would then fit.

    `by` is the change of an amount or of the number of groups, below 0; None for other changes.
    """

    subject: str
    text: str
    rows: Rows
    by: int | None = None


def why_not(hosts: HostTable, needs: Needs, row: int) -> str:
    """Return why a row cannot serve all groups, as text for an operator."""
    request = tree_request_of(needs)
    views = provider_views(hosts, request, row)
    unmet = [
        f"{named(kind)}: {_lack(request, kind, views)}"
        for kind in request.kinds
        if not _fits(hosts, _only(needs, [kind.group]), row)
    ]
    if unmet:
        return "; ".join(unmet)
    groups = [
        _with_suffix(kind.group, suffix) for kind in request.kinds for suffix in kind.suffixes
    ]
    fits = next(
        n for n in range(len(groups), -1, -1) if _fits(hosts, _only(needs, groups[:n]), row)
    )
    if fits < len(groups):
        own = ", each with a provider of its own" if needs.isolate else ""
        return f"it has room for {fits} of the {len(groups)} groups{own}"
    if groups:
        return "its providers cannot serve the groups in addition to the unsuffixed amounts"
    return "the providers of the unsuffixed amounts do not meet the traits"


def changes(hosts: HostTable, needs: Needs, rows: Rows) -> Iterator[GroupChange]:
    """Yield single changes to a request, with the rows that would then serve all groups.

    The rows of a change may be empty.
    """
    request = tree_request_of(needs)
    for kind in request.kinds[:_KINDS_MAX]:
        yield from _less(hosts, needs, kind, rows)
        yield from _fewer(hosts, needs, kind, rows)
        yield from _without_traits(hosts, needs, kind, rows)
    if needs.isolate and len(needs.groups) > 1:
        won = _won(hosts, replace(needs, isolate=False), rows)
        yield GroupChange("group_policy", "group_policy none", won)
    for name in sorted(needs.traits_required):
        less = replace(needs, traits_required=needs.traits_required - {name})
        yield GroupChange(f"trait {name}", f"without trait {name}", _won(hosts, less, rows))
    for name in sorted(needs.traits_forbidden):
        less = replace(needs, traits_forbidden=needs.traits_forbidden - {name})
        text = f"the ban on trait {name}"
        yield GroupChange(text, f"without {text}", _won(hosts, less, rows))
    for index, names in enumerate(needs.traits_any):
        others = (*needs.traits_any[:index], *needs.traits_any[index + 1 :])
        text = f"one of the traits {', '.join(sorted(names))}"
        less = replace(needs, traits_any=others)
        yield GroupChange(text, f"without {text}", _won(hosts, less, rows))


def named(kind: GroupKind) -> str:
    """Return a description of the groups of a kind."""
    first = ", ".join(kind.suffixes[:_NAMED_MAX])
    if kind.count > _NAMED_MAX:
        return f"groups {first} and {kind.count - _NAMED_MAX} more"
    return f"group {first}" if kind.count == 1 else f"groups {first}"


# ---- one row --------------------------------------------------------------------------------


def _fits(hosts: HostTable, needs: Needs, row: int) -> bool:
    return bool(fits_groups(hosts, needs, np.array([row]))[0])


def _lack(request: TreeRequest, kind: GroupKind, views: Sequence[ProviderView]) -> str:
    """Return, as text, the needs of one group of a kind that no provider meets."""
    group = kind.group
    able = [
        provider
        for provider in views
        if group.traits_required <= provider.traits and not group.traits_forbidden & provider.traits
    ]
    traits = _traits_text(group)
    if not able:
        return f"there is no provider {traits}"
    texts: list[str] = []
    for place, amount in kind.wants:
        name = request.classes[place]
        offers = [offer for provider in able if (offer := provider.offers[place]) is not None]
        most = max((min(offer.free, offer.unit_max) for offer in offers), default=0)
        texts.append(f"{amount:,} {name} requested, {max(most, 0):,} at most on one provider")
    where = f" {traits}" if traits else ""
    return ", ".join(texts) + where


def _traits_text(group: ResourceGroup) -> str:
    texts = [f"with trait {name}" for name in sorted(group.traits_required)]
    texts += [f"without trait {name}" for name in sorted(group.traits_forbidden)]
    return " and ".join(texts)


# ---- changes --------------------------------------------------------------------------------


def _won(hosts: HostTable, needs: Needs, rows: Rows) -> Rows:
    """Return the rows that can certainly serve the changed needs."""
    # The search is left out, because an explanation may miss a host but must not take seconds.
    return rows[fits_groups(hosts, needs, rows, exact=False)]


def _less(hosts: HostTable, needs: Needs, kind: GroupKind, rows: Rows) -> Iterator[GroupChange]:
    """Yield for each class the least reduction, in all groups of a kind, that makes a row fit.

    The reduction is found by bisection. A class that would have to be dropped is left out.
    """
    for name, amount in kind.group.amounts.items():
        fits, won = 0, rows[:0]
        too_much = amount
        while too_much - fits > 1:
            middle = (fits + too_much) // 2
            amounts = {**kind.group.amounts, name: middle}
            found = _won(hosts, _changed(needs, kind, replace(kind.group, amounts=amounts)), rows)
            if found.size:
                fits, won = middle, found
            else:
                too_much = middle
        if fits:
            subject = f"{name} of {named(kind)}"
            less = amount - fits
            yield GroupChange(subject, f"{less:,} less {name} in {named(kind)}", won, by=-less)


def _fewer(hosts: HostTable, needs: Needs, kind: GroupKind, rows: Rows) -> Iterator[GroupChange]:
    """Yield the change that drops the fewest groups of a kind, if dropping them would help."""
    for dropped in range(1, kind.count + 1):
        gone = set(kind.suffixes[-dropped:])
        groups = tuple(group for group in needs.groups if group.suffix not in gone)
        won = _won(hosts, replace(needs, groups=groups), rows)
        if won.size:
            text = f"{dropped} fewer of {named(kind)}"
            if dropped == kind.count:
                text = f"without {named(kind)}"
            yield GroupChange(named(kind), text, won, by=-dropped)
            return


def _without_traits(
    hosts: HostTable, needs: Needs, kind: GroupKind, rows: Rows
) -> Iterator[GroupChange]:
    group = kind.group
    for name in sorted(group.traits_required | group.traits_forbidden):
        less = replace(
            group,
            traits_required=group.traits_required - {name},
            traits_forbidden=group.traits_forbidden - {name},
        )
        what = f"trait {name}" if name in group.traits_required else f"the ban on trait {name}"
        subject = f"{what} in {named(kind)}"
        won = _won(hosts, _changed(needs, kind, less), rows)
        yield GroupChange(subject, f"without {subject}", won)


def _changed(needs: Needs, kind: GroupKind, group: ResourceGroup) -> Needs:
    """Return the needs with every group of a kind replaced by a modified one."""
    mine = set(kind.suffixes)
    groups = tuple(
        _with_suffix(group, one.suffix) if one.suffix in mine else one for one in needs.groups
    )
    return replace(needs, groups=groups)


def _only(needs: Needs, groups: Sequence[ResourceGroup]) -> Needs:
    """Return the needs reduced to these groups."""
    return Needs({}, groups=tuple(groups), isolate=needs.isolate)


def _with_suffix(group: ResourceGroup, suffix: str) -> ResourceGroup:
    return group if group.suffix == suffix else replace(group, suffix=suffix)
