"""HostLotWeigher: the host's lot, a fixed number in [0, 1) that is a hash of its name and node.

Equal scores are ordered by host name, and names often reveal the kind of a host: without lots, all
hosts of one kind are filled before the next kind. With a small multiplier, the lots decide instead.
Their order is also fixed, so instances still gather on few hosts, but it mixes the kinds, so some
hosts of each kind stay free.
"""

from berth.scheduling.rules.measure import BoundMeasure, Rule
from berth.scheduling.rules.rule import Query, Reads, Weigher
from berth.tables.host.hosts import HostTable

NAME = "HostLotWeigher"


def build(*, multiplier: float = 0.001) -> Weigher:
    """Build the weigher, which Nova does not have.

    Args:
        multiplier: must be small, so that lots decide only between otherwise equal hosts.
    """
    lot = Rule(_lot)
    return Weigher(
        name=NAME,
        raw=lot,
        reads=Reads(request=(), columns=("host",)),
        multiplier=multiplier,
        floor=0.0,
        ceiling=1.0,
        share=lot,
    )


def _lot(hosts: HostTable, query: Query) -> BoundMeasure:
    return BoundMeasure((hosts.name_hash,))
