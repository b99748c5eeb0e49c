"""HostLotWeigher: a number from 0 to 1 that each host has drawn, and keeps.

Hosts with equal scores are told apart by their names, and names often say what kind of host it
is: then all hosts of one kind are filled before the next kind. With a small multiplier the lots
decide instead. Their order is as fixed as that of the names, so that instances still gather on
few hosts, but it mixes the kinds, and some of each stay free.
"""

from berth.scheduling.rules.rule import Query, Reads, Scores, Weigher
from berth.tables.columnar.bitsets import Selection
from berth.tables.host.hosts import HostTable

NAME = "HostLotWeigher"


def build(*, multiplier: float = 0.001) -> Weigher:
    """Make the weigher; it is Berth's own.

    Args:
        multiplier: small, so that lots only decide between hosts which are otherwise equal.
    """
    return Weigher(
        name=NAME,
        raw=_lot,
        reads=Reads(request=(), columns=("host",)),
        multiplier=multiplier,
        floor=0.0,
        ceiling=1.0,
        share=_lot,
    )


def _lot(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    lots: Scores = hosts.name_hash[rows]
    return lots
