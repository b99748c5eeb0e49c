"""Counting: how many equal instances the providers of one host could give to, one after another."""

from collections.abc import Iterable, Sequence

from berth.scheduling.granular.ask import TreeRequest, Wants
from berth.scheduling.granular.giving import provider_views
from berth.scheduling.granular.search import ROOT, GroupAssignment, ProviderView, search
from berth.tables.host.hosts import HostTable

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
