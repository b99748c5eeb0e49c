"""PCIWeigher: the fewer free PCI devices a host has, the better.

The value is 100 - min(free devices, 99). The share is the value / 100: 1 for a host without free
devices, 1/100 for a host with 99 or more.
"""

from berth.scheduling.rules.measure import Arithmetic, BoundMeasure, Computed, Rule, Value, constant
from berth.scheduling.rules.rule import Query, Reads, Weigher
from berth.tables.host.hosts import HostTable

NAME = "PCIWeigher"
_DEVICES_MAX = 100.0


def build(*, multiplier: float = 1.0) -> Weigher:
    """Build the weigher (nova-behaviour.md 2.7).

    Requests without devices avoid hosts with free ones, and requests with devices fill one such
    host before the next, so the weigher applies to both.

    Args:
        multiplier: the weight of keeping devices free, relative to the other weighers.

    Raises:
        ValueError: `multiplier` is below 0, which would fill hosts with devices first.
    """
    if multiplier < 0:
        raise ValueError(f"multiplier: {multiplier} must be 0 or above")
    return Weigher(
        name=NAME,
        raw=Rule(_spared),
        reads=Reads(request=(), columns=("host", "used", "instances")),
        multiplier=multiplier,
        multiplier_key="pci_weight_multiplier",
        share=Rule(_spared).then(lambda _, value: value / _DEVICES_MAX),
    )


def _spared(hosts: HostTable, query: Query) -> BoundMeasure:
    if not hosts.pci.kinds:
        return constant(_DEVICES_MAX)
    return BoundMeasure((Computed(hosts.pci.free),), _value)


def _value(ops: Arithmetic, free: Value) -> Value:
    return _DEVICES_MAX - ops.least(ops.greatest(free, 0), _DEVICES_MAX - 1)
