"""The differences from Nova that Berth has on purpose, each as narrow as it can be said.

`docs/reference/differences-from-nova.md` gives the reason of each under the same name. What is
not named there is no difference: the comparison has no tolerance.
"""

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, Protocol

from berth.domain.aggregate import AZ_KEY
from berth.domain.host import Host
from berth.domain.image import Image
from tests.differential.cases import Case
from tests.differential.rules import WEIGHERS
from tests.differential.vocabulary import IMAGE_PROPERTIES

_SPEC_FILTERS = ("ComputeCapabilitiesFilter", "AggregateInstanceExtraSpecsFilter")
_CEILINGS = {
    "AggregateIoOpsFilter": "max_io_ops_per_host",
    "AggregateNumInstancesFilter": "max_instances_per_host",
}
_RATIOS = {
    "AggregateCoreFilter": "cpu_allocation_ratio",
    "AggregateRamFilter": "ram_allocation_ratio",
    "AggregateDiskFilter": "disk_allocation_ratio",
}
_WEIGHERS = tuple(pair.name for pair in WEIGHERS)
_RAISED_BY_ATTRIBUTE = "AttributeError: 'str' object has no attribute 'get'"


class Differing(Protocol):
    """A difference, as far as the table looks at it; see `comparing.Difference`."""

    @property
    def rule(self) -> str:
        """The filter or weigher."""
        ...

    @property
    def what(self) -> str:
        """What about it."""
        ...

    @property
    def host(self) -> int | None:
        """The index of the host."""
        ...

    @property
    def berth(self) -> object:
        """What Berth says."""
        ...

    @property
    def nova(self) -> object:
        """What Nova says."""
        ...

    @property
    def pairs_anew(self) -> bool | None:
        """What Nova would say if its search for cells started anew at every try."""
        ...


@dataclass(frozen=True)
class Wanted:
    """One difference that is wanted.

    Args:
        name: what it is called in the docs.
        rules: the rules that it is about.
        what: what about them, as `comparing.Difference` has it.
        is_it: whether a difference of such a rule is this one.
    """

    name: str
    rules: Collection[str]
    what: str
    is_it: Callable[[Case, Differing], bool]

    def holds(self, case: Case, one: Differing) -> bool:
        """Tell whether a difference is this one."""
        return one.rule in self.rules and one.what == self.what and self.is_it(case, one)


def _host(case: Case, one: Differing) -> Host:
    assert one.host is not None
    return case.snapshot.hosts[one.host]


def _metadata(case: Case, host: Host, key: str) -> Iterator[str]:
    """Yield the texts that the aggregates of a host have under a key."""
    for aggregate in case.snapshot.aggregates:
        if host.name in aggregate.hosts and key in aggregate.metadata:
            yield aggregate.metadata[key]


def _number(text: str, read: Callable[[str], float] = float) -> float | None:
    """Read a number as Nova does, None when it cannot."""
    try:
        return read(text)
    except ValueError:
        return None


def _is_finite(text: str) -> bool:
    number = _number(text)
    return number is None or math.isfinite(number)


# ---- extra specs --------------------------------------------------------------------------------


def _no_number(case: Case, one: Differing) -> bool:
    raised = str(one.nova).startswith("ValueError: could not convert string to float")
    return raised and one.berth is False


def _no_operand(case: Case, one: Differing) -> bool:
    specs = case.request.flavor.extra_specs.values()
    return (
        one.berth is False
        and one.nova == "IndexError: pop from empty list"
        and any(text.split() == ["<or>"] for text in specs)
    )


def _not_finite(case: Case, one: Differing) -> bool:
    operands = [text.split()[1:2] for text in case.request.flavor.extra_specs.values()]
    values = _host(case, one).stats.values()
    odd = any(not _is_finite(text) for text in chain(*operands, values))
    return odd and one.berth is False and one.nova is True


# ---- aggregates ---------------------------------------------------------------------------------


def _unreadable_multiplier(case: Case, one: Differing) -> bool:
    """Nova falls back to its option when any text is no number, Berth when all are none."""
    pair = next(pair for pair in WEIGHERS if pair.name == one.rule)
    option = pair.options["multiplier"]
    key = (
        "metrics_weight_multiplier"
        if option == "metrics.weight_multiplier"
        else option.rpartition(".")[2]
    )
    texts = list(_metadata(case, _host(case, one), key))
    numbers = [number for text in texts if (number := _number(text)) is not None]
    sign = -1 if one.rule == "BuildFailureWeigher" else 1
    usual = case.settings[option]
    assert isinstance(usual, float)
    return (
        0 < len(numbers) < len(texts)
        and one.nova == sign * usual
        and one.berth == sign * min(numbers)
    )


def _unreadable_metrics(case: Case, one: Differing) -> bool:
    """A host that lacks a metric counts as such unless its multiplier is 0."""
    hosts = [case.snapshot.hosts[index] for index in case.weighed]
    texts = [text for host in hosts for text in _metadata(case, host, "metrics_weight_multiplier")]
    return one.host is not None and any(_number(text) is None for text in texts)


def _unreadable_ceiling(case: Case, one: Differing) -> bool:
    """Nova falls back to its option when any text is no whole number."""
    texts = _metadata(case, _host(case, one), _CEILINGS[one.rule])
    return any(_number(text, int) is None for text in texts)


def _no_ratio(case: Case, one: Differing) -> bool:
    """Nova takes the least number whatever it is, and none at all when one text is no number."""
    texts = _metadata(case, _host(case, one), _RATIOS[one.rule])
    return any((_number(text) or 0.0) <= 0 for text in texts)


def _no_zone(case: Case, one: Differing) -> bool:
    """A host that only has empty zones is in no zone in Nova, and in the default one in Berth."""
    texts = _metadata(case, _host(case, one), AZ_KEY)
    zones = {zone.strip() for text in texts for zone in text.split(",")}
    is_default = case.request.availability_zone == case.settings["default_availability_zone"]
    return zones == {""} and is_default and one.berth is True and one.nova is False


# ---- images -------------------------------------------------------------------------------------


def _properties(case: Case) -> Mapping[str, str]:
    return case.request.image.properties if case.request.image else {}


def _is_odd(image: Image | None) -> bool:
    """Nova renames, rewrites or drops some property of the image."""
    properties = image.properties if image else {}
    return any(value not in IMAGE_PROPERTIES.get(key, ()) for key, value in properties.items())


def _odd_image(case: Case, one: Differing) -> bool:
    images = [case.request.image]
    if one.rule == "ImagePropertiesWeigher":
        images += [instance.image for instance in case.snapshot.instances]
    return any(_is_odd(image) for image in images)


def _address_bits(case: Case, one: Differing) -> bool:
    return one.nova == _RAISED_BY_ATTRIBUTE and "hw_maxphysaddr_bits" in _properties(case)


def _turned_off(case: Case, one: Differing) -> bool:
    """Nova looks only at its option to tell whether the weigher is on, not at aggregates."""
    return case.settings["filter_scheduler.image_props_weight_multiplier"] == 0


def _no_project(case: Case, one: Differing) -> bool:
    return not case.request.project_id and one.berth is False and one.nova is True


# ---- hints --------------------------------------------------------------------------------------


def _hint(case: Case, name: str) -> str:
    return case.request.hints.get(name, ("",))[0]


def _no_query(case: Case, one: Differing) -> bool:
    """Nova takes any JSON that happens to work: null, an empty text, objects as operands."""
    try:
        document: object = json.loads(_hint(case, "query"))
    except ValueError:
        return False
    refused = str(one.berth).startswith("InvalidInputError: hints.query")
    is_query = isinstance(document, list) and not any(map(_is_odd_json, _leaves(document)))
    return refused and isinstance(one.nova, bool) and not is_query


def _leaves(document: object) -> Iterator[object]:
    if isinstance(document, list):
        for one in document:
            yield from _leaves(one)
    else:
        yield document


def _is_odd_json(leaf: object) -> bool:
    return isinstance(leaf, dict) or (isinstance(leaf, float) and not math.isfinite(leaf))


def _no_order(case: Case, one: Differing) -> bool:
    raised = str(one.nova)
    unordered = raised.startswith("TypeError:") and "not supported between instances" in raised
    return unordered and one.berth is False


def _no_mapping(case: Case, one: Differing) -> bool:
    return one.nova == _RAISED_BY_ATTRIBUTE and isinstance(one.berth, bool)


def _novas_own(case: Case, one: Differing) -> bool:
    return "$service" in _hint(case, "query")


def _address_text(case: Case, one: Differing) -> bool:
    return "$host_ip" in _hint(case, "query") and one.berth is True and one.nova is False


def _no_slash(case: Case, one: Differing) -> bool:
    """Nova reads such a hint as more digits of the address, an empty one as the address alone."""
    given = "cidr" in case.request.hints and not _hint(case, "cidr").startswith("/")
    refused = str(one.berth).startswith("InvalidInputError: hints.cidr")
    return given and one.nova is False and (refused or not _hint(case, "cidr"))


def _wide_network(case: Case, one: Differing) -> bool:
    is_default = not _hint(case, "cidr") and ":" in _hint(case, "build_near_host_ip")
    return is_default and one.berth is False and one.nova is True


# ---- groups -------------------------------------------------------------------------------------


def _other_node(case: Case, one: Differing) -> bool:
    """A member is on another node of the host."""
    host = _host(case, one)
    return (
        one.berth is False
        and one.nova is True
        and any(
            (instance.host, instance.group_uuid) == (host.name, case.request.group_uuid)
            and instance.node != host.node
            for instance in case.snapshot.instances
        )
    )


# ---- cells and devices --------------------------------------------------------------------------


def _spec(case: Case, key: str) -> str:
    return case.request.flavor.extra_specs.get(key, "")


def _blanks(case: Case, one: Differing) -> bool:
    text = _spec(case, "hw:numa_nodes")
    return one.berth is None and "InvalidNUMANodesNumber" in str(one.nova) and text != text.strip()


def _no_pages(case: Case, one: Differing) -> bool:
    refused = str(one.berth).startswith("hw:mem_page_size")
    text = _spec(case, "hw:mem_page_size")
    return refused and one.nova is None and (text == "0" or "." in text)


def _no_devices(case: Case, one: Differing) -> bool:
    refused = str(one.berth).startswith("pci_passthrough:alias")
    asks_none = ":0" in _spec(case, "pci_passthrough:alias")
    return refused and one.nova is None and asks_none


def _left_behind(case: Case, one: Differing) -> bool:
    """Nova's search for cells is led astray by what it tried before; Berth agrees without that."""
    return one.pairs_anew is not None and one.berth is one.pairs_anew


def _no_hosts(case: Case, one: Differing) -> bool:
    """Without hosts Berth asks no rule, and only a rule knows the aliases."""
    return "PciRequestAliasNotDefined" in str(one.nova) and not case.snapshot.hosts


# ---- metrics ------------------------------------------------------------------------------------


def _missing_metric(case: Case, one: Differing) -> bool:
    raised = str(one.nova).startswith("ComputeHostMetricNotFound")
    return raised and case.settings["metrics.required"] is True


WANTED: Final = (
    Wanted("numbers that cannot be read", _SPEC_FILTERS, "verdict", _no_number),
    Wanted("operators without operand", _SPEC_FILTERS, "verdict", _no_operand),
    Wanted("numbers that are not finite", _SPEC_FILTERS, "verdict", _not_finite),
    Wanted("multipliers that are no numbers", _WEIGHERS, "multiplier", _unreadable_multiplier),
    *(
        Wanted("multipliers that are no numbers", ("MetricsWeigher",), what, _unreadable_metrics)
        for what in ("raw", "normalised")
    ),
    Wanted("limits that are no whole numbers", _CEILINGS, "verdict", _unreadable_ceiling),
    *(
        Wanted("image properties as they are written", rules, what, _odd_image)
        for rules, what in (
            (("AggregateImagePropertiesIsolation",), "verdict"),
            (("ImagePropertiesWeigher",), "raw"),
            (("ImagePropertiesWeigher",), "normalised"),
        )
    ),
    *(
        Wanted("weighers that only aggregates turn on", ("ImagePropertiesWeigher",), what, is_it)
        for what, is_it in (("raw", _turned_off), ("normalised", _turned_off))
    ),
    Wanted(
        "requests without a project", ("AggregateMultiTenancyIsolation",), "verdict", _no_project
    ),
    Wanted("address bits of images", ("ImagePropertiesFilter",), "verdict", _address_bits),
    Wanted("affinity to a node", ("ServerGroupAffinityFilter",), "verdict", _other_node),
    *(
        Wanted(name, ("JsonFilter",), "verdict", is_it)
        for name, is_it in (
            ("queries that are none", _no_query),
            ("comparisons of what has no order", _no_order),
            ("attributes that cannot be opened", _no_mapping),
            ("attributes that only Nova has", _novas_own),
            ("addresses in queries", _address_text),
        )
    ),
    Wanted("prefixes without a slash", ("SimpleCIDRAffinityFilter",), "verdict", _no_slash),
    Wanted("networks of IPv6", ("SimpleCIDRAffinityFilter",), "verdict", _wide_network),
    *(
        Wanted(name, ("",), "request", is_it)
        for name, is_it in (
            ("blanks around numbers", _blanks),
            ("pages of no size", _no_pages),
            ("no devices of an alias", _no_devices),
            ("unknown aliases without hosts", _no_hosts),
        )
    ),
    Wanted("ratios that are none", _RATIOS, "verdict", _no_ratio),
    Wanted("empty availability zones", ("AvailabilityZoneFilter",), "verdict", _no_zone),
    Wanted("cells that were tried before", ("NUMATopologyFilter",), "verdict", _left_behind),
    Wanted("metrics that are missing", ("MetricsWeigher",), "raw", _missing_metric),
)


_DISK_RULES = ("DiskWeigher", "DiskFilter", "AggregateDiskFilter", "ExactDiskFilter")
LATER: Final[Mapping[str, str]] = {
    "ImagePropertiesWeigher": "images of the same request",
    **dict.fromkeys(_DISK_RULES, "swap counts as disk"),
    "JsonFilter": "disk used by the same request",
    "ServerGroupAffinityFilter": "affinity to a node",
}
"""Rules that may differ on purpose once an instance of the request is placed, and why."""

HARDWARE_LATER: Final = "which cells and devices"
"""Why only the first instance of a request for cells or devices is compared."""

FORCED: Final[Mapping[str, str]] = {
    "NUMATopologyFilter": "hardware of forced hosts",
    "PciPassthroughFilter": "hardware of forced hosts",
}
"""Rules that hold for forced hosts too, and why."""


def excused(case: Case) -> frozenset[str]:
    """Name the rules of `LATER` and `FORCED` that may differ in a case when asked together.

    What they say alone, or of the first instance, has to agree all the same.
    """
    request = case.request
    names = [host.name for host in case.snapshot.hosts]
    later = {
        "ImagePropertiesWeigher": True,
        **dict.fromkeys(_DISK_RULES, request.flavor.swap_mb > 0),
        "JsonFilter": "$disk_mb_used" in _hint(case, "query"),
        "ServerGroupAffinityFilter": len(names) > len(set(names)),
    }
    found = {name for name in LATER if later[name] and len(request.instance_uuids) > 1}
    is_forced = bool(request.force_hosts or request.force_nodes)
    return frozenset(found | (set(FORCED) if is_forced else set()))


def wants_hardware(case: Case) -> bool:
    """Tell whether the request may ask for cells or devices."""
    keys = (*case.request.flavor.extra_specs, *_properties(case))
    return any(key.startswith(("hw", "pci")) for key in keys)
