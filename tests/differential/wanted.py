"""The deliberate differences from Nova, each with a condition that is as narrow as possible.

`docs/reference/differences-from-nova.md` gives the reason for each under the same name. Any other
difference fails the comparison, which has no tolerance.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tests.differential import excuses, hint_excuses
from tests.differential.cases import Case
from tests.differential.differing import Differing, hint_of, properties_of
from tests.differential.rules import WEIGHERS

SPEC_FILTERS: Final = ("ComputeCapabilitiesFilter", "AggregateInstanceExtraSpecsFilter")
_WEIGHERS = tuple(pair.name for pair in WEIGHERS)
_HARDWARE_SPECS = ("hw:", "pci_passthrough:", "resources:", "trait:")
_HARDWARE_PROPERTIES = ("hw_numa", "hw_cpu", "hw_mem_page", "hw_pci", "hw_locked", "trait:")
_ADDRESS_BITS = "hw:maxphysaddr_bits"


@dataclass(frozen=True)
class Wanted:
    """One wanted difference.

    Args:
        name: its name in the docs.
        rules: the names of the rules that it is about.
        what: the subject, as in `comparing.Difference`.
        is_it: tells whether a difference of such a rule is this one.
    """

    name: str
    rules: Collection[str]
    what: str
    is_it: Callable[[Case, Differing], bool]

    def holds(self, case: Case, one: Differing) -> bool:
        """Tell whether a difference is this one."""
        return one.rule in self.rules and one.what == self.what and self.is_it(case, one)


WANTED: Final = (
    Wanted("numbers that cannot be read", SPEC_FILTERS, "verdict", excuses.no_number),
    Wanted("operators without operand", SPEC_FILTERS, "verdict", excuses.no_operand),
    Wanted("numbers that are not finite", SPEC_FILTERS, "verdict", excuses.not_finite),
    Wanted(
        "multipliers that are no numbers", _WEIGHERS, "multiplier", excuses.unreadable_multiplier
    ),
    *(
        Wanted(
            "multipliers that are no numbers", ("MetricsWeigher",), what, excuses.unreadable_metrics
        )
        for what in ("raw", "normalised")
    ),
    Wanted(
        "limits that are no whole numbers", excuses.CEILINGS, "verdict", excuses.unreadable_ceiling
    ),
    *(
        Wanted("image properties as they are written", (rule,), what, is_it)
        for rule, what, is_it in (
            ("AggregateImagePropertiesIsolation", "verdict", excuses.isolated_otherwise),
            ("ImagePropertiesWeigher", "raw", excuses.weighed_otherwise),
            ("ImagePropertiesWeigher", "normalised", excuses.weighed_otherwise),
        )
    ),
    *(
        Wanted("weighers that only aggregates turn on", ("ImagePropertiesWeigher",), what, is_it)
        for what, is_it in (("raw", excuses.turned_off), ("normalised", excuses.turned_off))
    ),
    Wanted(
        "requests without a project",
        ("AggregateMultiTenancyIsolation",),
        "verdict",
        excuses.no_project,
    ),
    Wanted("address bits of images", ("ImagePropertiesFilter",), "verdict", excuses.address_bits),
    Wanted(
        "hosts for a whole group",
        ("order",),
        "scores of instance 0",
        excuses.others_do_not_fit,
    ),
    Wanted("affinity to a node", ("ServerGroupAffinityFilter",), "verdict", excuses.other_node),
    *(
        Wanted(name, ("JsonFilter",), "verdict", is_it)
        for name, is_it in (
            ("queries that are none", hint_excuses.no_query),
            ("comparisons of what has no order", hint_excuses.no_order),
            ("attributes that cannot be opened", hint_excuses.no_mapping),
            ("attributes that only Nova has", hint_excuses.novas_own),
            ("addresses in queries", hint_excuses.address_text),
        )
    ),
    Wanted(
        "prefixes without a slash", ("SimpleCIDRAffinityFilter",), "verdict", hint_excuses.joined
    ),
    Wanted("prefixes with a sign", ("SimpleCIDRAffinityFilter",), "verdict", hint_excuses.signed),
    Wanted("networks of IPv6", ("SimpleCIDRAffinityFilter",), "verdict", hint_excuses.wide_network),
    *(
        Wanted(name, ("",), "request", is_it)
        for name, is_it in (
            ("blanks around numbers", excuses.blanks),
            ("pages of no size", excuses.no_pages),
            ("traits required and forbidden", excuses.contrary_traits),
            ("no devices of an alias", excuses.no_devices),
            ("unknown aliases that no rule is asked about", excuses.not_asked),
        )
    ),
    Wanted("ratios that are none", excuses.RATIOS, "verdict", excuses.no_ratio),
    Wanted("empty availability zones", ("AvailabilityZoneFilter",), "verdict", excuses.no_zone),
    Wanted(
        "devices for several aliases",
        ("PciPassthroughFilter", "NUMATopologyFilter"),
        "verdict",
        excuses.served_in_order,
    ),
    Wanted("cells that were tried before", ("NUMATopologyFilter",), "verdict", excuses.left_behind),
    Wanted("metrics that are missing", ("MetricsWeigher",), "raw", excuses.missing_metric),
)


_DISK_RULES = ("DiskWeigher", "DiskFilter", "AggregateDiskFilter", "ExactDiskFilter")
LATER: Final[Mapping[str, str]] = {
    "ImagePropertiesWeigher": "images of the same request",
    **dict.fromkeys(_DISK_RULES, "swap counts as disk"),
    "JsonFilter": "disk used by the same request",
    "ServerGroupAffinityFilter": "affinity to a node",
    **dict.fromkeys(excuses.CEILINGS, "limits that are no whole numbers"),
    **dict.fromkeys(excuses.RATIOS, "ratios that are none"),
}
"""Rules that may differ deliberately after the request's first instance, with the reasons."""

HARDWARE_LATER: Final = "which cells and devices"
"""The reason why only the first instance of a request for cells or devices is compared."""

FORCED: Final[Mapping[str, str]] = {
    "NUMATopologyFilter": "hardware of forced hosts",
    "PciPassthroughFilter": "hardware of forced hosts",
}
"""Rules that Berth also applies to forced hosts, with the reasons."""


def excused(case: Case) -> frozenset[str]:
    """Return the rules of `LATER` and `FORCED` that may differ in a case when combined.

    Alone, these rules must agree as well.
    """
    request = case.request
    names = [host.name for host in case.snapshot.hosts]
    later = {
        "ImagePropertiesWeigher": request.image is not None,
        **dict.fromkeys(_DISK_RULES, request.flavor.swap_mb > 0),
        "JsonFilter": "$disk_mb_used" in hint_of(case, "query"),
        "ServerGroupAffinityFilter": len(names) > len(set(names)),
        **{rule: excuses.has_odd_ceiling(case, key) for rule, key in excuses.CEILINGS.items()},
        **{rule: excuses.has_odd_ratio(case, key) for rule, key in excuses.RATIOS.items()},
    }
    found = {name for name in LATER if later[name] and len(request.instance_uuids) > 1}
    is_forced = bool(request.force_hosts or request.force_nodes)
    return frozenset(found | (set(FORCED) if is_forced else set()))


def wants_hardware(case: Case) -> bool:
    """Tell whether the request may ask for cells or devices."""
    specs, properties = case.request.flavor.extra_specs, properties_of(case)
    return any(key.startswith(_HARDWARE_SPECS) for key in specs if key != _ADDRESS_BITS) or any(
        key.startswith(_HARDWARE_PROPERTIES) for key in properties
    )
