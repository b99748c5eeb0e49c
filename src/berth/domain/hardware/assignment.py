"""Assignments: what an instance gets of its host beyond the request's amounts of the root."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


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


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one instance gets of the host that was chosen, as the rules worked it out.

    `allocations` are amounts by provider uuid, for providers of the host's tree other than its
    root. `root` is what is taken of the root itself; None when that is just what the request
    asks for. `mappings` name, for each group of the request by its suffix, the providers that
    give it (nova-behaviour.md 6.4). `numa` is what each guest cell has of its host cell, in their
    order;
    `devices` are PCI devices by pool.
    """

    allocations: Mapping[str, Mapping[str, int]] = field(
        default_factory=dict[str, Mapping[str, int]]
    )
    mappings: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    root: Mapping[str, int] | None = None
    numa: tuple[CellShare, ...] = ()
    devices: tuple[DeviceShare, ...] = ()

    @classmethod
    def merged(cls, parts: "Iterable[Assignment]") -> "Assignment | None":
        """Put together what several rules assign; None when that is nothing.

        Amounts of one provider add up, and so do devices. At most one of the parts may say what
        the root gives, and one which cells.

        Raises:
            ValueError: two parts say what the root gives or which cells, or name providers of
                one group.
        """
        given = [part for part in parts if part != _NOTHING]
        if len(given) < 2:  # noqa: PLR2004 - nothing to put together
            return given[0] if given else None
        allocations: dict[str, Mapping[str, int]] = {}
        mappings: dict[str, tuple[str, ...]] = {}
        roots = [part.root for part in given if part.root is not None]
        cells = [part.numa for part in given if part.numa]
        for part in given:
            if not mappings.keys().isdisjoint(part.mappings):
                raise ValueError("two rules assign the same group of a request")
            mappings |= part.mappings
            for uuid, amounts in part.allocations.items():
                allocations[uuid] = dict(Counter(allocations.get(uuid, {})) + Counter(amounts))
        if len(roots) > 1:
            raise ValueError("two rules say what the root of a host gives")
        if len(cells) > 1:
            raise ValueError("two rules say which NUMA cells a guest gets")
        return cls(
            allocations,
            mappings,
            root=roots[0] if roots else None,
            numa=cells[0] if cells else (),
            devices=tuple(share for part in given for share in part.devices),
        )


_NOTHING = Assignment()


def taken(
    root_uuid: str, amounts: Mapping[str, int], assignment: Assignment | None
) -> dict[str, Mapping[str, int]]:
    """Return all that an instance takes: amounts by provider uuid, empty ones left out.

    Args:
        root_uuid: the provider of the host itself.
        amounts: what the request asks for without suffix, in units of the classes.
        assignment: what goes beyond that.
    """
    root = amounts_on_root(amounts, assignment)
    found = {root_uuid: root} if root else {}
    if assignment is not None:
        found |= {uuid: more for uuid, more in assignment.allocations.items() if more}
    return found


def amounts_on_root(amounts: Mapping[str, int], assignment: Assignment | None) -> Mapping[str, int]:
    """Return what an instance takes of its host's own provider."""
    return amounts if assignment is None or assignment.root is None else assignment.root
