"""Queries and response bodies for hypervisors, the compute API's name for hosts."""

from collections.abc import Mapping

from berth.api.codec import UNSET, Model, UnsetType, View
from berth.api.links import Link
from berth.api.values import Limit


class HypervisorsQuery(Model):
    """Filter and page of a hypervisor list, and whether to show the hypervisors' servers."""

    limit: Limit | None = None
    marker: str | None = None
    hypervisor_hostname_pattern: str | None = None
    with_servers: str | None = None


class HypervisorQuery(Model):
    """The query for one hypervisor; `with_servers` also requests its servers."""

    with_servers: str | None = None


class HypervisorService(View):
    """The compute service of a hypervisor."""

    id: str | int
    host: str
    disabled_reason: str | None


class HypervisorServer(View):
    """A server on a hypervisor."""

    name: str
    uuid: str


class HypervisorView(View):
    """A hypervisor; lists without details have only the first four fields and `servers`.

    Microversions from 2.88 on have `uptime` instead of totals, usage and `cpu_info`.
    """

    id: str | int
    hypervisor_hostname: str
    state: str
    status: str
    hypervisor_type: str | UnsetType = UNSET
    hypervisor_version: int | UnsetType = UNSET
    host_ip: str | UnsetType = UNSET
    service: HypervisorService | UnsetType = UNSET
    vcpus: int | UnsetType = UNSET
    memory_mb: int | UnsetType = UNSET
    local_gb: int | UnsetType = UNSET
    vcpus_used: int | UnsetType = UNSET
    memory_mb_used: int | UnsetType = UNSET
    local_gb_used: int | UnsetType = UNSET
    free_ram_mb: int | UnsetType = UNSET
    free_disk_gb: int | UnsetType = UNSET
    current_workload: int | UnsetType = UNSET
    running_vms: int | UnsetType = UNSET
    disk_available_least: int | UnsetType | None = UNSET
    cpu_info: Mapping[str, object] | str | UnsetType = UNSET
    uptime: str | UnsetType | None = UNSET
    servers: list[HypervisorServer] | UnsetType = UNSET


class HypervisorAnswer(View):
    """The response with one hypervisor."""

    hypervisor: HypervisorView


class HypervisorsAnswer(View):
    """The response with a page of hypervisors."""

    hypervisors: list[HypervisorView]
    hypervisors_links: tuple[Link, ...] | UnsetType = UNSET


class Statistics(View):
    """Totals over all hypervisors whose service is enabled."""

    count: int = 0
    vcpus: int = 0
    memory_mb: int = 0
    local_gb: int = 0
    vcpus_used: int = 0
    memory_mb_used: int = 0
    local_gb_used: int = 0
    free_ram_mb: int = 0
    free_disk_gb: int = 0
    current_workload: int = 0
    running_vms: int = 0
    disk_available_least: int = 0


class StatisticsAnswer(View):
    """The response with the totals over hypervisors."""

    hypervisor_statistics: Statistics
