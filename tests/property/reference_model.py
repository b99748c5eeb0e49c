"""A slow, plain model of the scheduler's rules.

It is written from docs/reference/nova-behaviour.md alone.
It reads the records of a snapshot and uses no tables, rules or drivers. Hosts are objects, rules
are methods, numbers are Python's own. Deliberate differences from Nova: every instance of a
request starts from all hosts again; numbers that cannot be read match nothing; equal scores are
ordered by name.
"""

import json
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from berth.domain.compute.flavor import Image
from berth.domain.compute.host import Host, Service
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import ServerGroup
from berth.domain.inventory.resources import Inventory
from berth.domain.ledger.change import Snapshot

NEGLIGIBLE = 1e-9

ALIASES = {
    "hw_architecture": {"amd64": "x86_64", "arm64": "aarch64"},
    "img_hv_type": {"xapi": "xen"},
    "hw_vm_mode": {"pv": "xen", "hv": "hvm"},
}
NUMERIC: dict[str, Callable[[float, float], bool]] = {
    "=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
TEXTUAL: dict[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
}


@dataclass
class ModelHost:
    """One host with everything that the rules look at."""

    host: Host
    service: Service | None
    inventories: dict[str, Inventory]
    used: dict[str, int]
    traits: frozenset[str]
    zones: set[str]
    groups: dict[str, str | None] = field(default_factory=dict)
    """The group of each instance, by instance uuid."""
    building: set[str] = field(default_factory=set)
    images: dict[str, dict[str, str]] = field(default_factory=dict)
    """The image properties of each instance, by instance uuid."""

    @property
    def key(self) -> tuple[str, str]:
        """The host's name and node."""
        return self.host.name, self.host.node

    def free(self, name: str) -> float:
        """Return total - reserved - used of a class, without the allocation ratio."""
        inventory = self.inventories.get(name)
        used = self.used.get(name, 0)
        return -used if inventory is None else inventory.total - inventory.reserved - used

    def free_cpus(self) -> float:
        """Return total x ratio - reserved - used of VCPU."""
        inventory = self.inventories.get("VCPU")
        used = self.used.get("VCPU", 0)
        if inventory is None:
            return -used
        return inventory.total * inventory.allocation_ratio - inventory.reserved - used


def model_hosts(snapshot: Snapshot) -> list[ModelHost]:
    """Return a model of each host in a snapshot."""
    services = {service.host: service for service in snapshot.services}
    providers = {provider.uuid: provider for provider in snapshot.providers}
    hosts: list[ModelHost] = []
    for host in snapshot.hosts:
        provider = providers.get(host.uuid)
        mine = [aggregate for aggregate in snapshot.aggregates if host.name in aggregate.hosts]
        texts = [aggregate.metadata.get("availability_zone", "") for aggregate in mine]
        zones = {zone.strip() for text in texts for zone in text.split(",")} - {""}
        model = ModelHost(
            host=host,
            service=services.get(host.name),
            inventories=dict(provider.inventories) if provider else {},
            used=dict(provider.used) if provider else {},
            traits=provider.traits if provider else frozenset(),
            zones=zones,
        )
        for instance in snapshot.instances:
            if (instance.host, instance.node) == model.key:
                model.groups[instance.uuid] = instance.group_uuid
                model.images[instance.uuid] = properties_of(instance.image)
                if instance.task == "spawning":
                    model.building.add(instance.uuid)
        hosts.append(model)
    return hosts


@dataclass
class Wants:
    """What one instance needs."""

    amounts: dict[str, int]
    required: set[str]
    forbidden: set[str]
    any_of: list[set[str]]


def wants_of(request: Request) -> Wants:
    """Return what the flavor and the image of a request ask for."""
    flavor = request.flavor
    megabytes = (flavor.root_gb + flavor.ephemeral_gb) * 1024 + flavor.swap_mb
    amounts = {
        "VCPU": flavor.vcpus,
        "MEMORY_MB": flavor.memory_mb,
        "DISK_GB": megabytes // 1024 + (1 if megabytes % 1024 else 0),
    }
    wants = Wants(amounts, set(), set(), [])
    properties = request.image.properties if request.image else {}
    asked = [*flavor.extra_specs.items(), *properties.items()]
    for key, value in asked:
        if key.startswith("resources:"):
            amounts[key.removeprefix("resources:")] = int(value)
        elif key.startswith("trait:") and value == "required":
            wants.required.add(key.removeprefix("trait:"))
        elif key.startswith("trait:"):
            wants.forbidden.add(key.removeprefix("trait:"))
        elif key == "berth:any_trait":
            wants.any_of.append(set(value.split("|")))
    wants.amounts = {name: amount for name, amount in amounts.items() if amount > 0}
    return wants


def is_number(text: str) -> bool:
    """Tell whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def matches(value: str, requirement: str) -> bool:
    """Tell whether a value meets the requirement of an extra spec."""
    first, *rest = requirement.split() or [""]
    known = {*NUMERIC, *TEXTUAL, "<in>", "<all-in>", "<or>"}
    if first not in known:
        return value == requirement
    if not rest:
        return False
    if first in NUMERIC:
        numbers = is_number(value) and is_number(rest[0])
        return numbers and NUMERIC[first](float(value), float(rest[0]))
    if first in TEXTUAL:
        return TEXTUAL[first](value, rest[0])
    if first == "<or>":
        return value in [word.strip() for word in " ".join(rest).split("<or>") if word.strip()]
    return all(word in value for word in (rest if first == "<all-in>" else rest[:1]))


@dataclass
class Step:
    """The model's view of one instance: survivors by (name, node), values and scores."""

    survivors: set[tuple[str, str]]
    raw: dict[str, dict[tuple[str, str], float]]
    normalised: dict[str, dict[tuple[str, str], float]]
    scores: dict[tuple[str, str], float]

    def best(self) -> tuple[str, str]:
        """Return the host with the best score, the first by name among equals."""
        return min(self.scores, key=lambda key: (-self.scores[key], key))


class Model:
    """A model of placing one request, instance by instance; the caller chooses the hosts."""

    def __init__(
        self, snapshot: Snapshot, request: Request, multipliers: dict[str, float], now_s: float
    ) -> None:
        self.hosts = model_hosts(snapshot)
        self.request = request
        self.multipliers = multipliers
        self.now_s = now_s
        self.wants = wants_of(request)
        groups = {group.uuid: group for group in snapshot.server_groups}
        self.group: ServerGroup | None = groups.get(request.group_uuid or "")
        forced = bool(request.force_hosts or request.force_nodes)
        named = [model for model in self.hosts if self.is_named(model)]
        once = (self.is_up, self.in_zone, self.is_capable, self.runs_image)
        hinted = (self.is_elsewhere, self.is_together, self.is_untried)
        rules = () if forced else (*once, *hinted)
        self.start = [model for model in named if all(rule(model) for rule in rules)]
        self.forced = forced

    def step(self, uuid: str) -> Step:
        """Return the surviving hosts for one instance, with their values and scores."""
        passed = [
            model
            for model in self.start
            if self.fits(model)
            and self.has_traits(model)
            and (self.forced or (self.is_apart(model, uuid) and self.is_with_group(model)))
        ]
        raw: dict[str, dict[tuple[str, str], float]] = {
            "RAMWeigher": {m.key: m.free("MEMORY_MB") for m in passed},
            "CPUWeigher": {m.key: m.free_cpus() for m in passed},
            "DiskWeigher": {m.key: m.free("DISK_GB") * 1024 for m in passed},
            "ServerGroupSoftAffinityWeigher": self.members(passed, "soft-affinity", 1),
            "ServerGroupSoftAntiAffinityWeigher": self.members(passed, "soft-anti-affinity", -1),
            "IoOpsWeigher": {m.key: len(m.building) for m in passed},
            "NumInstancesWeigher": {m.key: len(m.groups) for m in passed},
            "BuildFailureWeigher": {
                m.key: m.service.failed_builds if m.service else 0 for m in passed
            },
            "HypervisorVersionWeigher": {m.key: m.host.hypervisor_version for m in passed},
            "CrossCellWeigher": {m.key: self.nearness(m) for m in passed},
            "ImagePropertiesWeigher": {m.key: self.likeness(m) for m in passed},
            "MetricsWeigher": {m.key: self.measure(m) for m in passed},
            "PCIWeigher": {
                m.key: 100 - min(sum(pool.count for pool in m.host.pci_pools), 99) for m in passed
            },
        }
        floors = {"RAMWeigher": 0, "CPUWeigher": 0, "DiskWeigher": 0, "IoOpsWeigher": 0}
        normalised = {name: scaled(raw[name], floors.get(name)) for name in raw}
        scores = {model.key: 0.0 for model in passed}
        if len(passed) > 1:
            for name, multiplier in self.multipliers.items():
                for key in scores:
                    scores[key] += multiplier * normalised[name][key]
        return Step(set(scores), raw, normalised, scores)

    def consume(self, key: tuple[str, str], uuid: str) -> None:
        """Put an instance on a host."""
        (model,) = [model for model in self.hosts if model.key == key]
        for name, amount in self.wants.amounts.items():
            model.used[name] = model.used.get(name, 0) + amount
        model.groups[uuid] = self.request.group_uuid
        model.images[uuid] = properties_of(self.request.image)
        model.building.add(uuid)

    # ---- which hosts the request names (2.2) --------------------------------------------------

    def is_named(self, model: ModelHost) -> bool:
        """Tell whether the request's destination, ignored hosts and forced hosts admit a host."""
        request, name, node = self.request, model.host.name, model.host.node
        if request.destination and name != request.destination.host:
            return False
        if request.destination and request.destination.node not in (None, "", node):
            return False
        if name.lower() in [ignored.lower() for ignored in request.ignore_hosts]:
            return False
        forced = [host.lower() for host in request.force_hosts]
        if forced and name.lower() not in forced:
            return False
        return not request.force_nodes or node in request.force_nodes

    # ---- filters (2.6, 6.1) -------------------------------------------------------------------

    def is_up(self, model: ModelHost) -> bool:
        """Tell whether ComputeFilter keeps the host."""
        service = model.service
        if service is None or service.disabled or service.forced_down:
            return False
        return abs(self.now_s - service.last_seen_s) <= 60

    def in_zone(self, model: ModelHost) -> bool:
        """Tell whether AvailabilityZoneFilter keeps the host."""
        asked = self.request.availability_zone
        return not asked or asked in (model.zones or {"nova"})

    def has_traits(self, model: ModelHost) -> bool:
        """Tell whether TraitsFilter keeps the host."""
        wants = self.wants
        return (
            wants.required <= model.traits
            and not wants.forbidden & model.traits
            and all(choice & model.traits for choice in wants.any_of)
        )

    def fits(self, model: ModelHost) -> bool:
        """Tell whether ResourcesFilter keeps the host: capacity (3), units and step size."""
        for name, amount in self.wants.amounts.items():
            inventory = model.inventories.get(name)
            if inventory is None:
                return False
            capacity = (inventory.total - inventory.reserved) * inventory.allocation_ratio
            most = inventory.max_unit or inventory.total
            if model.used.get(name, 0) + amount > capacity or amount > most:
                return False
            if amount < inventory.min_unit or amount % inventory.step_size:
                return False
        return True

    def attribute(self, model: ModelHost, path: list[str]) -> str | None:
        """Return what a capability key names as text, None if the host does not have it."""
        host = model.host
        numbers: dict[str, object] = {
            "vcpus_total": total_of(model, "VCPU"),
            "free_ram_mb": model.free("MEMORY_MB"),
            "num_instances": len(model.groups),
            "num_io_ops": len(model.building),
            "hypervisor_type": host.hypervisor_type,
            "cpu_info": json.dumps(dict(host.cpu_info)),
        }
        found: object = numbers.get(path[0], host.stats.get(path[0]))
        for step in path[1:]:
            found = json.loads(found) if isinstance(found, str) else found
            found = found.get(step) if isinstance(found, dict) else None
        return None if found is None else str(found)

    def demands(self) -> Iterator[tuple[list[str], str, bool]]:
        """Yield (path, requirement, is scoped) for the extra specs of ComputeCapabilitiesFilter."""
        for key, requirement in self.request.flavor.extra_specs.items():
            path = key.split(":")
            if len(path) == 1:
                yield path, requirement, False
            elif path[0] == "capabilities":
                yield path[1:], requirement, True

    def is_capable(self, model: ModelHost) -> bool:
        """Tell whether ComputeCapabilitiesFilter keeps the host."""
        for path, requirement, scoped in self.demands():
            value = self.attribute(model, path)
            if value is None and scoped:
                return False
            if value is not None and not matches(value, requirement):
                return False
        return True

    def runs_image(self, model: ModelHost) -> bool:
        """Tell whether ImagePropertiesFilter keeps the host."""
        properties = self.request.image.properties if self.request.image else {}
        asked = [
            ALIASES[key].get(properties[key], properties[key])
            for key in ALIASES
            if key in properties
        ]
        if not asked:
            return True
        version = properties.get("img_hv_requested_version")
        return any(
            all(word in entry for word in asked) for entry in model.host.supported_instances
        ) and (not version or version_fits(model.host.hypervisor_version, version))

    def is_elsewhere(self, model: ModelHost) -> bool:
        """Tell whether DifferentHostFilter keeps the host."""
        return not set(self.request.hints.get("different_host", ())) & set(model.groups)

    def is_together(self, model: ModelHost) -> bool:
        """Tell whether SameHostFilter keeps the host."""
        asked = set(self.request.hints.get("same_host", ()))
        return not asked or bool(asked & set(model.groups))

    def is_untried(self, model: ModelHost) -> bool:
        """Tell whether RetryFilter keeps the host."""
        return model.key not in self.request.retried

    def is_apart(self, model: ModelHost, uuid: str) -> bool:
        """Tell whether ServerGroupAntiAffinityFilter keeps the host."""
        if self.group is None or self.group.policy != "anti-affinity" or uuid in model.groups:
            return True
        return self.count(model) < self.group.max_server_per_host

    def is_with_group(self, model: ModelHost) -> bool:
        """Tell whether ServerGroupAffinityFilter keeps the host."""
        if self.group is None or self.group.policy != "affinity":
            return True
        return not any(self.count(other) for other in self.hosts) or self.count(model) > 0

    # ---- weighing (2.4, 2.7) --------------------------------------------------------------------

    def count(self, model: ModelHost) -> int:
        """Return the number of members of the request's group on a host."""
        return sum(1 for group in model.groups.values() if self.group and group == self.group.uuid)

    def members(
        self, passed: list[ModelHost], policy: str, sign: int
    ) -> dict[tuple[str, str], float]:
        """Return the raw values of a soft group weigher."""
        applies = self.group is not None and self.group.policy == policy
        return {m.key: sign * self.count(m) if applies else 0 for m in passed}

    def nearness(self, model: ModelHost) -> int:
        """Return CrossCellWeigher's raw value."""
        if not self.request.source_cell:
            return 0
        return 1 if model.host.cell == self.request.source_cell else -1

    def likeness(self, model: ModelHost) -> int:
        """Return ImagePropertiesWeigher's raw value, with equal weights for all properties."""
        asked = properties_of(self.request.image)
        return sum(len(asked.items() & image.items()) for image in model.images.values())

    def measure(self, model: ModelHost) -> float:
        """Return MetricsWeigher's raw value, with a ratio of 0.5 for each metric."""
        metrics = model.host.metrics
        if not {"cpu.percent", "temperature"} <= metrics.keys():
            return -10_000
        return (metrics["cpu.percent"] + metrics["temperature"]) / 2


def properties_of(image: Image | None) -> dict[str, str]:
    """Return the properties of an image, an empty dict without an image."""
    return dict(image.properties) if image else {}


def total_of(model: ModelHost, name: str) -> int:
    """Return the physical total of a class, 0 without an inventory."""
    inventory = model.inventories.get(name)
    return inventory.total if inventory else 0


def scaled(raw: dict[tuple[str, str], float], floor: float | None) -> dict[tuple[str, str], float]:
    """Return the values normalised by Nova's rule."""
    if not raw:
        return {}
    clamped = {key: value if floor is None else max(value, floor) for key, value in raw.items()}
    low = min(clamped.values()) if floor is None else floor
    high = max(clamped.values())
    if high == low:
        return dict.fromkeys(raw, 0.0)
    return {key: (value - low) / (high - low) for key, value in clamped.items()}


def version_fits(version: int, predicate: str) -> bool:
    """Tell whether a version such as 6002000 meets ">=6.0,<7"; a host without a version passes."""
    if not version:
        return True
    have = (version // 1_000_000, version // 1000 % 1000, version % 1000)
    for part in predicate.split(","):
        sign = part.rstrip("0123456789. ")
        numbers = [int(number) for number in part[len(sign) :].split(".")]
        want = tuple([*numbers, 0, 0][:3])
        compare = {">=": operator.ge, "<": operator.lt, "<=": operator.le, ">": operator.gt}
        if not compare[sign.strip()](have, want):
            return False
    return True
