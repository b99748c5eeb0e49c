"""The pairs of rules of Berth and Nova, and the options that correspond.

A new rule needs one line here. It has the same name on both sides, and each of its options in Berth
is mapped to the option of Nova (`group.name`) whose drawn value it gets.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeGuard

from berth.config.plugins import FILTERS as FILTER_PLUGINS
from berth.config.plugins import WEIGHERS as WEIGHER_PLUGINS
from berth.config.plugins import build_plugin, plugin_names
from berth.scheduling.rules.rule import Filter, Weigher
from tests.differential.hardware import ALIASES

FS: Final = "filter_scheduler"
Settings = Mapping[str, object]
"""Drawn values by Nova's option, in Berth's form."""


def _same(value: object) -> object:
    return value


def _or_none(value: object) -> object:
    return value or None


def _whole(value: object) -> object:
    assert isinstance(value, float)
    return int(value)


def _listed(value: object) -> object:
    assert isinstance(value, tuple)
    return list(value)


def _texts(value: object) -> object:
    assert isinstance(value, tuple)
    return [json.dumps(one) for one in value]


def _pairs(value: object) -> object:
    """Return ratios by name in the form of Nova's option."""
    assert isinstance(value, Mapping)
    return [f"{name}={ratio}" for name, ratio in value.items()]


@dataclass(frozen=True)
class Option:
    """An option of Nova: its possible values in Berth's form, and their conversion to Nova's."""

    values: Sequence[object]
    nova: Callable[[object], object] = _same


@dataclass(frozen=True)
class Pair:
    """A rule of both sides; `options` maps Berth's options to Nova's."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])


MULTIPLIERS: Final = (1.0, 1.0, 2.5, 0.0, -1.0, -0.1, 1_000_000.0)
_HOSTS = ((), ("alpha",), ("alpha", "gamma-1"), ("ALPHA",), ("Ünit", "nowhere"))
_IMAGES = ((), (), ("image-1",), ("image-1", "image-2"), ("unknown",))
_METRIC_RATIOS: Sequence[Mapping[str, float]] = (
    {},
    {"cpu.frequency": 1.0},
    {"cpu.frequency": 0.5, "cpu.idle.time": -2.0},
    {"cpu.user.time": 0.0, "cpu.frequency": -1.0},
    {"nowhere": 1.0},
)
_IMAGE_RATIOS: Sequence[Mapping[str, float]] = (
    {},
    {"hw_architecture": 2.0, "os_distro": -1.0},
    {"os_type": 0.0, "hw_vm_mode": 0.5},
    {"nowhere": 1.0},
)

OPTIONS: Final[Mapping[str, Option]] = {
    "service_down_time": Option((60.0, 60.0, 11.0), _whole),
    "default_availability_zone": Option(("nova", "nova", "az1", "other")),
    f"{FS}.image_properties_default_architecture": Option(("", "", "x86_64", "aarch64"), _or_none),
    f"{FS}.max_io_ops_per_host": Option((8, 2, 1, 0)),
    f"{FS}.max_instances_per_host": Option((50, 3, 2, 1)),
    f"{FS}.isolated_hosts": Option(_HOSTS, _listed),
    f"{FS}.isolated_images": Option(_IMAGES, _listed),
    f"{FS}.restrict_isolated_hosts_to_isolated_images": Option((True, False)),
    f"{FS}.aggregate_image_properties_isolation_namespace": Option(("", "", "hw", "os"), _or_none),
    f"{FS}.aggregate_image_properties_isolation_separator": Option((".", "_")),
    "pci.alias": Option(ALIASES, _texts),
    "compute.packing_host_numa_cells_allocation_strategy": Option((True, False)),
    "metrics.weight_setting": Option(_METRIC_RATIOS, _pairs),
    "metrics.required": Option((True, False, False, False)),
    "metrics.weight_of_unavailable": Option((-10_000.0, 0.0, 5.0)),
    f"{FS}.image_props_weight_setting": Option(_IMAGE_RATIOS, _pairs),
    "metrics.weight_multiplier": Option(MULTIPLIERS),
    **{  # Nova accepts no negative values of these
        f"{FS}.{name}_weight_multiplier": Option(tuple(abs(one) for one in MULTIPLIERS))
        for name in ("pci", "soft_affinity", "soft_anti_affinity")
    },
    **{
        f"{FS}.{name}_weight_multiplier": Option(MULTIPLIERS)
        for name in (
            *("ram", "cpu", "disk", "io_ops", "build_failure", "cross_cell_move"),
            *("hypervisor_version", "num_instances", "image_props"),
        )
    },
}


def _alike(*names: str) -> dict[str, str]:
    """Return a mapping of options that have the same name on both sides."""
    return {name: f"{FS}.{name}" for name in names}


def _weigher(name: str, multiplier: str, **options: str) -> Pair:
    return Pair(name, {"multiplier": multiplier, **options})


HARDWARE: Final = {
    "pci_aliases": "pci.alias",
    "numa_packing": "compute.packing_host_numa_cells_allocation_strategy",
}
FILTERS: Final = (
    Pair("ComputeFilter", {"service_down_time_s": "service_down_time"}),
    Pair("ComputeCapabilitiesFilter"),
    Pair("ImagePropertiesFilter", _alike("image_properties_default_architecture")),
    Pair("ServerGroupAntiAffinityFilter"),
    Pair("ServerGroupAffinityFilter"),
    Pair("DifferentHostFilter"),
    Pair("SameHostFilter"),
    Pair("AllHostsFilter"),
    Pair("IoOpsFilter", _alike("max_io_ops_per_host")),
    Pair("AggregateIoOpsFilter", _alike("max_io_ops_per_host")),
    Pair("NumInstancesFilter", _alike("max_instances_per_host")),
    Pair("AggregateNumInstancesFilter", _alike("max_instances_per_host")),
    Pair("AggregateInstanceExtraSpecsFilter"),
    Pair("AggregateMultiTenancyIsolation"),
    Pair(
        "AggregateImagePropertiesIsolation",
        _alike(
            "aggregate_image_properties_isolation_namespace",
            "aggregate_image_properties_isolation_separator",
        ),
    ),
    Pair("AggregateTypeAffinityFilter"),
    Pair(
        "IsolatedHostsFilter",
        _alike("isolated_hosts", "isolated_images", "restrict_isolated_hosts_to_isolated_images"),
    ),
    Pair("SimpleCIDRAffinityFilter"),
    Pair("JsonFilter"),
    Pair("MetricsFilter", {"weight_setting": "metrics.weight_setting"}),
    Pair("NUMATopologyFilter", HARDWARE),
    Pair("PciPassthroughFilter", HARDWARE),
    # Filters that Nova had in Pike and has removed since.
    Pair("RetryFilter"),
    Pair("AvailabilityZoneFilter", {"default_availability_zone": "default_availability_zone"}),
    Pair("CoreFilter"),
    Pair("RamFilter"),
    Pair("DiskFilter"),
    Pair("AggregateCoreFilter"),
    Pair("AggregateRamFilter"),
    Pair("AggregateDiskFilter"),
    Pair("ExactCoreFilter"),
    Pair("ExactRamFilter"),
    Pair("ExactDiskFilter"),
    Pair("TypeAffinityFilter"),
    Pair("TrustedFilter"),
)
WEIGHERS: Final = (
    _weigher("RAMWeigher", f"{FS}.ram_weight_multiplier"),
    _weigher("CPUWeigher", f"{FS}.cpu_weight_multiplier"),
    _weigher("DiskWeigher", f"{FS}.disk_weight_multiplier"),
    _weigher("IoOpsWeigher", f"{FS}.io_ops_weight_multiplier"),
    _weigher("ServerGroupSoftAffinityWeigher", f"{FS}.soft_affinity_weight_multiplier"),
    _weigher("ServerGroupSoftAntiAffinityWeigher", f"{FS}.soft_anti_affinity_weight_multiplier"),
    _weigher("BuildFailureWeigher", f"{FS}.build_failure_weight_multiplier"),
    _weigher("CrossCellWeigher", f"{FS}.cross_cell_move_weight_multiplier"),
    _weigher("HypervisorVersionWeigher", f"{FS}.hypervisor_version_weight_multiplier"),
    _weigher("NumInstancesWeigher", f"{FS}.num_instances_weight_multiplier"),
    _weigher(
        "ImagePropertiesWeigher",
        f"{FS}.image_props_weight_multiplier",
        image_props_weight_setting=f"{FS}.image_props_weight_setting",
    ),
    _weigher(
        "MetricsWeigher",
        "metrics.weight_multiplier",
        weight_setting="metrics.weight_setting",
        weight_of_unavailable="metrics.weight_of_unavailable",
    ),
    _weigher("PCIWeigher", f"{FS}.pci_weight_multiplier"),
)


def build_filter(pair: Pair, settings: Settings) -> Filter:
    """Return Berth's filter of a pair, built as from a policy file."""
    return build_plugin(
        FILTER_PLUGINS, pair.name, _options(pair, settings), _is_filter, where=pair.name
    )


def build_weigher(pair: Pair, settings: Settings) -> Weigher:
    """Return Berth's weigher of a pair, built as from a policy file."""
    return build_plugin(
        WEIGHER_PLUGINS, pair.name, _options(pair, settings), _is_weigher, where=pair.name
    )


def installed_filters() -> frozenset[str]:
    """Return the names of Berth's filters."""
    return frozenset(plugin_names(FILTER_PLUGINS))


def installed_weighers() -> frozenset[str]:
    """Return the names of Berth's weighers."""
    return frozenset(plugin_names(WEIGHER_PLUGINS))


def nova_settings(settings: Settings) -> dict[str, object]:
    """Return the drawn values in the form of Nova's options."""
    return {name: OPTIONS[name].nova(value) for name, value in settings.items()}


def _options(pair: Pair, settings: Settings) -> dict[str, object]:
    return {mine: settings[theirs] for mine, theirs in pair.options.items() if theirs in settings}


def _is_filter(built: object) -> TypeGuard[Filter]:
    return isinstance(built, Filter)


def _is_weigher(built: object) -> TypeGuard[Weigher]:
    return isinstance(built, Weigher)
