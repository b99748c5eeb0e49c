"""Rules about hints, images, flavors and trust agree with plain models and explain removals."""

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address, ip_network
from random import Random

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from berth.config.plugins import FILTERS, build_plugin
from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.decision import Relaxation
from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.host import Attestation, Host
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Request
from berth.scheduling.rules.json_query import parse, satisfies
from berth.scheduling.rules.rule import Filter, Query
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S, Box, asking, resident, sized, snapshot_of
from tests.property.relaxation_worlds import followed_in

OPTIONS: Mapping[str, Mapping[str, object]] = {
    "AllHostsFilter": {},
    "InstanceTypeFilter": {},
    "TypeAffinityFilter": {},
    "IsolatedHostsFilter": {"isolated_images": ["i1"], "isolated_hosts": ["h0", "h2"]},
    "SimpleCIDRAffinityFilter": {},
    "JsonFilter": {},
    "MetricsFilter": {"weight_setting": {"x": 1.0, "y": -1.0}},
    "TrustedFilter": {},
    "TenantAggregateFilter": {},
    "AvailabilityZoneAggregateFilter": {},
    "IsolatedAggregatesFilter": {},
    "ComputeStatusFilter": {},
    "ImageTypeSupportFilter": {},
    "ImageMetadataFilter": {},
    "PackedVirtqueueFilter": {},
    "EphemeralEncryptionFilter": {},
    "VirtioSoundFilter": {},
}


def _is_filter(built: object) -> bool:
    return isinstance(built, Filter)


RULES: Sequence[Filter] = [
    build_plugin(FILTERS, name, options, _is_filter, where=name)  # type: ignore[arg-type]
    for name, options in OPTIONS.items()
]
ADDRESSES = ("10.0.0.1", "10.0.0.77", "10.0.1.1", "2001:db8::1", "2001:db8:1::1", "", "odd")
TRAITS = (
    "COMPUTE_STATUS_DISABLED",
    "COMPUTE_IMAGE_TYPE_RAW",
    "COMPUTE_STORAGE_BUS_VIRTIO",
    "COMPUTE_NET_VIRTIO_PACKED",
    "COMPUTE_EPHEMERAL_ENCRYPTION",
    "COMPUTE_EPHEMERAL_ENCRYPTION_LUKS",
    "COMPUTE_SOUND_MODEL_VIRTIO",
)
PROPERTIES = {
    "disk_format": "raw",
    "hw_disk_bus": "virtio",
    "hw_cdrom_bus": "virtio",
    "hw_virtio_packed_ring": "true",
    "hw_ephemeral_encryption": "true",
    "hw_ephemeral_encryption_format": "luks",
    "hw_sound_model": "virtio",
    "trait:CUSTOM_SSD": "required",
}
SPECS = {
    "hw:virtio_packed_ring": "yes",
    "hw:sound_model": "virtio",
    "trust:trusted_host": "trusted",
    "trait:CUSTOM_GPU": "required",
    "rack": "r1",
}
METADATA: Sequence[Mapping[str, str]] = (
    {},
    {"filter_tenant_id": "p1"},
    {"filter_tenant_id_2": "p1,p2"},
    {"availability_zone": "az1"},
    {"trait:CUSTOM_GPU": "required"},
    {"trait:CUSTOM_SSD": "required", "trait:CUSTOM_GPU": "required"},
)


class World:
    """A random fleet and a random request, with values that each rule reads."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.boxes = [self._box(f"h{number}") for number in range(self.random.randint(1, 6))]
        aggregates = [
            Aggregate(number, str(number), f"agg-{number}", self._some_hosts(), metadata)
            for number, metadata in enumerate(self.random.sample(METADATA, 3))
        ]
        instances = [self._instance(number) for number in range(self.random.randint(0, 5))]
        self.hosts = table_of(snapshot_of(self.boxes, aggregates=aggregates, instances=instances))
        self.request = self._request()

    @property
    def query(self) -> Query:
        """The query for the request's instance."""
        return Query(self.request, self.request.needs, NOW_S, None, "new-0")

    def _some(self, choices: Mapping[str, str], share: float) -> dict[str, str]:
        return {key: text for key, text in choices.items() if self.random.random() < share}

    def _some_hosts(self) -> frozenset[str]:
        return frozenset(box.name for box in self.boxes if self.random.random() < 0.5)

    def _box(self, name: str) -> Box:
        draw = self.random
        return Box(
            name,
            inventories=sized(draw.choice((2, 8)), draw.choice((512, 2048)), draw.choice((5, 50))),
            used=draw.choice(({}, {"MEMORY_MB": 256})),
            traits=frozenset(one for one in TRAITS if draw.random() < 0.6),
            stats=draw.choice(({}, {"rack": "r1"}, {"rack": "r2", "rank": "7"})),
            metrics=draw.choice(({}, {"x": 1.0}, {"x": 1.0, "y": 0.0})),
            host_ip=draw.choice(ADDRESSES),
            attestation=draw.choice((None, *self._attestations())),
        )

    def _attestations(self) -> Sequence[Attestation]:
        levels, ends_s = ("trusted", "trusted", "untrusted"), (NOW_S + 9, NOW_S - 9)
        return [Attestation(level, end_s) for level in levels for end_s in ends_s]

    def _instance(self, number: int) -> Instance:
        made = resident(f"old-{number}", self.random.choice(self.boxes))
        return replace(made, flavor=Flavor(self.random.choice("12"), "f", 1, 1))

    def _request(self) -> Request:
        draw = self.random
        flavor = Flavor(
            draw.choice("12"), "f", 1, draw.choice((1, 512, 1024)), root_gb=draw.choice((0, 10)),
            extra_specs=self._some(SPECS, 0.3),
        )  # fmt: skip
        hints: dict[str, tuple[str, ...]] = {}
        if draw.random() < 0.5:
            hints["build_near_host_ip"] = (draw.choice(ADDRESSES[:5]),)
        if draw.random() < 0.3:
            hints["cidr"] = (draw.choice(("/8", "/31")),)
        if draw.random() < 0.7:
            hints["query"] = (json.dumps(expression(draw, 3)),)
        image = Image(draw.choice(("i1", "i2")), properties=self._some(PROPERTIES, 0.4))
        return replace(
            asking(flavor),
            project_id=draw.choice(("p1", "p2", "p3")),
            availability_zone=draw.choice((None, "az1", "az2")),
            image=draw.choice((None, image, image)),
            hints=hints,
        )


TERMS = (
    "$free_ram_mb", "$vcpus_total", "$num_instances", "$hypervisor_type", "$stats.rack", "$rank",
    "$host", "$nothing", "$cpu_info.arch", 1792, 512, 8, 0, 1.5, "QEMU", "r1", "h1", True, None, "",
)  # fmt: skip


def expression(draw: Random, depth: int) -> list[object]:
    """Draw a query for JsonFilter."""

    def term() -> object:
        if depth and draw.random() < 0.4:
            return expression(draw, depth - 1)
        return draw.choice(TERMS)

    return [draw.choice((*COMPARES, "in", "not", "or", "and", "and")), *(
        term() for _ in range(draw.randint(0, 3))
    )]  # fmt: skip


WORLDS = st.integers(0, 2**32).map(World)


@given(world=WORLDS)
def test_a_verdict_is_that_of_the_row_alone(world: World) -> None:
    """A rule's verdict on a row does not depend on which rows are asked about together."""
    hosts, query = world.hosts, world.query
    rows = np.array(world.random.choices(range(len(hosts)), k=9))
    for rule in RULES:
        everyone = rule.keep(hosts, query, hosts.all_rows)
        some = rule.keep(hosts, query, rows)
        if everyone is None or some is None:
            assert everyone is some is None, rule.name
            continue
        event(
            f"{rule.name} keeps {'all' if everyone.all() else 'some' if everyone.any() else 'none'}"
        )
        np.testing.assert_array_equal(some, everyone[rows], err_msg=rule.name)


@given(world=WORLDS)
def test_what_a_rule_removes_it_explains(world: World) -> None:
    """Each removed host has a reason, and relaxations name only removed hosts."""
    hosts, query = world.hosts, world.query
    for rule in RULES:
        kept = rule.keep(hosts, query, hosts.all_rows)
        removed = np.flatnonzero(np.zeros(0) if kept is None else ~kept)
        assert all(len(rule.why(hosts, query, row)) > 10 for row in removed.tolist())
        names = set(hosts.names(removed))
        for relaxation in rule.relax(hosts, query, removed) if removed.size else ():
            assert relaxation.filter == rule.name
            assert set(relaxation.examples) <= names
            assert 0 < relaxation.hosts <= removed.size
            assert relaxation.text.startswith("without ") or relaxation.change


# ---- applying a relaxation --------------------------------------------------------------------


def without_specs(request: Request, *keys: str) -> Request:
    """Return the request without these extra specs and image properties."""
    specs = {key: text for key, text in request.flavor.extra_specs.items() if key not in keys}
    request = replace(request, flavor=replace(request.flavor, extra_specs=specs))
    if request.image is None:
        return request
    properties = {key: text for key, text in request.image.properties.items() if key not in keys}
    return replace(request, image=replace(request.image, properties=properties))


def without_part(request: Request, text: str) -> Request:
    """Return the request with a query that lacks one part, or with an empty query."""
    if text.startswith("without the hint query"):
        return replace(request, hints={})
    (query,) = request.hints["query"]
    part = json.loads(text.removeprefix("without ").rpartition(" in the query: ")[0])
    document = json.loads(query)
    rest = [one for one in document[1:] if parsed(one) != parsed(part)]
    kept = ["and", *rest] if len(rest) < len(document) - 1 else []
    return replace(request, hints={"query": (json.dumps(kept),)})


def parsed(document: object) -> object:
    """Return a query as the filter parses it; return any other value unchanged."""
    return parse(json.dumps(document)) if isinstance(document, list) else document


CHANGES: Mapping[str, Callable[[Request, Relaxation], Request]] = {
    "SimpleCIDRAffinityFilter": lambda request, one: replace(request, hints={}),
    "JsonFilter": lambda request, one: without_part(request, one.text),
    "TrustedFilter": lambda request, one: without_specs(request, one.subject),
    "InstanceTypeFilter": lambda request, one: followed_in(request, one.what),
    "AvailabilityZoneAggregateFilter": lambda request, one: replace(
        request, availability_zone=None
    ),
    **dict.fromkeys(
        ("ImageTypeSupportFilter", "ImageMetadataFilter", "VirtioSoundFilter"),
        lambda request, one: without_specs(
            request, *(source.partition("=")[0] for source in one.subject.split(" and "))
        ),
    ),
}


@given(world=WORLDS)
def test_each_relaxation_is_true(world: World) -> None:
    """After the change that a relaxation names, as many removed hosts pass as it counts."""
    hosts, query = world.hosts, world.query
    for rule in RULES:
        kept = rule.keep(hosts, query, hosts.all_rows)
        if rule.name not in CHANGES or kept is None or kept.all():
            continue
        removed = np.flatnonzero(~kept)
        for relaxation in rule.relax(hosts, query, removed):
            if "... in the query" in relaxation.text:
                continue  # too long to be shown
            event(relaxation.filter)
            request = CHANGES[rule.name](world.request, relaxation)
            changed = query._replace(request=request)
            passes = rule.keep(hosts, changed, removed)
            won = removed.size if passes is None else np.count_nonzero(passes)
            assert (rule.name, won) == (rule.name, relaxation.hosts), relaxation


# ---- models -----------------------------------------------------------------------------------

COMPARES: Mapping[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "<": operator.lt,  # type: ignore[dict-item]
    ">": operator.gt,  # type: ignore[dict-item]
    "<=": operator.le,  # type: ignore[dict-item]
    ">=": operator.ge,  # type: ignore[dict-item]
}


def holds(query: object, attributes: Mapping[str, object]) -> object:
    """Evaluate a query for one host, term by term, as nova-behaviour.md describes it."""
    if isinstance(query, str):
        return attributes.get(query) if query.startswith("$") else query or None
    if not isinstance(query, list):
        return query
    name, *rest = query
    values = [value for value in (holds(one, attributes) for one in rest) if value is not None]
    return JUNCTIONS[name](values) if name in JUNCTIONS else compares(name, values)


JUNCTIONS: Mapping[str, Callable[[list[object]], bool]] = {
    "and": all,
    "or": any,
    "not": lambda values: not all(values),
}


def compares(name: str, values: list[object]) -> bool:
    """Tell whether the first value compares with all others; False with fewer than two values."""
    if len(values) < 2:
        return False
    if name == "in":
        return values[0] in values[1:]
    try:
        return all(COMPARES[name](values[0], value) for value in values[1:])
    except TypeError:
        return False


@given(world=WORLDS, seed=st.integers(0, 2**32))
def test_a_query_holds_as_it_does_host_by_host(world: World, seed: int) -> None:
    """`satisfies` agrees with the model on each host, for any query."""
    hosts = world.hosts
    document = expression(Random(seed), 4)
    query = parse(json.dumps(document))
    assert query is not None
    found = satisfies(query, hosts, hosts.all_rows).tolist()
    for row, box in enumerate(world.boxes):
        attributes = {
            "$free_ram_mb": box.inventories["MEMORY_MB"].total - box.used.get("MEMORY_MB", 0),
            "$vcpus_total": box.inventories["VCPU"].total,
            "$num_instances": len(hosts.occupants.on_row(row)),
            "$hypervisor_type": box.hypervisor_type,
            "$stats.rack": box.stats.get("rack"),
            "$rank": box.stats.get("rank"),
            "$host": box.name,
        }
        assert found[row] == bool(holds(document, attributes)), (document, attributes)


def is_near(host: Host, request: Request) -> bool:
    """Tell whether SimpleCIDRAffinityFilter keeps the host."""
    hints = request.hints
    if "build_near_host_ip" not in hints:
        return True
    (near,) = hints["build_near_host_ip"]
    (cidr,) = hints.get("cidr", ("/64" if ":" in near else "/24",))
    try:
        return ip_address(host.host_ip) in ip_network(near + cidr, strict=False)
    except ValueError:
        return False


def is_isolated_alike(host: Host, request: Request) -> bool:
    """Tell whether IsolatedHostsFilter keeps the host."""
    image_id = request.image.image_id if request.image else None
    return (host.name in ("h0", "h2")) == (image_id == "i1")


def is_of_one_flavor(hosts: HostTable, row: int, request: Request) -> bool:
    """Tell whether TypeAffinityFilter keeps the host."""
    found = [hosts.occupants.by_uuid.get(uuid) for uuid in hosts.occupants.on_row(row)]
    return {one.resident.flavor_id for one in found if one} <= {request.flavor.flavor_id}


def is_trusted(box: Box, request: Request) -> bool:
    """Tell whether TrustedFilter keeps the host, for requests that ask for level "trusted"."""
    if "trust:trusted_host" not in request.flavor.extra_specs:
        return True
    one = box.attestation
    return one is not None and one.level == "trusted" and one.valid_until_s >= NOW_S


@given(world=WORLDS)
def test_rules_keep_what_plain_models_keep(world: World) -> None:
    """Five filters keep exactly the hosts that their models keep."""
    hosts, request = world.hosts, world.request
    models: Mapping[str, Callable[[int, Box], bool]] = {
        "SimpleCIDRAffinityFilter": lambda row, box: is_near(box.host, request),
        "IsolatedHostsFilter": lambda row, box: is_isolated_alike(box.host, request),
        "TypeAffinityFilter": lambda row, box: is_of_one_flavor(hosts, row, request),
        "TrustedFilter": lambda row, box: is_trusted(box, request),
        "MetricsFilter": lambda row, box: {"x", "y"} <= box.metrics.keys(),
    }
    rules = {rule.name: rule for rule in RULES}
    for name, model in models.items():
        kept = rules[name].keep(hosts, world.query, hosts.all_rows)
        expected = [model(row, box) for row, box in enumerate(world.boxes)]
        assert (name, all(expected) if kept is None else kept.tolist()) == (
            name,
            True if kept is None else expected,
        )
