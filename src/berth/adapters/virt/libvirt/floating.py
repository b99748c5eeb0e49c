"""Which of a host's CPUs those of guests float over: all that no guest has for itself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from berth.adapters.virt.libvirt.record import Record
from berth.adapters.virt.machine_facts import Linux


@dataclass(frozen=True, slots=True)
class Floating:
    """CPUs of the host for those CPUs of guests that are pinned to none.

    Guests run `everywhere` where they have no cell, and the parts of them that are in a cell of
    the host on what `of_cells` has under its number. Where nothing is said libvirt chooses.
    """

    everywhere: frozenset[int] = frozenset()
    of_cells: Mapping[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])


ANYWHERE: Final = Floating()


def floating_for(record: Record, dedicated: frozenset[int], linux: Linux | None = None) -> Floating:
    """Return where the CPUs of a guest float.

    Args:
        record: of the guest.
        dedicated: the host's CPUs that guests get for themselves.
        linux: the machine; this one unless it is given.
    """
    if not dedicated and not record.cells:
        return ANYWHERE
    linux = linux or Linux()
    online = linux.cpu().online
    cells = linux.numa_cells(dedicated) if record.cells else ()
    return Floating(
        online - dedicated if dedicated else frozenset(),
        {cell.cell_id: cell.cpuset & online for cell in cells},
    )


def listed(numbers: Iterable[int]) -> str:
    """Return numbers of CPUs or cells as libvirt reads them."""
    return ",".join(str(number) for number in sorted(set(numbers)))
