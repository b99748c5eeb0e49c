"""PCIWeigher: the fewer PCI devices of a host are free, the better.

Its share is its value / 100: 1 for a host without free devices, 1/100 with 99 of them or more.
"""

import numpy as np

from berth.scheduling.rules.rule import Query, ReadOne, Reads, Scores, Weigher, always
from berth.tables.columnar.bitsets import Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "PCIWeigher"
_DEVICES_MAX = 100


def build(*, multiplier: float = 1.0) -> Weigher:
    """Make the weigher (nova-behaviour.md 2.7): 100 - min(free devices, 99).

    It keeps hosts with devices for those who need them, and fills up one such host before it
    touches the next. So it counts for requests with and without devices.

    Args:
        multiplier: how much devices are spared beside free resources.

    Raises:
        ValueError: `multiplier` is below 0: hosts with devices would fill up first.
    """
    if multiplier < 0:
        raise ValueError(f"multiplier: {multiplier} must be 0 or above")
    return Weigher(
        name=NAME,
        raw=_raw,
        reads=Reads(request=(), columns=("host", "used", "instances")),
        multiplier=multiplier,
        multiplier_key="pci_weight_multiplier",
        share=_share,
        raw_of_one=_raw_of_one,
        share_of_one=_share_of_one,
    )


def _raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    if not hosts.pci.kinds:
        return np.full(count_of(rows), float(_DEVICES_MAX))
    free = np.minimum(np.maximum(hosts.pci.free(rows), 0), _DEVICES_MAX - 1)
    return (_DEVICES_MAX - free).astype(np.float64)


def _share(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
    values = _raw(hosts, query, rows)
    return None if values is None else values / _DEVICES_MAX


def _raw_of_one(hosts: HostTable, query: Query) -> ReadOne:
    if not hosts.pci.kinds:
        return always(float(_DEVICES_MAX))

    def read(row: int) -> float:
        free = int(hosts.pci.free(np.array((row,), dtype=np.intp)).item(0))
        return float(_DEVICES_MAX - min(max(free, 0), _DEVICES_MAX - 1))

    return read


def _share_of_one(hosts: HostTable, query: Query) -> ReadOne:
    read = _raw_of_one(hosts, query)
    return lambda row: read(row) / _DEVICES_MAX
