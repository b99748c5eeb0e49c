"""Facts about this machine, read from /proc and /sys."""

import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from berth.domain.hardware.numa import MemoryPages, NumaCell
from berth.domain.hardware.pci import DeviceType, PciPool

_KB_PER_MB = 1024
_BYTES_PER_KB = 1024
# The size in bytes of a utmp record (glibc on 64-bit machines), and the type of the record of a
# logged-in user; see utmp(5).
_UTMP_BYTES = 384
_USER_PROCESS = 7


@dataclass(frozen=True, slots=True)
class Cpu:
    """The CPUs of the machine; `online` are the indices of those that this process may use."""

    arch: str
    vendor: str
    model: str
    flags: frozenset[str]
    online: frozenset[int]
    sockets: int
    cores: int


class Linux:
    """Reads the facts of a machine.

    Args:
        root: the root of the file system; tests use a folder of their own.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = root / "proc"
        self._sys = root / "sys"
        self._run = root / "run"
        self._is_this = root == Path("/")

    def cpu(self) -> Cpu:
        """Return the facts about the CPUs."""
        info = _text(self._proc / "cpuinfo")
        online = parse_cpus(_text(self._sys / "devices/system/cpu/online"))
        # A container may be restricted to some of the machine's CPUs.
        usable = online & os.sched_getaffinity(0) if self._is_this else online
        cores = {self._core(cpu) for cpu in online}
        return Cpu(
            arch=os.uname().machine,
            vendor=_line(info, "vendor_id"),
            model=_line(info, "model name"),
            flags=frozenset(_line(info, "flags").split()),
            online=usable,
            sockets=len({socket for socket, _ in cores}),
            cores=len(cores),
        )

    def memory_mb(self) -> int:
        """Return the memory in MiB: the machine's, or a lower limit of this process's cgroup."""
        found = re.search(r"^MemTotal:\s+(\d+) kB", _text(self._proc / "meminfo"), re.MULTILINE)
        total_mb = int(found[1]) // _KB_PER_MB if found else 0
        # Inside a container, this file gives the limit of the container's cgroup. Outside, it does
        # not exist, because the root cgroup has no limit.
        limit = _text(self._sys / "fs/cgroup/memory.max").strip()
        if limit.isdigit():
            return min(total_mb, int(limit) // _BYTES_PER_KB // _KB_PER_MB)
        return total_mb

    def numa_cells(self, dedicated: frozenset[int] = frozenset()) -> tuple[NumaCell, ...]:
        """Return the NUMA cells; the sum of their memory may differ from the machine's memory.

        Args:
            dedicated: the CPUs that are reserved for pinned guest CPUs; other guests share the
                rest.
        """
        nodes = (self._sys / "devices/system/node").glob("node[0-9]*")
        return tuple(self._cell(node, dedicated) for node in sorted(nodes, key=_number))

    def pci_pools(self, wanted: Sequence[str]) -> tuple[PciPool, ...]:
        """Return the pools of the PCI devices with the given ids, each with its number of devices.

        Args:
            wanted: `vendor:product` pairs of hexadecimal ids.
        """
        counts: dict[str, PciPool] = {}
        for device in sorted((self._sys / "bus/pci/devices").glob("*")):
            ids = [_text(device / name).strip()[2:] for name in ("vendor", "device")]
            if ":".join(ids) not in wanted:
                continue
            pool = _pool(device, *ids)
            count = counts[pool.key].count + 1 if pool.key in counts else 1
            counts[pool.key] = _pool(device, *ids, count=count)
        return tuple(counts[key] for key in sorted(counts))

    def pci_addresses(self, pool_key: str) -> list[str]:
        """Return the addresses of the devices of a pool (`0000:3b:00.1`)."""
        found: list[str] = []
        for device in sorted((self._sys / "bus/pci/devices").glob("*")):
            ids = [_text(device / name).strip()[2:] for name in ("vendor", "device")]
            if all(ids) and _pool(device, *ids).key == pool_key:
                found.append(device.name)
        return found

    def uptime(self) -> str:
        """Return the time, the time since boot, the users and the load, as `uptime` prints them."""
        since_boot = _text(self._proc / "uptime").split()
        load = _text(self._proc / "loadavg").split()[:3]
        return uptime_text(
            time.localtime(),
            float(since_boot[0]) if since_boot else 0.0,
            users=_users_in(self._run / "utmp"),
            load=load or ("0.00", "0.00", "0.00"),
        )

    def disk_bytes(self, folder: Path) -> int:
        """Return the size in bytes of the file system of a folder, which need not exist yet."""
        while not folder.exists():
            folder = folder.parent
        found = os.statvfs(folder)
        return found.f_frsize * found.f_blocks

    def _core(self, cpu: int) -> tuple[str, str]:
        topology = self._sys / f"devices/system/cpu/cpu{cpu}/topology"
        socket, core = (_text(topology / name) for name in ("physical_package_id", "core_id"))
        return socket or "0", core or str(cpu)

    def _cell(self, node: Path, dedicated: frozenset[int]) -> NumaCell:
        cpus = parse_cpus(_text(node / "cpulist"))
        total = re.search(r"MemTotal:\s+(\d+) kB", _text(node / "meminfo"))
        threads = {
            parse_cpus(
                _text(self._sys / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
            )
            or frozenset({cpu})
            for cpu in cpus
        }
        sockets = {self._core(cpu)[0] for cpu in cpus}
        return NumaCell(
            _number(node),
            cpuset=cpus - dedicated,
            pcpuset=cpus & dedicated,
            siblings=tuple(sorted(threads, key=min)),
            memory_mb=int(total[1]) // _KB_PER_MB if total else 0,
            mempages=tuple(_pages(one) for one in sorted((node / "hugepages").glob("*"))),
            socket=int(sockets.pop()) if len(sockets) == 1 else None,
        )


def uptime_text(now: time.struct_time, up_s: float, *, users: int, load: Sequence[str]) -> str:
    """Return an uptime in the format of the program `uptime`, which Nova's clients parse.

    Args:
        now: the local time.
        up_s: the seconds since boot.
        users: the number of users who are logged in.
        load: the load averages of the last 1, 5 and 15 minutes.
    """
    minutes = int(up_s) // 60
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    since = f"{hours}:{minutes:02}" if hours else f"{minutes} min"
    if days:
        since = f"{days} day{'s' if days > 1 else ''}, {since}"
    people = f"{users} user{'' if users == 1 else 's'}"
    clock = time.strftime("%H:%M:%S", now)
    return f" {clock} up {since},  {people},  load average: {', '.join(load)}\n"


def parse_cpus(text: str) -> frozenset[int]:
    """Return the CPUs in a list such as `0-3,8`."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def cpu_info_of(cpu: Cpu) -> Mapping[str, object]:
    """Return the CPU facts in the format of the compute API."""
    threads = max(1, len(cpu.online) // max(1, cpu.cores))
    topology = {"sockets": cpu.sockets, "cores": cpu.cores // max(1, cpu.sockets)}
    return {
        "arch": cpu.arch,
        "vendor": {"AuthenticAMD": "AMD", "GenuineIntel": "Intel"}.get(cpu.vendor, cpu.vendor),
        "model": cpu.model,
        "topology": {**topology, "threads": threads},
        "features": sorted(cpu.flags),
    }


def _pool(device: Path, vendor: str, product: str, *, count: int = 1) -> PciPool:
    node = _text(device / "numa_node").strip()
    parent = device / "physfn"
    kind, address = DeviceType.STANDARD, ""
    if parent.exists():
        kind, address = DeviceType.VIRTUAL, parent.resolve().name
    elif int(_text(device / "sriov_totalvfs").strip() or "0"):
        kind, address = DeviceType.PHYSICAL, device.name
    return PciPool(
        vendor,
        product,
        kind,
        numa_node=int(node) if node.isdigit() else None,
        address=address,
        count=count,
    )


def _pages(folder: Path) -> MemoryPages:
    size = re.search(r"(\d+)kB", folder.name)
    total = _text(folder / "nr_hugepages").strip()
    return MemoryPages(int(size[1]) if size else 1, int(total or "0"))


def _users_in(path: Path) -> int:
    """Return the number of logged-in users in a utmp file; 0 if there is no such file."""
    try:
        records = path.read_bytes()
    except OSError:
        return 0
    kinds = (
        int.from_bytes(records[at : at + 2], sys.byteorder)
        for at in range(0, len(records), _UTMP_BYTES)
    )
    return sum(kind == _USER_PROCESS for kind in kinds)


def _number(folder: Path) -> int:
    return int(re.sub(r"\D", "", folder.name))


def _line(info: str, key: str) -> str:
    found = re.search(rf"^{key}\s*:\s*(.*)$", info, re.MULTILINE)
    return found[1].strip() if found else ""


def _text(path: Path) -> str:
    """Return the content of a file, or an empty string if the kernel does not provide it."""
    try:
        return path.read_text()
    except OSError:
        return ""
