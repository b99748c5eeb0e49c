"""RAMWeigher, CPUWeigher and DiskWeigher: the free amount of one resource class.

The share is the free part of the capacity: 0 for a host that lacks the class or has none left.
"""

from collections.abc import Callable

from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, check_name
from berth.scheduling.rules.measure import Arithmetic, BoundMeasure, Rule, Value, constant, part
from berth.scheduling.rules.rule import Query, Reads, Weigher
from berth.tables.columnar.class_columns import ClassColumns
from berth.tables.host.hosts import HostTable

# A float, because a large disk in MiB would overflow a 64-bit integer.
_MB_PER_GB = 1024.0


def build_ram(*, multiplier: float = 1.0) -> Weigher:
    """Build RAMWeigher: total - reserved - used memory in MiB (nova-behaviour.md 2.7).

    Allocation ratios are not applied, so an overcommitted host has a value of 0 or below.

    Args:
        multiplier: above 0 spreads instances, below 0 packs them.
    """
    return Weigher(
        name="RAMWeigher",
        raw=_rule(MEMORY_MB, lambda memory: BoundMeasure((memory.physical_free,))),
        reads=Reads(request=(), columns=("used",)),
        multiplier=multiplier,
        # The scale begins at 0, not at the least free amount, so scores are proportional to values.
        floor=0.0,
        multiplier_key="ram_weight_multiplier",
        share=_rule(MEMORY_MB, _physical_share),
    )


def build_disk(*, multiplier: float = 1.0) -> Weigher:
    """Build DiskWeigher: total - reserved - used disk in MiB (nova-behaviour.md 2.7).

    Args:
        multiplier: above 0 spreads instances, below 0 packs them.
    """
    return Weigher(
        name="DiskWeigher",
        raw=_rule(DISK_GB, lambda disk: BoundMeasure((disk.physical_free,), _in_mb)),
        reads=Reads(request=(), columns=("used",)),
        multiplier=multiplier,
        # The scale begins at 0, not at the least free amount, so scores are proportional to values.
        floor=0.0,
        multiplier_key="disk_weight_multiplier",
        share=_rule(DISK_GB, _physical_share),
    )


def build_cpu(*, multiplier: float = 1.0, resource_class: str = VCPU) -> Weigher:
    """Build CPUWeigher: total x ratio - reserved - used CPUs (nova-behaviour.md 2.7).

    Args:
        multiplier: above 0 spreads instances, below 0 packs them.
        resource_class: the resource class of processors, for fleets that do not use VCPU (because
            they count in thousandths, for example).

    Raises:
        InvalidInputError: the name of the class is invalid.
    """
    check_name(resource_class, "resource_class")
    return Weigher(
        name="CPUWeigher",
        raw=_rule(resource_class, lambda cpus: BoundMeasure((cpus.ratio_free,))),
        reads=Reads(request=(), columns=("used",)),
        multiplier=multiplier,
        # The scale begins at 0, not at the least free amount, so scores are proportional to values.
        floor=0.0,
        multiplier_key="cpu_weight_multiplier",
        share=_rule(resource_class, _ratio_share),
    )


def _rule(resource_class: str, measure_of: Callable[[ClassColumns], BoundMeasure]) -> Rule:
    """Return a rule over the columns of one class; its value is 0 if no host has the class."""

    def bind(hosts: HostTable, query: Query) -> BoundMeasure:
        columns = hosts.resource(resource_class)
        return constant(0.0) if columns is None else measure_of(columns)

    return Rule(bind)


def _in_mb(ops: Arithmetic, free_gb: Value) -> Value:
    return free_gb * _MB_PER_GB


def _physical_share(columns: ClassColumns) -> BoundMeasure:
    def share(ops: Arithmetic, free: Value, total: Value, reserved: Value) -> Value:
        return part(ops, free, total - reserved)

    return BoundMeasure((columns.physical_free, columns.total, columns.reserved), share)


def _ratio_share(columns: ClassColumns) -> BoundMeasure:
    def share(ops: Arithmetic, free: Value, *terms: Value) -> Value:
        total, ratio, reserved = terms
        return part(ops, free, total * ratio - reserved)

    return BoundMeasure((columns.ratio_free, columns.total, columns.ratio, columns.reserved), share)
