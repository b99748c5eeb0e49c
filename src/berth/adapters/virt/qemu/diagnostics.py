"""The resource usage of a QEMU guest, from QMP and from the kernel's statistics of its process."""

from pathlib import Path
from typing import Final, cast

from berth.adapters.virt import guest_disks
from berth.adapters.virt.qemu.machine import Machine
from berth.adapters.virt.qemu.qmp import Message
from berth.domain.errors import DriverError
from berth.ports.virt import DiskCounters, GuestDiagnostics

_PROC: Final = Path("/proc")
_LETTERS: Final = "abcdefgh"
_KIB: Final = 1024


async def diagnostics_of(machine: Machine) -> GuestDiagnostics:
    """Return the use of resources by a running guest.

    Raises:
        DriverError: QEMU does not answer, or its process has ended.
    """
    kvm = await machine.ask("query-kvm")
    memory = await machine.ask("query-memory-size-summary")
    cpus = cast("list[Message]", await machine.execute("query-cpus-fast"))
    stats = cast("list[Message]", await machine.execute("query-blockstats"))
    memory_kb = cast("int", memory["base-memory"]) // _KIB
    return GuestDiagnostics(
        hypervisor="kvm" if kvm.get("enabled") else "qemu",
        cpu_times_ns=tuple(
            _cpu_time_ns(machine.pid, cast("int", cpu["thread-id"])) for cpu in cpus
        ),
        memory_kb=memory_kb,
        # The guest has no memory balloon, so it may always use all of its memory.
        memory_used_kb=memory_kb,
        memory_rss_kb=_rss_kb(machine.pid),
        disks=_counters((guest_disks.RESCUE, *machine.spec.disks), stats),
    )


def _counters(names: tuple[str, ...], stats: list[Message]) -> tuple[DiskCounters, ...]:
    """Return the counters of the disks that the guest has, in the order of `names`.

    Args:
        names: the names of all disks that the guest may have, in the order of its devices.
        stats: QEMU's answer to `query-blockstats`.
    """
    # `qdev` is the path in QEMU's device tree of a device without an `id`.
    by_name = {
        name: cast("dict[str, int]", one["stats"])
        for one in stats
        for name in names
        if f"/disk-{name}/" in f"/{one.get('qdev', '')}/" or one.get("node-name") == name
    }
    present = [by_name[name] for name in names if name in by_name]
    return tuple(
        DiskCounters(
            f"vd{letter}",
            read_bytes=found["rd_bytes"],
            read_requests=found["rd_operations"],
            write_bytes=found["wr_bytes"],
            write_requests=found["wr_operations"],
            errors=sum(
                found.get(f"failed_{kind}_operations", 0) for kind in ("rd", "wr", "flush", "unmap")
            ),
        )
        for found, letter in zip(present, _LETTERS, strict=False)
    )


def _cpu_time_ns(pid: int, thread_id: int) -> int:
    """Return the CPU time of a thread of a process in nanoseconds.

    Raises:
        DriverError: the thread has ended.
    """
    text = _read(_PROC / str(pid) / "task" / str(thread_id) / "schedstat")
    return int(text.split()[0])


def _rss_kb(pid: int) -> int | None:
    for line in _read(_PROC / str(pid) / "status").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        reason = f"cannot read {path} ({error.strerror}); the guest's process has ended"
        raise DriverError(reason) from error
