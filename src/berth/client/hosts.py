"""Hosts: their inventories, services, NUMA cells and PCI devices."""

from collections.abc import Mapping, Sequence
from typing import Final

from berth.client.operations import Group, K, listing, operation
from berth.client.requests import Json, Pages, Route, Steps, Value


class Inventory(Value, frozen=True):
    """The inventory of one resource class, in the unit of the class.

    `allocation_ratio` is the ratio in force, and `allocation_ratio_origin` says where it is from.
    """

    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: float
    allocation_ratio_origin: str
    capacity: int
    used: int
    free: int


class BuildFailures(Value, frozen=True):
    """Failed builds of one project on a host for one cause, as a decayed count at `at_s`.

    `project_id` is None in the entry that sums the projects without an entry of their own.
    """

    project_id: str | None
    cause: str
    level: float
    at_s: float


class HostService(Value, frozen=True):
    """The compute service of a host. `last_seen_s` is Unix seconds.

    `is_uncertain` says that the host fell silent with so many others that it may still be up.
    """

    id: str
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    failed_builds: int
    failure_level: float
    build_failures: tuple[BuildFailures, ...]
    is_up: bool
    is_uncertain: bool
    last_seen_s: float


class AggregateName(Value, frozen=True):
    """An aggregate that a host is in."""

    id: int
    name: str


class Attestation(Value, frozen=True):
    """The trust level of a host; `unknown` once it has expired."""

    level: str
    valid_until_s: float


class ChildProvider(Value, frozen=True):
    """A child provider of a host; its parent is the host or another child."""

    uuid: str
    name: str
    parent_uuid: str
    inventories: Mapping[str, Inventory]
    traits: tuple[str, ...]


class MemoryPages(Value, frozen=True):
    """The memory pages of one size in a NUMA cell; no guest uses the `free` ones."""

    size_kb: int
    total: int
    reserved: int
    free: int


class NumaCell(Value, frozen=True):
    """A NUMA cell of a host. Memory is in MiB.

    No guest is pinned to the `free_cpus` of `pcpuset`. `shared_used` is the number of virtual CPUs
    of guests on the CPUs in `cpuset`.
    """

    cell_id: int
    socket: int | None
    cpuset: tuple[int, ...]
    pcpuset: tuple[int, ...]
    siblings: tuple[tuple[int, ...], ...]
    memory_mb: int
    mempages: tuple[MemoryPages, ...]
    free_cpus: tuple[int, ...]
    shared_used: int
    memory_used_mb: int


class PciPool(Value, frozen=True):
    """A pool of identical PCI devices; no guest uses the `free` ones."""

    vendor_id: str
    product_id: str
    dev_type: str
    numa_node: int | None
    address: str
    tags: Mapping[str, str]
    count: int
    free: int


class Host(Value, frozen=True):
    """A host with all data that decisions read; `service` is None if it has no compute service."""

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
    inventories: Mapping[str, Inventory]
    traits: tuple[str, ...]
    zones: tuple[str, ...]
    aggregates: tuple[AggregateName, ...]
    num_instances: int
    service: HostService | None
    attestation: Attestation | None
    children: tuple[ChildProvider, ...]
    numa_cells: tuple[NumaCell, ...]
    pci_pools: tuple[PciPool, ...]


class HostPage(Value, frozen=True):
    """The response with a page of hosts, sorted by name."""

    hosts: tuple[Host, ...]


class WrittenOffMove(Value, frozen=True):
    """A move from or to a host; `held` are the amounts that a write-off frees, by class."""

    uuid: str
    id: int
    instance_uuid: str
    kind: str
    stage: str
    held: Mapping[str, int]


class WriteOff(Value, frozen=True):
    """The moves that a write-off ends, and the resources that it frees.

    `is_done` is False for a plan. The write-off changes neither the `instances` on the host nor the
    moves in `waiting`.
    """

    host: str
    is_done: bool
    moves: tuple[WrittenOffMove, ...]
    freed: Mapping[str, int]
    instances: tuple[str, ...]
    waiting: tuple[WrittenOffMove, ...]


_LIST: Final = Route("GET", "/berth/v1/hosts", HostPage, query=("limit", "marker"))
_SHOW: Final = Route("GET", "/berth/v1/hosts/{name}", Host)
_RATIOS: Final = Route("PUT", "/berth/v1/hosts/{name}/ratios", Host, body=("ratios",))
_PLAN_WRITE_OFF: Final = Route("GET", "/berth/v1/hosts/{name}/write-off", WriteOff)
_WRITE_OFF: Final = Route("POST", "/berth/v1/hosts/{name}/write-off", WriteOff)


class Hosts(Group[K]):
    """Hosts, for administrators."""

    @listing
    def list(self, *, page_size: int | None = 500) -> Pages[Host]:
        """Return all hosts, sorted by name.

        If the last host of a page is removed before the next page is read, the list ends with
        `BadRequestError`.

        Args:
            page_size: the maximum number of hosts in one response; None for all in one.
        """

        def is_full(hosts: Sequence[object]) -> bool:
            return len(hosts) == page_size and bool(hosts)

        def page(marker: object) -> Steps[tuple[tuple[Host, ...], object]]:
            found = yield from _LIST.ask(query={"limit": page_size, "marker": marker})
            return found.hosts, found.hosts[-1].uuid if is_full(found.hosts) else None

        def marker_of(document: Json) -> object:
            hosts: Sequence[Json] = document["hosts"]
            return hosts[-1]["uuid"] if is_full(hosts) else None

        return Pages("hosts", page, marker_of)

    @operation
    def get(self, name: str) -> Steps[Host]:
        """Return a host by its name or uuid."""
        return _SHOW.ask(name=name)

    @operation
    def set_ratios(self, name: str, ratios: Mapping[str, float]) -> Steps[Host]:
        """Set allocation ratios of a host while it runs, and return the host.

        Args:
            name: the name or uuid of the host.
            ratios: ratios by resource class; 0 removes one, and other classes stay unchanged.
        """
        return _RATIOS.ask(body={"ratios": dict(ratios)}, name=name)

    @operation
    def plan_write_off(self, name: str) -> Steps[WriteOff]:
        """Return what a write-off of a host that never comes back would end and free."""
        return _PLAN_WRITE_OFF.ask(name=name)

    @operation
    def write_off(self, name: str) -> Steps[WriteOff]:
        """Write a host off: end its moves with leftovers, and free what they hold."""
        return _WRITE_OFF.ask(name=name)
