"""Assignments: the hardware and child providers that one instance receives on its host."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CellShare:
    """The resources of one host NUMA cell that are given to one guest NUMA cell.

    `pinned` are (guest CPU, host CPU) pairs. `emulator_cpus` run the hypervisor's own threads.
    `idle_cpus` are kept unused because a sibling thread is in use and the guest's thread policy is
    `isolate`. All of these come from the host's dedicated CPUs. `shared_cpus` counts the guest's
    floating CPUs. `page_size_kb` is in KiB; None if the guest requested no page size.
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
        """The host's dedicated CPUs that the guest NUMA cell takes; no other guest may use them."""
        return frozenset(cpu for _, cpu in self.pinned) | self.emulator_cpus | self.idle_cpus


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """A number of devices from one PCI pool, and the alias through which they were requested."""

    pool: str
    """The key of the pool (`PciPool.key`)."""
    count: int
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The resources that one instance receives on the chosen host, as determined by the filters.

    `allocations` are amounts by provider UUID, for providers of the host's tree other than the
    root. `root` are the amounts taken from the root provider; None if they equal the request's
    amounts. `mappings` list the providers that satisfy each group of the request, by group suffix
    (nova-behaviour.md 6.4). `numa` has one share per guest NUMA cell, in the guest's order.
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
        """Return the combined assignments of several filters; None if all of them are empty.

        Amounts of the same provider are added, and devices are concatenated. At most one part may
        set `root`, and at most one may set `numa`.

        Raises:
            ValueError: two parts set `root`, set `numa`, or map the same group.
        """
        given = [part for part in parts if part != _NOTHING]
        # Nearly every request has at most one assignment, which is returned without a copy.
        if len(given) < 2:  # noqa: PLR2004 - one part needs no merging
            return given[0] if given else None
        allocations: dict[str, Mapping[str, int]] = {}
        mappings: dict[str, tuple[str, ...]] = {}
        roots = [part.root for part in given if part.root is not None]
        cells = [part.numa for part in given if part.numa]
        for part in given:
            if both := mappings.keys() & part.mappings.keys():
                raise ValueError(
                    f"two filters map the resource group {min(both)!r}; remove one of them from "
                    "the policy"
                )
            mappings |= part.mappings
            for uuid, amounts in part.allocations.items():
                allocations[uuid] = dict(Counter(allocations.get(uuid, {})) + Counter(amounts))
        if len(roots) > 1:
            raise ValueError(
                "two filters set the amounts on the root provider; remove one of them from the "
                "policy"
            )
        if len(cells) > 1:
            raise ValueError("two filters assign NUMA cells; remove one of them from the policy")
        return cls(
            allocations,
            mappings,
            root=roots[0] if roots else None,
            numa=cells[0] if cells else (),
            devices=tuple(share for part in given for share in part.devices),
        )


# Parts are compared with this by value, because a filter may return an assignment that is empty.
_NOTHING = Assignment()


def allocations_by_provider(
    root_uuid: str, amounts: Mapping[str, int], assignment: Assignment | None
) -> dict[str, Mapping[str, int]]:
    """Return all allocations of an instance: amounts by provider UUID, without empty mappings.

    Args:
        root_uuid: the root provider of the host.
        amounts: the request's unsuffixed amounts, in the units of their classes.
        assignment: the assignment of the instance; None if all amounts are on the root.
    """
    root = amounts_on_root(amounts, assignment)
    found = {root_uuid: root} if root else {}
    if assignment is not None:
        found |= {uuid: more for uuid, more in assignment.allocations.items() if more}
    return found


def amounts_on_root(amounts: Mapping[str, int], assignment: Assignment | None) -> Mapping[str, int]:
    """Return the amounts that an instance takes from its host's root provider."""
    return amounts if assignment is None or assignment.root is None else assignment.root
