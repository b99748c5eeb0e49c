"""The response with the diagnostics of a server."""

from typing import Literal

from berth.api.codec import UNSET, UnsetType, View


class CpuDiagnostics(View):
    """The use of one CPU of the guest; `time` is its CPU time in nanoseconds."""

    id: int | None
    time: int | None
    utilisation: int | None


class DiskDiagnostics(View):
    """The guest's requests to one disk; `errors_count` is null if the driver counts no errors."""

    read_bytes: int | None
    read_requests: int | None
    write_bytes: int | None
    write_requests: int | None
    errors_count: int | None


class MemoryDiagnostics(View):
    """The memory of the guest, in MiB."""

    maximum: int | None
    used: int | None


class DiagnosticsAnswer(View):
    """The diagnostics of a server, from microversion 2.48 on.

    Older microversions have a flat object instead, whose fields are not listed here.

    `driver` is always `libvirt`, because Nova's schema has no value for the other drivers.
    `hypervisor` is `kvm`, `qemu` or `fake`. `uptime` is in seconds. `nic_details` is always empty.
    """

    config_drive: bool | UnsetType = UNSET
    state: Literal["running"] | UnsetType = UNSET
    driver: Literal["libvirt"] | UnsetType = UNSET
    hypervisor: str | UnsetType | None = UNSET
    hypervisor_os: str | UnsetType | None = UNSET
    uptime: int | UnsetType | None = UNSET
    num_cpus: int | UnsetType | None = UNSET
    num_nics: int | UnsetType | None = UNSET
    num_disks: int | UnsetType | None = UNSET
    cpu_details: list[CpuDiagnostics] | UnsetType = UNSET
    nic_details: list[dict[str, object]] | UnsetType = UNSET
    disk_details: list[DiskDiagnostics] | UnsetType = UNSET
    memory_details: MemoryDiagnostics | UnsetType = UNSET
