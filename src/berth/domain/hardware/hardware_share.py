"""What one instance has of the NUMA cells and PCI devices of its host."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CellShare:
    """What one guest cell has of the host cell that it was given.

    `pinned` are (guest CPU, host CPU) pairs; `emulator_cpus` run the hypervisor's own threads;
    `idle_cpus` are kept empty because a sibling is in use and the guest wants its cores to
    itself. All of these are taken from the host's dedicated CPUs. `shared_cpus` counts guest
    CPUs that float. `page_size_kb` is None where the guest asked for no size.
    """

    host_cell: int
    memory_mb: int
    page_size_kb: int | None = None
    shared_cpus: int = 0
    pinned: tuple[tuple[int, int], ...] = ()
    emulator_cpus: frozenset[int] = frozenset()
    idle_cpus: frozenset[int] = frozenset()

    @property
    def taken_cpus(self) -> frozenset[int]:
        """The host's dedicated CPUs that nobody else may use."""
        return frozenset(cpu for _, cpu in self.pinned) | self.emulator_cpus | self.idle_cpus


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """Devices that an instance has: how many of which pool, and the alias they were asked by."""

    pool: str
    """`PciPool.key`."""
    count: int
    alias: str = ""
