"""Queries, request bodies and response bodies for hosts."""

from collections.abc import Mapping
from typing import Annotated

from berth.api.codec import Meta, Model, View
from berth.api.values import Limit
from berth.domain.inventory.resources import RATIO_MAX

ClassName = Annotated[str, Meta(min_length=1, max_length=255)]


class RatiosBody(Model):
    """Allocation ratios by resource class; 0 removes a ratio, and other classes stay unchanged."""

    ratios: Annotated[
        dict[ClassName, Annotated[float, Meta(ge=0, le=RATIO_MAX)]], Meta(min_length=1)
    ]


class WrittenOffMove(View):
    """A move from or to the host; `held` shows the amounts that a write-off frees, by class."""

    uuid: str
    id: int
    instance_uuid: str
    kind: str
    stage: str
    held: dict[str, int]


class WriteOffAnswer(View):
    """The moves that a write-off ends, and the resources that it frees.

    `is_done` is false for a plan. `instances` are the uuids of the instances on the host, and
    `waiting` the other moves from or to the host; the write-off changes neither.
    """

    host: str
    is_done: bool
    moves: list[WrittenOffMove]
    freed: dict[str, int]
    instances: list[str]
    waiting: list[WrittenOffMove]


class HostsQuery(Model):
    """The page of hosts to list: at most `limit` hosts, or all, after the uuid in `marker`."""

    limit: Limit | None = None
    marker: str | None = None


class InventoryView(View):
    """A host's or provider's inventory of one resource class, in the unit of the class."""

    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    # The ratio in force, which aggregates and overrides of operators can change.
    allocation_ratio: float
    allocation_ratio_origin: str
    """The source of the ratio: `minimum of aggregates gold, batch`, `the host's own`, ..."""
    capacity: int
    used: int
    free: int


class FailureView(View):
    """Failed builds of one project on a host, for one cause.

    `level` is their decayed count at `at_s`, the Unix time of the newest failure. `project_id` is
    null in the entry that sums the projects without an entry of their own.
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
    """The decayed weight of all failed builds, as of its last update."""
    build_failures: list[FailureView]
    is_up: bool
    is_uncertain: bool
    """The host fell silent together with so many others that it may still be up."""
    last_seen_s: float
    """Unix time of the last heartbeat, or the end of a later period in which none could arrive."""


class AggregateName(View):
    """An aggregate that a host is in."""

    id: int
    name: str


class AttestationView(View):
    """The trust level that an attestation service reports for a host; `unknown` once expired."""

    level: str
    valid_until_s: float


class ChildView(View):
    """A child provider of a host; its parent is the host or another child."""

    uuid: str
    name: str
    parent_uuid: str
    inventories: dict[str, InventoryView]
    traits: list[str]


class PagesView(View):
    """The memory pages of one size in a NUMA cell; `free` counts pages that no guest uses."""

    size_kb: int
    total: int
    reserved: int
    free: int


class NumaCellView(View):
    """A NUMA cell of a host, with its free resources.

    `free_cpus` are the CPUs in `pcpuset` that no guest is pinned to. `shared_used` is the number
    of virtual CPUs of guests on the CPUs in `cpuset`.
    """

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
    """A pool of identical PCI devices; `free` counts devices that no guest uses."""

    vendor_id: str
    product_id: str
    dev_type: str
    numa_node: int | None
    address: str
    tags: Mapping[str, str]
    count: int
    free: int


class HostAnswer(View):
    """A host with all data that decisions read."""

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
    """The response with a page of hosts, sorted by name."""

    hosts: list[HostAnswer]
