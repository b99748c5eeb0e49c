"""Random refusals over every filter, and the changes that the texts of relaxations name."""

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Self, TypeGuard

import numpy as np
from hypothesis import reject

from berth.config.plugins import FILTERS, build_plugin
from berth.domain.compute.decision import Refusal, Relaxation
from berth.domain.compute.flavor import Image
from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.domain.hardware.cpu_sets import parse_cpus
from berth.scheduling.drivers import filter_scheduler
from berth.scheduling.engine.keys import parts_of, paths_of
from berth.scheduling.evaluation.filter_chain import FilterChain
from berth.scheduling.evaluation.policy import Plan
from berth.scheduling.plan.group_policies import plan_with_group_policy
from berth.scheduling.rules.reduction import reduce_hosts
from berth.scheduling.rules.rule import Filter, Query
from berth.tables.columnar.bitsets import Mask
from berth.tables.host.feed import table_of
from berth.testing.fleets import NOW_S
from tests.property.engine_world import filters_of
from tests.property.test_capacity import World

ALIASES = "pci_passthrough:alias"
CPU_KEYS = (
    "hw:cpu_policy",
    "hw:cpu_thread_policy",
    "hw:emulator_threads_policy",
    "hw:cpu_dedicated_mask",
    "hw:cpu_realtime",
    "hw:cpu_realtime_mask",
)
QUERIES = (
    ["and", [">=", "$free_ram_mb", 8000], ["<", "$num_instances", 1]],
    ["=", "$hypervisor_type", "xen"],
    ["<", "$vcpus_total", 9],
)
"""Queries for JsonFilter."""

HINTED = ("JsonFilter", "SameHostFilter", "DifferentHostFilter", "RetryFilter")
OF_IMAGES = ("ImagePropertiesFilter", "ImageMetadataFilter", "ImageTypeSupportFilter")
PROPERTIES = {
    "hw_architecture": "aarch64",
    "img_hv_type": "xen",
    "disk_format": "raw",
    "hw_disk_bus": "virtio",
    "trait:CUSTOM_FAST": "required",
}
SPECS = {
    "trait:CUSTOM_SSD": "required",
    "trait:CUSTOM_FAST": "forbidden",
    "berth:any_trait": "CUSTOM_A|CUSTOM_B",
    "capabilities:x": "1",
    "hw:virtio_packed_ring": "yes",
    "resources:MEMORY_MB": "100000",
    "resources:CUSTOM_GPU": "5",
    "hw:cpu_policy": "dedicated",
}


class RelaxationWorld(World):
    """A world whose decisions list all hosts that pass.

    With `enriched`, its request often has hints, failed builds, names of hosts, image properties
    and extra specs in addition, and the policy the filters that read them.
    """

    def __init__(self, seed: int, *, enriched: bool = False) -> None:
        super().__init__(seed)
        self._verdicts: dict[object, int] = {}
        self._readers = dict[str, Callable[[Query], object]]()
        if enriched:
            self._enrich(Random(seed + 1))
        driver = filter_scheduler.build(incremental=False)
        self.policy = replace(self.policy, driver=driver, runners_up=1_000)

    def _enrich(self, draw: Random) -> None:
        request, flavor = self.request, self.request.flavor
        names: list[str] = []
        hints: dict[str, tuple[str, ...]] = {}
        if draw.random() < 0.3:
            hints["query"] = (json.dumps(draw.choice(QUERIES)),)
        if draw.random() < 0.3:
            hints[draw.choice(("same_host", "different_host"))] = ("old-0",)
        if draw.random() < 0.4:
            names += HINTED
        if draw.random() < 0.3:
            image = request.image or Image("i")
            few = draw.sample(sorted(PROPERTIES), draw.randint(1, 2))
            image = replace(
                image, properties={**image.properties, **{key: PROPERTIES[key] for key in few}}
            )
            request = replace(request, image=image)
            names += OF_IMAGES
        specs = {key: SPECS[key] for key in SPECS if draw.random() < 0.1}
        flavor = replace(flavor, extra_specs={**flavor.extra_specs, **specs})
        if draw.random() < 0.1:
            flavor = replace(flavor, memory_mb=draw.choice((7000, 20_000)))
        box = draw.choice(self.boxes)
        retried = ((box.name, box.node or box.name),) if draw.random() < 0.2 else ()
        ignored = (draw.choice(self.boxes).name,) if draw.random() < 0.1 else ()
        self.request = replace(
            request, flavor=flavor, hints=hints, retried=retried, ignore_hosts=ignored
        )
        present = {rule.name for rule in self.policy.filters}
        added = filters_of([name for name in names if name not in present], draw)
        self.policy = replace(self.policy, filters=(*self.policy.filters, *added))

    def changed(self, **changes: object) -> Self:
        """Return a copy of the world with other attributes and without known verdicts."""
        copy = object.__new__(type(self))
        copy.__dict__ = {**self.__dict__, **changes, "_verdicts": {}, "_readers": {}}
        return copy

    def decide(self, request: Request) -> Plan | None:
        """Return the plan of a request, or None if the request is invalid."""
        try:
            return plan_with_group_policy(self.hosts, request, self.policy, now_s=NOW_S, seed=1)
        except InvalidInputError:
            return None

    def passing(self, request: Request) -> frozenset[str] | None:
        """Return the hosts on which a plan places the request; None if the request is invalid."""
        plan = self.decide(request)
        if plan is None:
            return None
        if plan.refusal is not None:
            return frozenset()
        (first,) = plan.placements
        return frozenset(one.host for one in (first.chosen, *first.runners_up))

    def fits(self, request: Request) -> bool:
        """Return whether a request is valid and passes all filters on a host.

        A filter's verdicts are known for requests that are equal in all that it reads.
        """
        try:
            group = self.hosts.server_groups.get(request.group_uuid or "")
            query = Query(request, request.needs, NOW_S, group, request.instance_uuids[0])
            reduction = reduce_hosts(self.hosts, request)
            chain = FilterChain(self.hosts, self.policy.filters, reduction)
            left = _bits(reduction.mask)
            for rule in (*chain.filters, *chain.group_rules):
                left &= self._verdict(rule, query) if left else 0
        except InvalidInputError:
            return False
        return left > 0

    def _verdict(self, rule: Filter, query: Query) -> int:
        if rule.name not in self._readers:
            parts = parts_of(paths_of([rule]))
            self._readers[rule.name] = lambda query: tuple(
                [read(self.hosts, query) for read in parts]
            )
        key = rule.name, self._readers[rule.name](query)
        if key not in self._verdicts:
            mask = rule.keep(self.hosts, query, self.hosts.all_rows)
            everyone = (1 << len(self.hosts)) - 1
            self._verdicts[key] = everyone if mask is None else _bits(mask)
        return self._verdicts[key]


def _bits(mask: Mask) -> int:
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def refusal_in(world: RelaxationWorld) -> Refusal:
    """Return the refusal of the world's request; discard the example if it is not refused."""
    plan = world.decide(world.request)
    if plan is None or plan.refusal is None:
        reject()
    assert plan.failures == ()
    return plan.refusal


# ---- changes to the request ---------------------------------------------------------------------


def without(request: Request, *keys: str) -> Request:
    """Return the request without these extra specs and the image properties of the same names."""
    gone = {*keys, *(key.replace("hw:", "hw_") for key in keys)}
    flavor, image = request.flavor, request.image
    specs = {key: text for key, text in flavor.extra_specs.items() if key not in gone}
    if image is not None:
        properties = {key: text for key, text in image.properties.items() if key not in gone}
        image = replace(image, properties=properties)
    return replace(request, flavor=replace(flavor, extra_specs=specs), image=image)


def with_spec(request: Request, key: str, value: str) -> Request:
    """Return the request with an extra spec, and without the image property of the same name."""
    request = without(request, key)
    specs = {**request.flavor.extra_specs, key: value}
    return replace(request, flavor=replace(request.flavor, extra_specs=specs))


def without_nodes(request: Request) -> Request:
    """Return the request without NUMA cells and the lists of their CPUs and memory."""
    lists = [
        key for key in request.flavor.extra_specs if key.startswith(("hw:numa_cpus", "hw:numa_mem"))
    ]
    return without(request, "hw:numa_nodes", *lists)


def with_devices(request: Request, alias: str, less: int | None) -> Request:
    """Return the request with fewer devices of an alias, or without them."""
    parts = [part.split(":") for part in request.flavor.extra_specs[ALIASES].split(",")]
    left = [(name, int(n) - (less or int(n)) * (name == alias)) for name, n in parts]
    text = ",".join(f"{name}:{n}" for name, n in left if n > 0)
    return with_spec(request, ALIASES, text) if text else without(request, ALIASES)


def resized(request: Request, **more: int) -> Request:
    """Return the request with larger sizes, or smaller ones for amounts below 0."""
    sizes = {size: getattr(request.flavor, size) + amount for size, amount in more.items()}
    return replace(request, flavor=replace(request.flavor, **sizes))


def with_less_disk(request: Request, less_gb: int) -> Request:
    """Return the request with smaller disks: the root disk first, then ephemeral, then swap."""
    sizes = request.flavor.root_gb, request.flavor.ephemeral_gb, -(-request.flavor.swap_mb // 1024)
    of_root = min(sizes[0], less_gb)
    of_ephemeral = min(sizes[1], less_gb - of_root)
    of_swap_mb = min(request.flavor.swap_mb, 1024 * (less_gb - of_root - of_ephemeral))
    return resized(request, root_gb=-of_root, ephemeral_gb=-of_ephemeral, swap_mb=-of_swap_mb)


def with_less(request: Request, key: str, less: int) -> Request:
    """Return the request with a smaller number as an extra spec."""
    return with_spec(request, key, str(int(request.flavor.extra_specs[key]) - less))


def amount(text: str, more: str = "more") -> int:
    """Return a number such as 1,024, negated for "less"."""
    return int(text.replace(",", "")) * (1 if more == "more" else -1)


def suffixes(text: str) -> list[str]:
    """Return the suffixes of groups such as "1, 2"."""
    return text.split(", ")


def without_groups(request: Request, gone: list[str]) -> Request:
    """Return the request without groups of resources, and without a policy for no groups."""
    of_them = {f"{noun}{one}" for one in gone for noun in ("resources", "trait")}
    request = without(
        request, *(key for key in request.flavor.extra_specs if key.split(":")[0] in of_them)
    )
    is_none = not any(re.match(r"resources[^:]", key) for key in request.flavor.extra_specs)
    return without(request, "group_policy") if is_none else request


def with_smaller_groups(request: Request, less: str, name: str, groups: str) -> Request:
    """Return the request with a smaller amount in some groups."""
    for one in suffixes(groups):
        request = with_less(request, f"resources{one}:{name}", amount(less))
    return request


def with_fewer_listed_cpus(request: Request, less: str) -> Request:
    """Return the request without the last CPUs in the list of each NUMA cell."""
    specs = request.flavor.extra_specs
    lists = {
        key: sorted(parse_cpus(text, key)) for key, text in specs.items() if "numa_cpus" in key
    }
    lists = {key: cpus[: max(len(cpus) - amount(less), 0)] for key, cpus in lists.items()}
    order = sorted(cpu for cpus in lists.values() for cpu in cpus)
    for key, cpus in lists.items():
        request = with_spec(request, key, ",".join(str(order.index(cpu)) for cpu in cpus))
    return resized(request, vcpus=len(order) - request.flavor.vcpus)


def with_listed_memory(request: Request, number: str, more: str) -> Request:
    """Return the request with more or less memory in each NUMA cell."""
    specs = request.flavor.extra_specs
    lists = {
        key: max(int(text) + amount(number, more), 0)
        for key, text in specs.items()
        if "numa_mem" in key
    }
    for key, memory_mb in lists.items():
        request = with_spec(request, key, str(memory_mb))
    return resized(request, memory_mb=sum(lists.values()) - request.flavor.memory_mb)


def without_properties(request: Request, text: str) -> Request:
    """Return the request without extra specs and image properties such as `a=1 and b=2`."""
    return without(request, *(part.partition("=")[0] for part in text.split(" and ")))


def without_architecture(request: Request) -> Request:
    """Return the request without the architecture, hypervisor type and mode of its image."""
    return without(request, "hw_architecture", "img_hv_type", "hw_vm_mode")


def without_hint(request: Request, hint: str) -> Request:
    """Return the request without a scheduler hint."""
    return replace(request, hints={k: v for k, v in request.hints.items() if k != hint})


def with_value(request: Request, key: str, value: str) -> Request:
    """Return the request with another value of an extra spec."""
    return with_spec(without_nodes(request) if key == "hw:numa_nodes" else request, key, value)


def without_part(request: Request, text: str) -> Request:
    """Return the request with a query that lacks one part, or without the query."""
    document = json.loads(request.hints["query"][0])
    rest = [one for one in document[1:] if json.dumps(one) != text]
    if document[0] != "and" or len(rest) == len(document) - 1:
        return without_hint(request, "query")
    return replace(request, hints={**request.hints, "query": (json.dumps(["and", *rest]),)})


def without_names(request: Request, text: str) -> Request:
    """Return the request without the restrictions to named hosts that the text lists."""
    if "ignored" in text:
        request = replace(request, ignore_hosts=())
    return replace(request, force_hosts=()) if "forced" in text else request


Follow = Callable[..., Request]
OF_REQUESTS: Mapping[str, Follow] = {
    r"([\d,]+) VCPU (less|more)": lambda r, n, more: resized(r, vcpus=amount(n, more)),
    r"([\d,]+) MB (less|more) memory": lambda r, n, more: resized(r, memory_mb=amount(n, more)),
    r"([\d,]+) GB more disk": lambda r, n: resized(r, root_gb=amount(n)),
    r"([\d,]+) GB less disk": lambda r, n: with_less_disk(r, amount(n)),
    r"([\d,]+) VCPU (less|more) in the flavor and (resources:PCPU)": lambda r, n, more, key: (
        resized(with_less(r, key, -amount(n, more)), vcpus=amount(n, more))
    ),
    r"([\d,]+) VCPU less in each hw:numa_cpus.N and as many in the flavor": with_fewer_listed_cpus,
    r"([\d,]+) MB (less|more) memory in each hw:numa_mem.N and as much in the flavor": (
        with_listed_memory
    ),
    r"([\d,]+) less in the extra spec (\S+)": lambda r, n, key: with_less(r, key, amount(n)),
    r"([\d,]+) (CUSTOM_\S+) less": lambda r, n, name: with_less(r, f"resources:{name}", amount(n)),
    r"([\d,]+) less (\S+) in groups? (.*)": with_smaller_groups,
    r"([\d,]+) fewer devices? of (\S+)": lambda r, n, alias: with_devices(r, alias, amount(n)),
    r"(\d+) fewer of groups (.*)": lambda r, n, groups: without_groups(
        r, suffixes(groups)[-int(n) :]
    ),
    r"without groups? (.*)": lambda r, groups: without_groups(r, suffixes(groups)),
    r"without (?:the ban on )?trait (\S+) in groups? (.*)": lambda r, name, groups: without(
        r, *(f"trait{one}:{name}" for one in suffixes(groups))
    ),
    r"group_policy none": lambda r: with_spec(r, "group_policy", "none"),
    r"(hw:\w+)=(\S+) instead of \S+": with_value,
    r"with devices anywhere on the host": lambda r: with_spec(
        r, "hw:pci_numa_affinity_policy", "preferred"
    ),
    r"without the devices of (\S+)": lambda r, alias: with_devices(r, alias, None),
    r"without (?:the ban on )?trait (\S+)": lambda r, name: without(r, f"trait:{name}"),
    r"without one of the traits .*": lambda r: without(r, "berth:any_trait"),
    r"without the hint (\S+)": without_hint,
    r"without the extra spec hw:numa_nodes": without_nodes,
    r"without the extra spec (resources:PCPU)": lambda r, key: without(r, key, *CPU_KEYS),
    r"without the (?:extra spec|image property) (\S+)": without,
    r"without the availability zone .*": lambda r: replace(r, availability_zone=None),
    r"without the (?:anti-)?affinity of group .*": lambda r: replace(r, group_uuid=None),
    r"without the CPU policy \S+": lambda r: without(r, *CPU_KEYS),
    r"without the thread policy \S+": lambda r: without(r, "hw:cpu_thread_policy"),
    r"without a page size": lambda r: without(r, "hw:mem_page_size"),
    r"without isolated emulator threads": lambda r: without(r, "hw:emulator_threads_policy"),
    r"without the image's architecture and mode": without_architecture,
    r"without the exclusion of hosts where a build failed": lambda r: replace(r, retried=()),
    r"without the ((?:ignored|forced) hosts(?: and forced hosts)?)": without_names,
    r"without (.*) in the query": without_part,
    r"without disk": lambda r: with_less_disk(r, sys.maxsize),
    r"without (CUSTOM_\S+)": lambda r, name: without(r, f"resources:{name}"),
    r"without (\w[\w:]*=.*)": without_properties,
}

# ---- changes to hosts and policy ----------------------------------------------------------------


def raised(world: RelaxationWorld, relaxation: Relaxation, key: str, more: str) -> RelaxationWorld:
    """Return the world with a higher limit, in the policy and in the metadata of aggregates."""

    def is_filter(built: object) -> TypeGuard[Filter]:
        return isinstance(built, Filter)

    def raised_in(rule: Filter) -> Filter:
        options = {**rule.options, key: int(str(rule.options[key])) + amount(more)}
        return build_plugin(FILTERS, rule.name, options, is_filter, where="")

    filters = [
        raised_in(rule) if rule.name == relaxation.filter else rule for rule in world.policy.filters
    ]
    aggregates = [
        replace(one, metadata={**one.metadata, key: _plus(one.metadata[key], amount(more))})
        if key in one.metadata
        else one
        for one in world.snapshot.aggregates
    ]
    snapshot = replace(world.snapshot, aggregates=tuple(aggregates))
    policy = replace(world.policy, filters=tuple(filters))
    return world.changed(snapshot=snapshot, hosts=table_of(snapshot), policy=policy)


def _plus(text: str, more: int) -> str:
    try:
        return str(float(text) + more)
    except ValueError:
        return text


def repaired(world: RelaxationWorld, relaxation: Relaxation, state: str) -> RelaxationWorld:
    """Return the world in which the services of the example hosts are enabled or up, or both."""
    services = [
        replace(
            one,
            disabled=one.disabled and "enabled" not in state,
            forced_down=one.forced_down and "up" not in state,
            last_seen_s=NOW_S if "up" in state else one.last_seen_s,
        )
        if one.host in relaxation.examples
        else one
        for one in world.snapshot.services
    ]
    snapshot = replace(world.snapshot, services=tuple(services))
    return world.changed(snapshot=snapshot, hosts=table_of(snapshot))


def without_filter(world: RelaxationWorld, relaxation: Relaxation) -> RelaxationWorld:
    """Return the world without the filter that proposes the relaxation."""
    filters = [rule for rule in world.policy.filters if rule.name != relaxation.filter]
    return world.changed(policy=replace(world.policy, filters=tuple(filters)))


OF_HOSTS: Mapping[str, Callable[..., RelaxationWorld]] = {
    r"(max_\w+) raised by ([\d,]+)": raised,
    r"(?:[\d,]+ )?more compute services? (.*)": repaired,
    r"a flavor that hosts are reserved for": without_filter,
    r"without keeping flavors apart": without_filter,
    r"without isolating the (?:image|hosts)": without_filter,
    r"without the metrics .*": without_filter,
    r"without the reservation .*": without_filter,
    r"without the limit of project \S+ to its aggregates": without_filter,
}


def followed(world: RelaxationWorld, relaxation: Relaxation) -> RelaxationWorld:
    """Return the world after a change; its request may be invalid."""
    for pattern, of_hosts in OF_HOSTS.items():
        if found := re.fullmatch(pattern, relaxation.what):
            return of_hosts(world, relaxation, *found.groups())
    return world.changed(request=followed_in(world.request, relaxation.what))


def followed_in(request: Request, what: str) -> Request:
    """Return the request after the change that a text names."""
    for pattern, follow in OF_REQUESTS.items():
        if found := re.fullmatch(pattern, what):
            return follow(request, *found.groups())
    raise AssertionError(f"nothing follows {what}")
