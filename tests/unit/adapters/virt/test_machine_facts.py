"""Facts about a machine, read from a tree of Linux's files."""

import sys
import time
from pathlib import Path

import pytest

from berth.adapters.virt.inventory import Hypervisor, InventorySettings, report_of, traits_of
from berth.adapters.virt.machine_facts import Linux, cpu_info_of, parse_cpus, uptime_text
from berth.domain.hardware.numa import MemoryPages, check_cells
from berth.domain.hardware.pci import DeviceType, PciPool, check_pools
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU

CPUINFO = """processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: A Processor
flags\t\t: fpu avx2 sse4_1 pni made_up

processor\t: 1
vendor_id\t: AuthenticAMD
"""
CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
PCI = "sys/bus/pci/devices"
QEMU = Hypervisor("QEMU", 7_002_022, (("x86_64", "qemu", "hvm"),))


def write(root: Path, files: dict[str, str]) -> Linux:
    """Write a tree of files and return it as a machine."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Linux(root)


def two_sockets(root: Path) -> Linux:
    """Return a machine with two sockets, each with a NUMA cell and one core of two threads."""
    files = {
        "proc/cpuinfo": CPUINFO,
        "proc/meminfo": "MemTotal:       8388608 kB\nMemFree: 1 kB\n",
        f"{CPU}/online": "0-3\n",
    }
    for cpu in range(4):
        topology, node = f"{CPU}/cpu{cpu}/topology", cpu // 2
        files[f"{topology}/physical_package_id"] = f"{node}\n"
        files[f"{topology}/core_id"] = "0\n"
        files[f"{topology}/thread_siblings_list"] = f"{2 * node}-{2 * node + 1}\n"
    for node in range(2):
        files[f"{NODE}/node{node}/cpulist"] = f"{2 * node}-{2 * node + 1}\n"
        files[f"{NODE}/node{node}/meminfo"] = f"Node {node} MemTotal:  2097152 kB\n"
        files[f"{NODE}/node{node}/hugepages/hugepages-2048kB/nr_hugepages"] = "16\n"
    return write(root, files)


def device(address: str, vendor: str = "0x10de", **more: str) -> dict[str, str]:
    """Return the files of a PCI device."""
    folder = f"{PCI}/{address}"
    told = {"vendor": vendor, "device": "0x1eb8", "numa_node": "-1", **more}
    return {f"{folder}/{name}": f"{text}\n" for name, text in told.items()}


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("", set()), ("0", {0}), ("0-2,5\n", {0, 1, 2, 5}), ("1,3", {1, 3})],
)
def test_lists_of_processors_are_read(text: str, cpus: set[int]) -> None:
    """CPU lists are parsed in the kernel's format."""
    assert parse_cpus(text) == cpus


def test_processors_are_counted(tmp_path: Path) -> None:
    """Sockets, cores, threads and CPU features are read."""
    cpu = two_sockets(tmp_path).cpu()
    assert (cpu.online, cpu.sockets, cpu.cores) == (frozenset(range(4)), 2, 2)
    info = cpu_info_of(cpu)
    assert info["vendor"] == "AMD"
    assert info["topology"] == {"sockets": 2, "cores": 1, "threads": 2}
    assert info["features"] == ["avx2", "fpu", "made_up", "pni", "sse4_1"]


def test_cells_have_their_processors_memory_and_pages(tmp_path: Path) -> None:
    """NUMA cells are read with CPUs, siblings, memory and huge pages, and are valid for a host."""
    cells = two_sockets(tmp_path).numa_cells()
    check_cells(cells)
    assert [cell.cell_id for cell in cells] == [0, 1]
    cell, pair = cells[1], frozenset({2, 3})
    assert (cell.cpuset, cell.siblings, cell.socket) == (pair, (pair,), 1)
    assert cell.memory_mb == 2_048
    assert cell.mempages == (MemoryPages(2_048, 16),)


def test_the_limit_of_a_container_counts(tmp_path: Path) -> None:
    """A cgroup limit below the machine's memory replaces it."""
    linux = two_sockets(tmp_path)
    assert linux.memory_mb() == 8_192
    write(tmp_path, {"sys/fs/cgroup/memory.max": "max\n"})
    assert linux.memory_mb() == 8_192
    write(tmp_path, {"sys/fs/cgroup/memory.max": f"{1024**3}\n"})
    assert linux.memory_mb() == 1_024


def test_wanted_devices_make_pools(tmp_path: Path) -> None:
    """Equal devices form a pool, and virtual functions a pool of their physical function."""
    files = {
        **device("0000:01:00.0"),
        **device("0000:02:00.0"),
        **device("0000:03:00.0", numa_node="1"),
        **device("0000:04:00.0", vendor="0x8086", sriov_totalvfs="8"),
        **device("0000:04:00.1", vendor="0x8086"),
        **device("0000:05:00.0", vendor="0x1af4"),
    }
    linux = write(tmp_path, files)
    (tmp_path / PCI / "0000:04:00.1" / "physfn").symlink_to(tmp_path / PCI / "0000:04:00.0")
    pools = linux.pci_pools(["10de:1eb8", "8086:1eb8"])
    check_pools(pools)
    assert set(map(str, pools)) == {
        str(PciPool("10de", "1eb8", count=2)),
        str(PciPool("10de", "1eb8", numa_node=1)),
        str(PciPool("8086", "1eb8", DeviceType.PHYSICAL, address="0000:04:00.0")),
        str(PciPool("8086", "1eb8", DeviceType.VIRTUAL, address="0000:04:00.0")),
    }
    assert linux.pci_pools([]) == ()


def test_flags_become_traits_that_there_are() -> None:
    """CPU flags become the names of os-traits; flags without a trait are omitted."""
    assert traits_of(frozenset({"avx2", "sse4_1", "pni", "bmi1", "aes", "fpu", "made_up"})) == {
        "HW_CPU_X86_AVX2",
        "HW_CPU_X86_SSE41",
        "HW_CPU_X86_SSE3",
        "HW_CPU_X86_BMI",
        "HW_CPU_X86_AESNI",
    }
    assert traits_of(frozenset({"svm"})) == {"HW_CPU_X86_SVM", "HW_CPU_X86_AMD_SVM"}


def test_every_renamed_flag_is_a_trait() -> None:
    """Every name in the table of renamed flags is a trait of os-traits."""
    from berth.adapters.virt.inventory import _OTHERWISE_CALLED  # noqa: PLC0415

    for flag, names in _OTHERWISE_CALLED.items():
        assert len(traits_of(frozenset({flag}))) == len(names), flag


def test_a_report_reserves_what_guests_take_beside_their_memory(tmp_path: Path) -> None:
    """Memory is reserved for the overhead of each guest and for the host itself."""
    linux = two_sockets(tmp_path)
    stock = InventorySettings(
        tmp_path / "not" / "yet", "10.0.0.7", reserved_vcpus=1, reserved_memory_mb=500
    )
    report = report_of("rack1-07", stock, QEMU, 3, linux)
    found = report.provider.inventories
    assert (found[VCPU].total, found[VCPU].reserved) == (4, 1)
    assert (found[MEMORY_MB].total, found[MEMORY_MB].reserved) == (8_192, 800)
    assert found[DISK_GB].total > 0
    assert (report.host.name, report.host.host_ip) == ("rack1-07", "10.0.0.7")
    assert report.host.uuid == report_of("rack1-07", stock, QEMU, 0, linux).host.uuid
    assert report.host.uuid != report_of("rack1-08", stock, QEMU, 0, linux).host.uuid
    assert report.host.allocation_ratios == {VCPU: 0, MEMORY_MB: 0, DISK_GB: 0}


def test_no_more_is_reserved_than_there_is(tmp_path: Path) -> None:
    """Reservations do not exceed the total, since such a report would be refused."""
    report = report_of("a", InventorySettings(tmp_path), QEMU, 1_000, two_sockets(tmp_path))
    assert report.provider.inventories[MEMORY_MB].capacity == 0


def test_traits_of_the_processor_are_shown_where_guests_see_it(tmp_path: Path) -> None:
    """CPU traits are reported if guests see the CPU, and NUMA cells only if configured."""
    linux, kvm = two_sockets(tmp_path), Hypervisor("QEMU", 1, (), sees_the_cpu=True)
    plain = report_of("a", InventorySettings(tmp_path), QEMU, 0, linux)
    assert "HW_CPU_X86_AVX2" not in plain.provider.traits
    assert "COMPUTE_IMAGE_TYPE_QCOW2" in plain.provider.traits
    assert plain.host.numa_cells == ()
    shown = report_of("a", InventorySettings(tmp_path, shows_numa=True), kvm, 0, linux)
    assert "HW_CPU_X86_AVX2" in shown.provider.traits
    assert len(shown.host.numa_cells) == 2


def test_this_machine_can_be_read(tmp_path: Path) -> None:
    """The machine that runs the tests has CPU capacity and valid cells."""
    report = report_of("here", InventorySettings(tmp_path), QEMU, 0)
    assert report.provider.inventories[VCPU].capacity > 0
    check_cells(Linux().numa_cells())


def test_an_uptime_has_time_users_and_load(tmp_path: Path) -> None:
    """The uptime is that of the kernel, and the users are those in utmp."""
    linux = write(
        tmp_path, {"proc/uptime": "8076300.25 1.0\n", "proc/loadavg": "0.20 0.12 1.4 1/2 3"}
    )
    (tmp_path / "run").mkdir()
    records = [kind.to_bytes(2, sys.byteorder).ljust(384, b"\0") for kind in (2, 7, 8, 7)]
    (tmp_path / "run/utmp").write_bytes(b"".join(records))
    assert linux.uptime()[9:] == " up 93 days, 11:25,  2 users,  load average: 0.20, 0.12, 1.4\n"


@pytest.mark.parametrize(
    ("up_s", "told"),
    [(59, "0 min"), (3_599, "59 min"), (3_660, "1:01"), (86_400, "1 day, 0 min")],
)
def test_an_uptime_is_given_as_the_program_does(up_s: float, told: str) -> None:
    """Hours are shown from one hour on, and days from one day on."""
    text = uptime_text(time.gmtime(0), up_s, users=1, load=("0.00", "0.00", "0.00"))
    assert text == f" 00:00:00 up {told},  1 user,  load average: 0.00, 0.00, 0.00\n"


def test_a_machine_without_the_files_has_an_uptime(tmp_path: Path) -> None:
    """Missing files count as no time, no users and no load."""
    assert (
        Linux(tmp_path).uptime().endswith("up 0 min,  0 users,  load average: 0.00, 0.00, 0.00\n")
    )
