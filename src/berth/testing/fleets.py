"""Handmade fleets for tests of decisions; `fleet_strategies` draws random ones.

A `Box` is a host with its providers and its compute service, and a snapshot consists of boxes. A
box with default values accepts a small request.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from berth.domain.compute.aggregate import AZ_KEY, Aggregate
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.host import Attestation, Host, Service
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import ServerGroup
from berth.domain.hardware.numa import NumaCell
from berth.domain.hardware.pci import PciPool
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.change import Snapshot
from berth.scheduling.drivers import chance, filter_scheduler
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.filters import (
    fits_resources,
    gives_groups,
    has_capabilities,
    has_traits,
    in_availability_zone,
    instance_hints,
    not_retried,
    server_groups,
    service_is_up,
    supports_image,
)
from berth.scheduling.rules.rule import Filter, Weigher
from berth.scheduling.weighers import (
    build_failures,
    free_devices,
    free_resources,
    host_load,
    host_metrics,
    hypervisor_version,
    image_properties,
    same_cell,
    soft_groups,
)

NOW_S = 1_000_000.0
"""The current time in every fleet, in Unix seconds."""

GPU = "CUSTOM_GPU"
GPU_MILLI = "CUSTOM_GPU_MILLI"
"""Resource class counted in thousandths of one GPU."""
CLASSES = (VCPU, MEMORY_MB, DISK_GB, GPU)
TRAITS = ("HW_CPU_X86_AVX", "CUSTOM_FAST", "CUSTOM_OLD")
ZONES = ("az1", "az2", "nova")

_ROOMY: Mapping[str, Inventory] = {
    VCPU: Inventory(8),
    MEMORY_MB: Inventory(8192),
    DISK_GB: Inventory(100),
}


@dataclass(frozen=True, slots=True)
class Child:
    """A child provider; `under` is the name of its parent, or empty if that is the root."""

    name: str
    inventories: Mapping[str, Inventory] = field(default_factory=dict[str, Inventory])
    used: Mapping[str, int] = field(default_factory=dict[str, int])
    traits: frozenset[str] = frozenset()
    under: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """One host with its provider and its compute service; `node` defaults to the name."""

    name: str
    node: str = ""
    inventories: Mapping[str, Inventory] = field(default_factory=lambda: _ROOMY)
    used: Mapping[str, int] = field(default_factory=dict[str, int])
    traits: frozenset[str] = frozenset()
    disabled: bool = False
    forced_down: bool = False
    silent_s: float = 0.0
    """Seconds since the last heartbeat."""
    hypervisor_type: str = "QEMU"
    hypervisor_version: int = 6_002_000
    cpu_info: Mapping[str, object] = field(default_factory=dict[str, object])
    supported_instances: tuple[tuple[str, str, str], ...] = (("x86_64", "kvm", "hvm"),)
    stats: Mapping[str, str] = field(default_factory=dict[str, str])
    cell: str = ""
    failed_builds: int = 0
    failure_level: float = 0.0
    failed_s: float = 0.0
    """Seconds since the latest failed build."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    numa_cells: tuple[NumaCell, ...] = ()
    pci_pools: tuple[PciPool, ...] = ()
    host_ip: str = ""
    attestation: Attestation | None = None
    children: tuple[Child, ...] = ()

    @property
    def host(self) -> Host:
        """The host record."""
        return Host(
            uuid=uuid_of(self.name, self.node),
            name=self.name,
            node=self.node or self.name,
            hypervisor_type=self.hypervisor_type,
            hypervisor_version=self.hypervisor_version,
            cpu_info=self.cpu_info,
            supported_instances=self.supported_instances,
            stats=self.stats,
            cell=self.cell,
            metrics=self.metrics,
            numa_cells=self.numa_cells,
            pci_pools=self.pci_pools,
            host_ip=self.host_ip,
        )

    @property
    def provider(self) -> Provider:
        """The host's root provider."""
        return Provider(
            uuid=uuid_of(self.name, self.node),
            name=self.name,
            inventories=self.inventories,
            used=self.used,
            traits=self.traits,
        )

    @property
    def providers(self) -> tuple[Provider, ...]:
        """The providers of the host's tree, the root first."""
        return self.provider, *children_of(self.provider.uuid, self.children)

    @property
    def service(self) -> Service:
        """The compute service of the host; all boxes with the same name share one service."""
        return Service(
            host=self.name,
            service_id=f"service-{self.name}",
            disabled=self.disabled,
            forced_down=self.forced_down,
            last_seen_s=NOW_S - self.silent_s,
            failed_builds=self.failed_builds,
            failure_level=self.failure_level,
            failed_at_s=NOW_S - self.failed_s if self.failed_builds else 0.0,
            attestations={} if self.attestation is None else {self.host.node: self.attestation},
        )


def uuid_of(name: str, node: str = "") -> str:
    """Return the uuid of the box with that name and node."""
    return f"{name}/{node or name}"


def sized(vcpus: int = 8, memory_mb: int = 8192, disk_gb: int = 100) -> dict[str, Inventory]:
    """Return inventories without reserved amounts and without overcommitment."""
    return {
        VCPU: Inventory(vcpus),
        MEMORY_MB: Inventory(memory_mb),
        DISK_GB: Inventory(disk_gb),
    }


def resident(
    uuid: str, box: Box, *, group_uuid: str | None = None, task: Task | None = None
) -> Instance:
    """Return an active instance on a box."""
    return Instance(
        uuid=uuid,
        name=uuid,
        project_id="p",
        user_id="u",
        request_id=f"req-{uuid}",
        reservation_id=f"r-{uuid}",
        flavor=Flavor("1", "small", 1, 512),
        status=Status.ACTIVE,
        task=task,
        host=box.name,
        node=box.node or box.name,
        group_uuid=group_uuid,
    )


def child_uuid(root_uuid: str, name: str) -> str:
    """Return the uuid of the child with the given name under the given root."""
    return f"{root_uuid}/{name}"


def children_of(root_uuid: str, children: Sequence[Child]) -> tuple[Provider, ...]:
    """Return the children of a root as providers."""
    return tuple(
        Provider(
            uuid=child_uuid(root_uuid, child.name),
            name=child.name,
            parent_uuid=child_uuid(root_uuid, child.under) if child.under else root_uuid,
            inventories=child.inventories,
            used=child.used,
            traits=child.traits,
        )
        for child in children
    )


def gpus(*free_milli: int, traits: frozenset[str] = frozenset()) -> tuple[Child, ...]:
    """Return GPUs named `GPU 0`, `GPU 1`, ...; each argument is the free thousandths of one."""
    return tuple(
        Child(
            f"GPU {number}",
            {GPU_MILLI: Inventory(1000)},
            {GPU_MILLI: 1000 - free} if free < 1000 else {},  # noqa: PLR2004 - one whole GPU
            traits,
        )
        for number, free in enumerate(free_milli)
    )


def snapshot_of(
    boxes: Sequence[Box],
    *,
    aggregates: Sequence[Aggregate] = (),
    groups: Sequence[ServerGroup] = (),
    instances: Sequence[Instance] = (),
) -> Snapshot:
    """Return the snapshot of a fleet; the first box of each name defines its service."""
    # The last of equal keys wins in a dict, so the boxes are reversed.
    services = {box.name: box.service for box in reversed(boxes)}
    return Snapshot(
        version=1,
        now_s=NOW_S,
        hosts=tuple(box.host for box in boxes),
        providers=tuple(provider for box in boxes for provider in box.providers),
        services=tuple(services.values()),
        aggregates=tuple(aggregates),
        server_groups=tuple(groups),
        instances=tuple(instances),
    )


def zone(name: str, *hosts: str, number: int = 1) -> Aggregate:
    """Return the aggregate that puts hosts in an availability zone."""
    return Aggregate(number, f"agg-{number}", name, frozenset(hosts), {AZ_KEY: name})


def asking(
    flavor: Flavor | None = None, *, count: int = 1, specs: Mapping[str, str] | None = None
) -> Request:
    """Return a request for `count` instances, small unless a flavor is given."""
    flavor = flavor or Flavor("1", "small", vcpus=1, memory_mb=1024, root_gb=10)
    if specs is not None:
        flavor = replace(flavor, extra_specs=specs)
    return Request("req-1", tuple(f"new-{number}" for number in range(count)), flavor)


def all_filters() -> tuple[Filter, ...]:
    """Return the filters of the default policy, except those for NUMA cells and PCI devices."""
    return (
        service_is_up.build(),
        in_availability_zone.build(),
        has_traits.build(),
        fits_resources.build(),
        gives_groups.build(),
        has_capabilities.build(),
        supports_image.build(),
        server_groups.build_anti_affinity(),
        server_groups.build_affinity(),
        instance_hints.build_different_host(),
        instance_hints.build_same_host(),
        not_retried.build(),
    )


METRICS: Sequence[str] = ("cpu.percent", "temperature")

_WEIGHERS: Sequence[Callable[[float], Weigher]] = (
    lambda multiplier: free_resources.build_ram(multiplier=multiplier),
    lambda multiplier: free_resources.build_cpu(multiplier=multiplier),
    lambda multiplier: free_resources.build_disk(multiplier=multiplier),
    lambda multiplier: soft_groups.build_affinity(multiplier=multiplier),
    lambda multiplier: soft_groups.build_anti_affinity(multiplier=multiplier),
    lambda multiplier: host_load.build_io_ops(multiplier=multiplier),
    lambda multiplier: host_load.build_num_instances(multiplier=multiplier),
    lambda multiplier: build_failures.build(multiplier=multiplier),
    lambda multiplier: hypervisor_version.build(multiplier=multiplier),
    lambda multiplier: same_cell.build(multiplier=multiplier),
    lambda multiplier: image_properties.build(multiplier=multiplier),
    lambda multiplier: host_metrics.build(
        multiplier=multiplier, weight_setting=dict.fromkeys(METRICS, 0.5)
    ),
    lambda multiplier: replace(free_devices.build(), multiplier=multiplier),
)
WEIGHERS = len(_WEIGHERS)
"""Number of weighers that `all_weighers` can build."""

_SPREADING = (1.0,) * 5


def all_weighers(multipliers: Sequence[float] = _SPREADING) -> tuple[Weigher, ...]:
    """Return one weigher for each multiplier, from the start of a fixed list of weighers."""
    return tuple(build(one) for build, one in zip(_WEIGHERS, multipliers, strict=False))


def policy_of(
    *,
    filters: Sequence[Filter] | None = None,
    weighers: Sequence[Weigher] | None = None,
    subset_size: int = 1,
    shuffle: bool = False,
    runners_up: int = 1_000,
) -> Policy:
    """Return a policy for the filter scheduler whose decisions list all other hosts by score."""
    # By default there is one best host and no shuffle, so decisions depend on the scores alone.
    return Policy(
        name="test",
        hash="0",
        driver=filter_scheduler.build(),
        filters=all_filters() if filters is None else tuple(filters),
        weighers=all_weighers() if weighers is None else tuple(weighers),
        host_subset_size=subset_size,
        shuffle_best_same_weighed_hosts=shuffle,
        runners_up=runners_up,
    )


def by_chance(policy: Policy) -> Policy:
    """Return the policy with the chance scheduler as its driver."""
    return replace(policy, driver=chance.build())
