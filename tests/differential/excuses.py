"""Conditions for wanted differences in extra specs, aggregates, images, groups and hardware."""

from collections.abc import Sequence
from typing import Final, cast

from berth.domain.compute.aggregate import AZ_KEY
from berth.scheduling.rules.reduction import CHECK_TYPE
from tests.differential.answers import takes_request
from tests.differential.cases import Case
from tests.differential.counterfactuals import (
    devices_fit,
    value,
    verdict,
    with_images,
    with_specs,
    without_key,
)
from tests.differential.differing import (
    RAISED_BY_ATTRIBUTE,
    Differing,
    has_unreadable,
    host_of,
    is_finite,
    metadata_of,
    number_in,
    properties_of,
)
from tests.differential.rules import WEIGHERS

CEILINGS: Final = {
    "AggregateIoOpsFilter": "max_io_ops_per_host",
    "AggregateNumInstancesFilter": "max_instances_per_host",
}
RATIOS: Final = {
    "AggregateCoreFilter": "cpu_allocation_ratio",
    "AggregateRamFilter": "ram_allocation_ratio",
    "AggregateDiskFilter": "disk_allocation_ratio",
}


# ---- extra specs --------------------------------------------------------------------------------


def no_number(case: Case, one: Differing) -> bool:
    """Nova fails on a text that is not a number; in Berth it matches nothing."""
    raised = str(one.nova).startswith("ValueError: could not convert string to float")
    return raised and (one.berth is False or _has_other_text(case, one))


def _has_other_text(case: Case, one: Differing) -> bool:
    """Tell whether a key has numbers and other texts, which Nova reads one by one in any order."""
    if one.rule != "AggregateInstanceExtraSpecsFilter":
        return False
    host = host_of(case, one)
    for spec in case.request.flavor.extra_specs:
        lists = metadata_of(case, host, spec.removeprefix("aggregate_instance_extra_specs:"))
        texts = [text.strip() for each in lists for text in each.split(",")]
        if len({number_in(text) is None for text in texts}) > 1:
            return True
    return False


def no_operand(case: Case, one: Differing) -> bool:
    """Nova fails on an operator without an operand; in Berth it matches nothing."""
    specs = case.request.flavor.extra_specs.values()
    return (
        one.berth is False
        and one.nova == "IndexError: pop from empty list"
        and any(text.split() == ["<or>"] for text in specs)
    )


def not_finite(case: Case, one: Differing) -> bool:
    """Berth's host passes without the specs that have, or are compared with, an infinity or NaN."""
    stats = host_of(case, one).stats if one.rule == "ComputeCapabilitiesFilter" else {}
    reported = {name for name, text in stats.items() if not is_finite(text)}
    specs = case.request.flavor.extra_specs
    finite = {
        key: text
        for key, text in specs.items()
        if all(map(is_finite, text.split()[1:2])) and key.rpartition(":")[2] not in reported
    }
    differs = len(finite) < len(specs) and one.berth is False and one.nova is True
    return differs and verdict(with_specs(case, finite), one.rule, one.host) is True


# ---- aggregates ---------------------------------------------------------------------------------


def unreadable_multiplier(case: Case, one: Differing) -> bool:
    """Nova falls back to its option if any text is not a number, Berth only if none is."""
    pair = next(pair for pair in WEIGHERS if pair.name == one.rule)
    option = pair.options["multiplier"]
    key = (
        "metrics_weight_multiplier"
        if option == "metrics.weight_multiplier"
        else option.rpartition(".")[2]
    )
    texts = list(metadata_of(case, host_of(case, one), key))
    numbers = [number for text in texts if (number := number_in(text)) is not None]
    sign = -1 if one.rule == "BuildFailureWeigher" else 1
    usual = case.settings[option]
    assert isinstance(usual, float)
    return (
        0 < len(numbers) < len(texts)
        and one.nova == sign * usual
        and one.berth == sign * min(numbers)
    )


def unreadable_metrics(case: Case, one: Differing) -> bool:
    """Berth's value is Nova's without the aggregates' multipliers if any text is not a number."""
    key = "metrics_weight_multiplier"
    hosts = [case.snapshot.hosts[index] for index in case.weighed]
    if one.host is None or not any(has_unreadable(metadata_of(case, host, key)) for host in hosts):
        return False
    read = without_key(case, key, has_unreadable)
    return value(read, one.rule, one.what, one.host) == one.nova


def unreadable_ceiling(case: Case, one: Differing) -> bool:
    """Nova falls back to its option if any text is not an integer."""
    key = CEILINGS[one.rule]

    def falls_back(texts: Sequence[str]) -> bool:
        return any(number_in(text, int) is None for text in texts)

    read = without_key(case, key, falls_back)
    is_odd = falls_back(list(metadata_of(case, host_of(case, one), key)))
    return is_odd and verdict(read, one.rule, one.host) is one.nova


def no_ratio(case: Case, one: Differing) -> bool:
    """Nova takes the lowest number even if it is 0 or less, and none if a text is not a number."""
    key = RATIOS[one.rule]
    texts = list(metadata_of(case, host_of(case, one), key))
    if has_unreadable(texts):
        read = without_key(case, key, has_unreadable)
        return verdict(read, one.rule, one.host) is one.nova
    is_none = any((number_in(text) or 0.0) <= 0 for text in texts)
    return is_none and one.berth is True and one.nova is False


def has_odd_ceiling(case: Case, key: str) -> bool:
    """Tell whether an aggregate has a limit that is not an integer."""
    return any(number_in(text, int) is None for text in _texts(case, key))


def has_odd_ratio(case: Case, key: str) -> bool:
    """Tell whether an aggregate has a ratio that Berth ignores."""
    return any((number_in(text) or 0.0) <= 0 for text in _texts(case, key))


def _texts(case: Case, key: str) -> list[str]:
    metadata = [each.metadata for each in case.snapshot.aggregates]
    return [told[key] for told in metadata if key in told]


def no_zone(case: Case, one: Differing) -> bool:
    """A host with only empty zone names is in no zone in Nova, but in the default one in Berth."""
    texts = metadata_of(case, host_of(case, one), AZ_KEY)
    zones = {zone.strip() for text in texts for zone in text.split(",")}
    is_default = case.request.availability_zone == case.settings["default_availability_zone"]
    return zones == {""} and is_default and one.berth is True and one.nova is False


# ---- images -------------------------------------------------------------------------------------


def isolated_otherwise(case: Case, one: Differing) -> bool:
    """Nova renames, rewrites or drops properties of the image, and ignores false ones."""
    read = with_images(case, one.images, false_counts=False)
    return read.request != case.request and verdict(read, one.rule, one.host) is one.nova


def weighed_otherwise(case: Case, one: Differing) -> bool:
    """Nova renames, rewrites or drops properties of an image."""
    if one.host is None:
        return False
    read = with_images(case, one.images, false_counts=True)
    return read != case and value(read, one.rule, one.what, one.host) == one.nova


def address_bits(case: Case, one: Differing) -> bool:
    """Nova fails on the image's address bits, because it reads the host's from a text."""
    return one.nova == RAISED_BY_ATTRIBUTE and "hw_maxphysaddr_bits" in properties_of(case)


def turned_off(case: Case, one: Differing) -> bool:
    """Nova turns the weigher off if its option is 0, whatever aggregates say."""
    is_off = case.settings["filter_scheduler.image_props_weight_multiplier"] == 0
    return is_off and one.nova == 0


def no_project(case: Case, one: Differing) -> bool:
    """Nova matches a request without a project with an empty name in a host's list."""
    name = host_of(case, one).name
    metadata = [each.metadata for each in case.snapshot.aggregates if name in each.hosts]
    names = [
        text.strip()
        for told in metadata
        for key, texts in told.items()
        if key.startswith("filter_tenant_id")
        for text in texts.split(",")
    ]
    empty = not case.request.project_id and "" in names
    return empty and one.berth is False and one.nova is True


# ---- groups -------------------------------------------------------------------------------------


def other_node(case: Case, one: Differing) -> bool:
    """All members on this host are on its other nodes, which Nova takes for this one."""
    host = host_of(case, one)
    nodes = {
        instance.node
        for instance in case.snapshot.instances
        if (instance.host, instance.group_uuid) == (host.name, case.request.group_uuid)
    }
    elsewhere = bool(nodes) and host.node not in nodes
    return elsewhere and one.berth is False and one.nova is True


def others_do_not_fit(case: Case, one: Differing) -> bool:
    """The hosts that only Nova ranks do not take all instances, or break the group's policy."""
    if not isinstance(one.berth, dict) or not isinstance(one.nova, dict):
        return False
    mine, theirs = cast("dict[int, float]", one.berth), cast("dict[int, float]", one.nova)
    agrees = case.request.group_uuid is not None and mine.items() <= theirs.items()
    return agrees and not any(takes_request(case, host) for host in theirs.keys() - mine.keys())


# ---- cells and devices --------------------------------------------------------------------------


def _spec(case: Case, key: str) -> str:
    return case.request.flavor.extra_specs.get(key, "")


def blanks(case: Case, one: Differing) -> bool:
    """Nova refuses a number of cells that has blanks around it."""
    text = _spec(case, "hw:numa_nodes")
    return one.berth is None and "InvalidNUMANodesNumber" in str(one.nova) and text != text.strip()


def no_pages(case: Case, one: Differing) -> bool:
    """Nova accepts page sizes that are 0 or fractional."""
    refused = str(one.berth).startswith("hw:mem_page_size")
    text = _spec(case, "hw:mem_page_size")
    return refused and one.nova is None and (text == "0" or "." in text)


def no_devices(case: Case, one: Differing) -> bool:
    """Nova accepts a request for 0 devices of an alias."""
    refused = str(one.berth).startswith("pci_passthrough:alias")
    asks_none = ":0" in _spec(case, "pci_passthrough:alias")
    return refused and one.nova is None and asks_none


def contrary_traits(case: Case, one: Differing) -> bool:
    """The image requires a trait that the flavor forbids, which Nova leaves to Placement."""
    specs = case.request.flavor.extra_specs
    both = [
        key
        for key, text in properties_of(case).items()
        if key.startswith("trait:") and (text, specs.get(key)) == ("required", "forbidden")
    ]
    refused = [f"{key}: is both required and forbidden; remove one" for key in both]
    return one.berth in refused and one.nova is None


def left_behind(case: Case, one: Differing) -> bool:
    """Berth agrees with Nova if each attempt of Nova's search for cells starts afresh."""
    return one.pairs_anew is not None and one.berth is one.pairs_anew


def served_in_order(case: Case, one: Differing) -> bool:
    """Nova serves the aliases in their order and takes what a later one needs; Berth matches."""
    if one.berth is not True or one.nova is not False or one.host is None:
        return False
    return devices_fit(case, one.host, one.rule) and not devices_fit(
        case, one.host, one.rule, in_order=True
    )


def not_asked(case: Case, one: Differing) -> bool:
    """Nova refuses an unknown alias; Berth's rule is not asked without hosts or on a rebuild."""
    is_asked = bool(case.snapshot.hosts) and CHECK_TYPE not in case.request.hints
    return "PciRequestAliasNotDefined" in str(one.nova) and not is_asked


# ---- metrics ------------------------------------------------------------------------------------


def missing_metric(case: Case, one: Differing) -> bool:
    """Nova fails for a host without a metric if metrics are required."""
    raised = str(one.nova).startswith("ComputeHostMetricNotFound")
    return raised and case.settings["metrics.required"] is True
