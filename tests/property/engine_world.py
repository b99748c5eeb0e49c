"""A small cloud that changes at random, for comparing the engine with a full evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TypeGuard

from berth.config.plugins import FILTERS, WEIGHERS, build_plugin
from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.request import Destination, Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import AMOUNT_MAX, MEMORY_MB, VCPU
from berth.domain.ledger.change import Event
from berth.scheduling.drivers import filter_scheduler
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.rules.rule import Filter, Normalisation, Weigher, attributes_of, resident_of
from berth.tables.host.feed import apply_event, table_of
from berth.tables.host.holding import hold, release_hold, set_attributes
from berth.testing.fleets import GPU_MILLI, NOW_S, ZONES, Box, child_uuid, snapshot_of
from berth.testing.hardware_fleets import ALIASES
from tests.property.engine_parts import METRICS, lean_box, random_box, random_request

SIZES = (1, 2, 3, 7, 40, 63, 64, 65, 130, 300)
MULTIPLIERS = (1.0, 1.0, 1.0, -1.0, 0.5, 3.0, -100.0, 0.0)
ENDS = (None, 0.0, 0.0, -3.5, 2.0, 1e4)
"""Fixed floors and ceilings that a weigher's scale may have in place of its own ends."""

KEYS = (
    "max_io_ops_per_host",
    "max_instances_per_host",
    "cpu_allocation_ratio",
    "filter_tenant_id",
    "instance_type",
    "kind",
)
NUMBERS = ("1", "0.5", "-2", "x", "0", "0", "1e300", "p1")
OPTIONS: Mapping[str, tuple[Mapping[str, object], ...]] = {
    "BuildFailureWeigher": ({}, {"by_tenant": True}, {"decay_s": 90.0}),
    "MetricsWeigher": ({"weight_setting": dict.fromkeys(METRICS, 0.5)},),
    "SimilarInstancesFilter": (
        {},
        {"attribute": "user", "max_similar_instances_per_host": 3},
        {"attribute": "flavor", "max_similar_instances_per_host": 2},
        {"attribute": "metadata.tier", "max_similar_instances_per_host": 2},
    ),
    "SimilarInstancesWeigher": (
        {},
        {"attribute": "image", "scale": 3.0},
        {"attribute": "metadata.tier"},
    ),
    "MetricsFilter": ({"weight_setting": {METRICS[0]: 1.0}},),
    "NUMATopologyFilter": ({"pci_aliases": ALIASES},),
    "PciPassthroughFilter": ({"pci_aliases": ALIASES},),
    "IsolatedHostsFilter": ({}, {"isolated_images": ("i",), "isolated_hosts": ("h001",)}),
}


def filters_of(names: Sequence[str], draw: Random) -> tuple[Filter, ...]:
    """Build installed filters by name, with default options or some of `OPTIONS`."""

    def is_filter(built: object) -> TypeGuard[Filter]:
        return isinstance(built, Filter)

    return tuple(
        build_plugin(FILTERS, name, _options(name, draw), is_filter, where=name) for name in names
    )


def weighers_of(names: Sequence[str], draw: Random) -> tuple[Weigher, ...]:
    """Build installed weighers by name, with default options or some of `OPTIONS`."""

    def is_weigher(built: object) -> TypeGuard[Weigher]:
        return isinstance(built, Weigher)

    return tuple(
        build_plugin(WEIGHERS, name, _options(name, draw), is_weigher, where=name) for name in names
    )


def _options(name: str, draw: Random) -> Mapping[str, object]:
    return draw.choice(OPTIONS.get(name, ({},)))


class World:
    """A host table, a pool of requests, and a policy in two forms: with the engine and without."""

    def __init__(self, seed: int, filters: Sequence[str], weighers: Sequence[str]) -> None:
        self.random = Random(seed)
        size = self.random.choice(SIZES)
        self.groups = [
            ServerGroup(
                f"g-{policy}", policy, policy, max_server_per_host=self.random.randint(1, 2)
            )
            for policy in GroupPolicy
        ]
        self.lean = self.random.random() < 0.1
        self.hardware = self.random.random() < 0.25
        self.boxes = [self._box(f"h{number:03}") for number in range(size)]
        for box in self.boxes[: size // 4]:
            self.boxes.append(self._box(box.name, f"{box.name}-second"))
        self.random.shuffle(self.boxes)
        self.hosts = table_of(snapshot_of(self.boxes, groups=self.groups))
        self.now_s = NOW_S
        self.fast, self.slow = self._policies(filters, weighers)
        self.pool = [self._request(number) for number in range(4)]
        self.claims: list[tuple[int, Request, str, Plan]] = []
        self.asked = 0

    def _policies(self, filters: Sequence[str], weighers: Sequence[str]) -> tuple[Policy, Policy]:
        draw = self.random
        weighing = [
            replace(one, multiplier=draw.choice(MULTIPLIERS)) for one in weighers_of(weighers, draw)
        ]
        if draw.random() < 0.3:
            weighing = [
                replace(one, floor=draw.choice(ENDS), ceiling=draw.choice(ENDS)) for one in weighing
            ]
        self.keys = (*KEYS, *(one.multiplier_key for one in weighing if one.multiplier_key))
        can_share = all(one.share is not None for one in weighing)
        policy = Policy(
            name="world",
            hash="0",
            driver=filter_scheduler.build(incremental=True),
            filters=filters_of(["ResourcesFilter", *filters], draw),
            weighers=tuple(weighing),
            host_subset_size=self.random.choice((1, 1, 1, 3)),
            shuffle_best_same_weighed_hosts=self.random.random() < 0.2,
            normalisation=self.random.choice(
                (Normalisation.NOVA, Normalisation.NOVA, Normalisation.SHARE)
                if can_share
                else (Normalisation.NOVA,)
            ),
            runners_up=self.random.choice((0, 3, 3, 10)),
            alternates=self.random.choice((0, 1, 2, 2, 5)),
        )
        return policy, replace(policy, driver=filter_scheduler.build(incremental=False))

    def _box(self, name: str, node: str = "") -> Box:
        box = random_box(self.random, name, node, hardware=self.hardware)
        return lean_box(box) if self.lean else box

    def _request(self, number: int) -> Request:
        groups = [one.uuid for one in self.groups]
        return random_request(self.random, number, groups, hardware=self.hardware)

    # ---- what happens ---------------------------------------------------------------------

    def step(self) -> None:
        """Make one random change or decision."""
        happenings = (
            *[self.decide] * 6,
            *[self.release] * 2,
            self.report,
            self.use,
            self.serve,
            self.beat,
            self.gather,
            self.pass_time,
            self.come_or_go,
            self.turn,
            self.label,
        )
        self.random.choice(happenings)()

    def decide(self) -> None:
        """Check that the engine's plan equals that of a full evaluation, and often claim it."""
        draw = self.random
        self.asked += 1
        count = draw.choice((1, 1, 1, 1, 2, 5, 12))
        uuids = tuple(f"vm-{self.asked}-{number}" for number in range(count))
        request = replace(draw.choice(self.pool), instance_uuids=uuids)
        if draw.random() < 0.15 and self.boxes:
            request = self._named(request)
        plans: list[Plan | str] = []
        for policy in (self.fast, self.slow):
            try:
                plan: Plan | str = policy.driver.plan(
                    self.hosts, request, policy, now_s=self.now_s, seed=self.asked
                )
            except InvalidInputError as error:
                plan = str(error)
            plans.append(plan)
        assert plans[0] == plans[1]
        if isinstance(plans[0], Plan) and draw.random() < 0.8:
            self._claim(request, plans[0])

    def _named(self, request: Request) -> Request:
        box = self.random.choice(self.boxes)
        running = tuple(request.instance_uuids[:1])
        if self.claims:
            running = (self.random.choice(self.claims)[2],)
        return self.random.choice(
            (
                replace(request, ignore_hosts=(box.name,)),
                replace(request, force_hosts=(box.name,)),
                replace(request, destination=Destination(box.name)),
                replace(request, retried=((box.name, box.host.node),)),
                self._rebuilt(request),
                replace(request, source_cell=self.random.choice(("", "c1", "c2"))),
                replace(request, hints={"different_host": running}),
                replace(request, hints={"same_host": running}),
                replace(request, instance_uuids=running),
            )
        )

    def _rebuilt(self, request: Request) -> Request:
        """Return the request as a retry of a failed build, with alternates."""
        pairs = [(box.name, box.host.node) for box in self.boxes]
        pairs = self.random.sample(pairs, min(len(pairs), 3))
        return replace(request, retried=tuple(pairs[:1]), alternates=tuple(pairs[1:]))

    def _claim(self, request: Request, plan: Plan) -> None:
        for placement in plan.placements:
            row = self.hosts.row_of(placement.provider_uuid)
            uuid = placement.instance_uuid
            if row is None or self.hosts.occupants.by_uuid.get(uuid) is not None:
                continue
            hold(self.hosts, row, plan.amounts, placement.assignment)
            resident = resident_of(request, uuid, placement.assignment)
            self.hosts.put_instance(placement.provider_uuid, resident, attributes_of(request))
            self.claims.append((row, request, uuid, plan))

    def release(self) -> None:
        """Release one claim, if there is one."""
        if not self.claims:
            return
        row, _, uuid, plan = self.claims.pop(self.random.randrange(len(self.claims)))
        (placement,) = [one for one in plan.placements if one.instance_uuid == uuid]
        if self.hosts.row_of(placement.provider_uuid) == row:
            release_hold(self.hosts, row, plan.amounts, placement.assignment)
        self.hosts.remove_instance(uuid)

    def report(self) -> None:
        """Have an agent report other inventories, traits or attributes."""
        self.lean = self.lean and self.random.random() < 0.5
        box = self._any()
        if box is not None:
            new = self._box(box.name, box.node)
            for provider in new.providers:
                apply_event(self.hosts, provider)
            if self.random.random() < 0.5:
                apply_event(self.hosts, new.host)

    def use(self) -> None:
        """Apply another usage of a host and its children, as the ledger would report it."""
        box = self._any()
        if box is not None:
            used = {VCPU: self.random.randint(0, 12), MEMORY_MB: self.random.randint(0, 9000)}
            if self.random.random() < 0.1:
                used = {VCPU: AMOUNT_MAX}
            self.hosts.put_used(box.host.uuid, used)
            for child in box.children:
                uuid = child_uuid(box.host.uuid, child.name)
                if self.random.random() < 0.1:
                    self.hosts.remove_provider(uuid)
                self.hosts.put_used(uuid, {GPU_MILLI: self.random.choice((0, 250, 1000))})

    def serve(self) -> None:
        """Have an operator enable, disable or force down a service."""
        box = self._any()
        if box is not None:
            service = self._box(box.name, box.node).service
            apply_event(self.hosts, replace(service, last_seen_s=self.now_s))

    def beat(self) -> None:
        """Have some agents send their heartbeats."""
        names = [box.name for box in self.boxes if self.random.random() < 0.5]
        self.hosts.put_seen(names, self.now_s)

    def gather(self) -> None:
        """Change or remove an aggregate."""
        number = self.random.randint(1, 4)
        if self.random.random() < 0.2:
            self.hosts.remove_aggregate(number)
            return
        metadata = {key: self.random.choice(NUMBERS) for key in self.keys}
        metadata = {k: v for k, v in metadata.items() if self.random.random() < 0.3}
        if self.random.random() < 0.4:
            metadata["availability_zone"] = self.random.choice(ZONES)
        members = frozenset(box.name for box in self.boxes if self.random.random() < 0.4)
        self.hosts.put_aggregate(Aggregate(number, f"a{number}", f"a{number}", members, metadata))

    def pass_time(self) -> None:
        """Move the clock forward, or sometimes back."""
        self.now_s += self.random.choice((0.5, 5.0, 29.0, 61.0, -3.0))

    def come_or_go(self) -> None:
        """Add or remove a host in about three of ten calls."""
        if self.random.random() < 0.7:
            return
        if self.random.random() < 0.5 and len(self.boxes) > 1:
            box = self.boxes.pop(self.random.randrange(len(self.boxes)))
            self.hosts.remove_host(box.host.uuid)
            return
        name = self.random.choice((f"n{self.random.randint(0, 999):03}", "h000", "h001"))
        box = self._box(name, self.random.choice(("", f"{name}-third")))
        if all(box.host.uuid != other.host.uuid for other in self.boxes):
            self.boxes.append(box)
            records: Sequence[Event] = (box.service, box.host, *box.providers)
            for record in records:
                apply_event(self.hosts, record)

    def label(self) -> None:
        """Have an owner change the metadata of an instance."""
        if self.claims:
            uuid = self.random.choice(self.claims)[2]
            known = self.hosts.occupants.attributes(uuid)
            tier = self.random.choice(("0", "1", "2"))
            set_attributes(self.hosts, uuid, replace(known, metadata={"tier": tier}))

    def turn(self) -> None:
        """Replace one request of the pool with a new random one."""
        self.pool[self.random.randrange(len(self.pool))] = self._request(len(self.pool))

    def _any(self) -> Box | None:
        return self.random.choice(self.boxes) if self.boxes else None
