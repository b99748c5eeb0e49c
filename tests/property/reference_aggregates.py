"""A slow, plain model of the rules about single sizes, counts and aggregate metadata.

Like `reference_model`, on which it builds, it was written from docs/reference/nova-behaviour.md
alone.
Deliberate differences from Nova: text that is not a number is ignored, and so is a ratio that is
not above 0; every image property is compared; an empty project id is on no list.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.request import Request
from berth.domain.ledger.change import Snapshot
from tests.property.reference_model import ModelHost, is_number, matches, model_hosts, total_of


@dataclass
class Facts:
    """One host with its aggregates, and the request."""

    model: ModelHost
    aggregates: list[Aggregate]
    request: Request

    def texts(self, key: str) -> list[str]:
        """Return the values of a key, unchanged."""
        return [one.metadata[key] for one in self.aggregates if key in one.metadata]

    def words(self, key: str) -> list[str]:
        """Return the values of a key, split at commas and stripped."""
        return [word.strip() for text in self.texts(key) for word in text.split(",")]

    def numbers(self, key: str) -> list[float]:
        """Return the values of a key that are numbers."""
        return [float(text) for text in self.texts(key) if is_number(text)]

    def taken(self, name: str) -> int:
        """Return the sum of the reserved and used amounts of a class."""
        inventory = self.model.inventories.get(name)
        return self.model.used.get(name, 0) + (inventory.reserved if inventory else 0)

    def ratio(self, name: str) -> float:
        """Return the host's own allocation ratio of a class, 0 without an inventory."""
        inventory = self.model.inventories.get(name)
        return inventory.allocation_ratio if inventory else 0

    def asked(self, name: str) -> float:
        """Return the amount of a class that the flavor asks for, disk in fractions of a GB."""
        flavor = self.request.flavor
        disk_mb = 1024 * (flavor.root_gb + flavor.ephemeral_gb) + flavor.swap_mb
        return {"VCPU": flavor.vcpus, "MEMORY_MB": flavor.memory_mb}.get(name, disk_mb / 1024)


def under_ratio(name: str, key: str | None) -> Callable[[Facts], bool]:
    """Return the rule of CoreFilter, RamFilter or DiskFilter, or of Aggregate* with a key."""

    def passes(facts: Facts) -> bool:
        total, asked = total_of(facts.model, name), facts.asked(name)
        if name == "VCPU" and not total:
            return True
        ratios = [number for number in facts.numbers(key or "") if number > 0]
        ratio = min(ratios) if ratios else facts.ratio(name)
        return asked <= total and asked + facts.taken(name) <= total * ratio

    return passes


def exact(name: str) -> Callable[[Facts], bool]:
    """Return the rule of ExactCoreFilter, ExactRamFilter or ExactDiskFilter."""

    def passes(facts: Facts) -> bool:
        total = total_of(facts.model, name)
        if name == "VCPU" and not total:
            return False
        return total - facts.taken(name) == facts.asked(name)

    return passes


def few(count: Callable[[ModelHost], int], limit: int, key: str | None) -> Callable[[Facts], bool]:
    """Return the rule of IoOpsFilter or NumInstancesFilter, or of Aggregate* with a key."""

    def passes(facts: Facts) -> bool:
        return count(facts.model) < min(facts.numbers(key or "") or [limit])

    return passes


def meets_specs(facts: Facts) -> bool:
    """Tell whether AggregateInstanceExtraSpecsFilter keeps the host."""
    for name, requirement in facts.request.flavor.extra_specs.items():
        scope, *rest = name.split(":", 1)
        if rest and scope != "aggregate_instance_extra_specs":
            continue
        key = rest[0] if rest else name
        if not any(matches(word, requirement) for word in facts.words(key)):
            return False
    return True


def admits_tenant(facts: Facts) -> bool:
    """Tell whether AggregateMultiTenancyIsolation keeps the host."""
    keys = {key for one in facts.aggregates for key in one.metadata}
    lists = [facts.words(key) for key in keys if key.startswith("filter_tenant_id")]
    project = facts.request.project_id
    return not lists or any(project and project in words for words in lists)


def admits_image(facts: Facts) -> bool:
    """Tell whether AggregateImagePropertiesIsolation without a namespace keeps the host."""
    properties = facts.request.image.properties if facts.request.image else {}
    return all(
        not properties.get(key) or properties[key] in facts.words(key)
        for one in facts.aggregates
        for key in one.metadata
    )


def admits_type(facts: Facts) -> bool:
    """Tell whether AggregateTypeAffinityFilter keeps the host."""
    words = facts.words("instance_type")
    return not words or facts.request.flavor.name in words


BUILDS_MAX = 1
INSTANCES_MAX = 2
"""Limits low enough for small fleets."""

RULES: dict[str, Callable[[Facts], bool]] = {
    "CoreFilter": under_ratio("VCPU", None),
    "RamFilter": under_ratio("MEMORY_MB", None),
    "DiskFilter": under_ratio("DISK_GB", None),
    "AggregateCoreFilter": under_ratio("VCPU", "cpu_allocation_ratio"),
    "AggregateRamFilter": under_ratio("MEMORY_MB", "ram_allocation_ratio"),
    "AggregateDiskFilter": under_ratio("DISK_GB", "disk_allocation_ratio"),
    "ExactCoreFilter": exact("VCPU"),
    "ExactRamFilter": exact("MEMORY_MB"),
    "ExactDiskFilter": exact("DISK_GB"),
    "IoOpsFilter": few(lambda model: len(model.building), BUILDS_MAX, None),
    "AggregateIoOpsFilter": few(
        lambda model: len(model.building), BUILDS_MAX, "max_io_ops_per_host"
    ),
    "NumInstancesFilter": few(lambda model: len(model.groups), INSTANCES_MAX, None),
    "AggregateNumInstancesFilter": few(
        lambda model: len(model.groups), INSTANCES_MAX, "max_instances_per_host"
    ),
    "AggregateInstanceExtraSpecsFilter": meets_specs,
    "AggregateMultiTenancyIsolation": admits_tenant,
    "AggregateImagePropertiesIsolation": admits_image,
    "AggregateTypeAffinityFilter": admits_type,
}
"""The rule of each filter, by its name; options other than limits have their defaults."""


def facts_of(snapshot: Snapshot, request: Request) -> Iterator[Facts]:
    """Yield what the rules read about each host."""
    for model in model_hosts(snapshot):
        mine = [one for one in snapshot.aggregates if model.host.name in one.hosts]
        yield Facts(model, mine, request)


def kept(snapshot: Snapshot, request: Request, filter_name: str) -> set[tuple[str, str]]:
    """Return (name, node) of the hosts that a filter keeps."""
    passes = RULES[filter_name]
    return {facts.model.key for facts in facts_of(snapshot, request) if passes(facts)}
