"""Counting: how many equal instances the providers of one host could give to, one after another."""

from collections.abc import Iterable, Sequence

from berth.scheduling.granular.ask import Ask, Wants
from berth.scheduling.granular.giving import givers_of
from berth.scheduling.granular.search import ROOT, Found, Giver, search
from berth.tables.host.hosts import HostTable

COUNT_MAX = 10_000
"""Instances after which the counting on one host ends."""


def counts_of(hosts: HostTable, ask: Ask, rows: Iterable[int]) -> list[int]:
    """Count for each row how many instances fit, each given what fits it best; at most COUNT_MAX.

    Hosts that are alike are counted once. A class that no provider could give to one instance
    is left out of account, as in `search`.
    """
    known: dict[tuple[Giver, ...], int] = {}
    counts: list[int] = []
    for row in rows:
        givers = givers_of(hosts, ask, row)
        if givers not in known:
            known[givers] = _count(ask, givers)
        counts.append(known[givers])
    return counts


def _count(ask: Ask, givers: Sequence[Giver]) -> int:
    left = list(givers)
    for count in range(COUNT_MAX):
        found = search(ask, left)
        if found is None or (count and len(found.unsuffixed) < len(ask.unsuffixed)):
            return count
        _take(ask, left, found)
    return COUNT_MAX


def _take(ask: Ask, left: list[Giver], found: Found) -> None:
    for place, amount in ask.unsuffixed:
        giver = found.unsuffixed.get(ask.classes[place], ROOT)
        left[giver] = _less(left[giver], ((place, amount),))
    for kind in ask.kinds:
        for suffix in kind.suffixes:
            giver = found.groups[suffix]
            left[giver] = _less(left[giver], kind.wants)


def _less(giver: Giver, wants: Wants) -> Giver:
    offers = list(giver.offers)
    for place, amount in wants:
        offer = offers[place]
        if offer is not None:
            offers[place] = offer._replace(free=offer.free - amount)
    return giver._replace(offers=tuple(offers))
