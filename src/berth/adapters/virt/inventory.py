"""The report of a real host: its record, inventory and traits, as read from Linux."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from os_traits import get_traits  # type: ignore[import-untyped]

from berth.adapters.virt.machine_facts import Linux, cpu_info_of
from berth.domain.compute.host import Host
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, PCPU, VCPU, Inventory
from berth.domain.uuids import named_uuid
from berth.ports.virt import HostReport

_BYTES_PER_GB = 1024**3
_IMAGE_TRAITS = ("COMPUTE_IMAGE_TYPE_QCOW2", "COMPUTE_IMAGE_TYPE_RAW")
_ARCH_TRAITS = {"x86_64": "HW_ARCH_X86_64", "aarch64": "HW_ARCH_AARCH64"}
_PREFIX = "HW_CPU_X86_"
# CPU flags of Linux whose traits in os-traits have other names.
_OTHERWISE_CALLED = {
    "3dnow": ("3DNOW",),
    "abm": ("ABM",),
    "aes": ("AESNI",),
    "amx_bf16": ("AMXBF16",),
    "amx_int8": ("AMXINT8",),
    "amx_tile": ("AMXTILE",),
    "avx512_bitalg": ("AVX512BITALG",),
    "avx512_vbmi2": ("AVX512VBMI2",),
    "avx512_vnni": ("AVX512VNNI",),
    "avx512_vpopcntdq": ("AVX512VPOPCNTDQ",),
    "avx512ifma": ("AVX512IFMA",),
    "avx512vbmi": ("AVX512VBMI",),
    "bmi1": ("BMI",),
    "fma": ("FMA3",),
    "gfni": ("AVX512GFNI",),
    "ibpb": ("AMD_IBPB",),
    "md_clear": ("INTEL_MD_CLEAR",),
    "pcid": ("INTEL_PCID",),
    "pclmulqdq": ("CLMUL",),
    "pni": ("SSE3",),
    "rtm": ("TSX",),
    "sha_ni": ("SHA",),
    "sse4_1": ("SSE41",),
    "sse4_2": ("SSE42",),
    "svm": ("SVM", "AMD_SVM"),
    "vaes": ("AVX512VAES",),
    "virt_ssbd": ("AMD_VIRT_SSBD",),
    "vmx": ("VMX", "INTEL_VMX"),
    "vpclmulqdq": ("AVX512VPCLMULQDQ",),
}

_KNOWN = frozenset(get_traits(_PREFIX))


@dataclass(frozen=True, slots=True)
class Hypervisor:
    """The hypervisor of a host; `version` is 7_002_003 for 7.2.3.

    `supported_instances` are triples of architecture, hypervisor type and VM mode, as in Nova. With
    `sees_the_cpu`, guests can use all features of the host's CPU, so its flags become traits.
    """

    type: str
    version: int
    supported_instances: tuple[tuple[str, str, str], ...]
    sees_the_cpu: bool = False
    cpu_models: tuple[str, ...] = ()
    """The CPU models that guests can have, if known."""


@dataclass(frozen=True, slots=True)
class InventorySettings:
    """The operator's settings for the inventory of a host.

    The reserved amounts are kept for the host. In addition, `guest_overhead_mb` of memory is
    reserved for each guest present, whose process needs more than the guest sees. The disk is the
    file system of `disk_dir`. NUMA cells, `dedicated_cpus` and PCI devices (`vendor:product`) are
    for drivers that assign hardware to guests.
    """

    disk_dir: Path
    host_ip: str = "127.0.0.1"
    reserved_vcpus: int = 0
    reserved_memory_mb: int = 512
    reserved_disk_gb: int = 0
    guest_overhead_mb: int = 100
    shows_numa: bool = False
    dedicated_cpus: frozenset[int] = frozenset()
    pci_devices: tuple[str, ...] = ()


def report_of(
    name: str,
    stock: InventorySettings,
    hypervisor: Hypervisor,
    guests: int,
    linux: Linux | None = None,
) -> HostReport:
    """Return the report of a host.

    Args:
        name: the host's name, from which its uuid is derived.
        stock: the operator's settings.
        hypervisor: the hypervisor.
        guests: the number of guests present.
        linux: the machine; by default this one.
    """
    linux = linux or Linux()
    cpu = linux.cpu()
    overhead_mb = stock.guest_overhead_mb * guests
    disk_gb = linux.disk_bytes(stock.disk_dir) // _BYTES_PER_GB
    inventories = {
        VCPU: _inventory(len(cpu.online - stock.dedicated_cpus), stock.reserved_vcpus),
        MEMORY_MB: _inventory(linux.memory_mb(), stock.reserved_memory_mb + overhead_mb),
        DISK_GB: _inventory(disk_gb, stock.reserved_disk_gb),
    }
    if dedicated := cpu.online & stock.dedicated_cpus:
        inventories[PCPU] = _inventory(len(dedicated), 0)
    traits = {*_IMAGE_TRAITS, *(traits_of(cpu.flags) if hypervisor.sees_the_cpu else ())}
    if cpu.arch in _ARCH_TRAITS:
        traits.add(_ARCH_TRAITS[cpu.arch])
    host_uuid = named_uuid(f"host:{name}")
    host = Host(
        uuid=host_uuid,
        name=name,
        node=name,
        hypervisor_type=hypervisor.type,
        hypervisor_version=hypervisor.version,
        host_ip=stock.host_ip,
        cpu_info={**cpu_info_of(cpu), **_models(hypervisor)},
        supported_instances=hypervisor.supported_instances,
        numa_cells=linux.numa_cells(stock.dedicated_cpus) if stock.shows_numa else (),
        pci_pools=linux.pci_pools(stock.pci_devices),
        # 0 means unset, because the operator chooses the allocation ratios.
        allocation_ratios=dict.fromkeys(inventories, 0.0),
    )
    provider = Provider(
        uuid=host_uuid, name=name, inventories=inventories, traits=frozenset(traits)
    )
    return HostReport(host, provider)


def _models(hypervisor: Hypervisor) -> Mapping[str, object]:
    return {"usable_models": list(hypervisor.cpu_models)} if hypervisor.cpu_models else {}


def _inventory(total: int, reserved: int) -> Inventory:
    return Inventory(total=total, reserved=min(reserved, total))


def traits_of(flags: frozenset[str]) -> frozenset[str]:
    """Return the traits of a CPU with these flags (`avx2`, `sse4_1`, ...)."""
    names = (name for flag in flags for name in _OTHERWISE_CALLED.get(flag, (flag.upper(),)))
    return frozenset(trait for name in names if (trait := f"{_PREFIX}{name}") in _KNOWN)
