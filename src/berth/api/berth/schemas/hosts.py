"""Hosts, as Berth's own API writes them."""

from collections.abc import Mapping
from typing import Annotated

from berth.api.codec import Meta, Model, View
from berth.api.values import Limit
from berth.domain.inventory.resources import RATIO_MAX

ClassName = Annotated[str, Meta(min_length=1, max_length=255)]


class RatiosBody(Model):
    """Allocation ratios by resource class; 0 unsets one, and those that are left out stay."""

    ratios: Annotated[
        dict[ClassName, Annotated[float, Meta(ge=0, le=RATIO_MAX)]], Meta(min_length=1)
    ]


class WrittenOffMove(View):
    """A move that has left something on the host, and what it holds there by class."""

    uuid: str
    id: int
    instance_uuid: str
    kind: str
    stage: str
    held: dict[str, int]


class WriteOffAnswer(View):
    """What writing off a host ends and frees, or has.

    `instances` are those that are on the host; they stay, and so do the moves in `waiting`.
    """

    host: str
    is_done: bool
    moves: list[WrittenOffMove]
    freed: dict[str, int]
    instances: list[str]
    waiting: list[WrittenOffMove]


class HostsQuery(Model):
    """Which hosts to list; all of them without a limit."""

    limit: Limit | None = None
    marker: str | None = None


class InventoryView(View):
    """What a host has of one resource class, in the unit of the class."""

    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: float
    allocation_ratio_origin: str
    """Who says so: `minimum of aggregates gold, batch`, `the host's own`, ..."""
    capacity: int
    used: int
    free: int


class FailureView(View):
    """How often builds of one project have failed on a host, for one cause.

    `level` is the count as it had faded when the newest failed, at `at_s`. `project_id` is null
    for all projects that are not kept apart.
    """

    project_id: str | None
    cause: str
    level: float
    at_s: float


class ServiceState(View):
    """The compute service of a host."""

    id: str
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    failed_builds: int
    failure_level: float
    """How much failed builds speak against the host, by cause and project, as faded by now."""
    build_failures: list[FailureView]
    is_up: bool
    last_seen_s: float


class AggregateName(View):
    """An aggregate that a host is in."""

    id: int
    name: str


class AttestationView(View):
    """What an attestation service says of a host: `unknown` once it has run out."""

    level: str
    valid_until_s: float


class ChildView(View):
    """A child provider of a host; `parent_uuid` is the host's own uuid, or that of a child."""

    uuid: str
    name: str
    parent_uuid: str
    inventories: dict[str, InventoryView]
    traits: list[str]


class PagesView(View):
    """The pages of one size of a NUMA cell; `free` are those that no guest has."""

    size_kb: int
    total: int
    reserved: int
    free: int


class NumaCellView(View):
    """A NUMA cell of a host; `free_cpus` are the dedicated CPUs (`pcpuset`) that no guest has."""

    cell_id: int
    socket: int | None
    cpuset: list[int]
    pcpuset: list[int]
    siblings: list[list[int]]
    memory_mb: int
    mempages: list[PagesView]
    free_cpus: list[int]
    shared_used: int
    memory_used_mb: int


class PciPoolView(View):
    """PCI devices of a host that are alike; `free` are those that no guest has."""

    vendor_id: str
    product_id: str
    dev_type: str
    numa_node: int | None
    address: str
    tags: Mapping[str, str]
    count: int
    free: int


class HostAnswer(View):
    """A host with all that decisions read of it."""

    uuid: str
    name: str
    node: str
    hypervisor_type: str
    hypervisor_version: int
    host_ip: str
    cpu_info: Mapping[str, object]
    supported_instances: tuple[tuple[str, str, str], ...]
    stats: Mapping[str, str]
    metrics: Mapping[str, float]
    inventories: dict[str, InventoryView]
    traits: list[str]
    zones: list[str]
    aggregates: list[AggregateName]
    num_instances: int
    service: ServiceState | None
    attestation: AttestationView | None
    children: list[ChildView]
    numa_cells: list[NumaCellView]
    pci_pools: list[PciPoolView]


class HostsAnswer(View):
    """A page of hosts, by name."""

    hosts: list[HostAnswer]
