"""Which CPUs of a host those of guests float over."""

from pathlib import Path

import msgspec

from berth.adapters.virt.guest_disks import GuestSize
from berth.adapters.virt.libvirt.hardware import ANYWHERE, FloatingCpus, floating_cpus_of
from berth.adapters.virt.libvirt.record import GuestRecord
from berth.adapters.virt.machine_facts import Linux
from berth.domain.hardware.assignment import CellShare

GUEST = GuestRecord("uuid", "host", "img", "pc-q35-7.2", GuestSize(2, 512), GuestSize(2, 512))


def two_cells(root: Path) -> Linux:
    """Make a machine with two cells of two CPUs each."""
    files = {"devices/system/cpu/online": "0-3\n"}
    for node in range(2):
        folder = f"devices/system/node/node{node}"
        files[f"{folder}/cpulist"] = f"{2 * node}-{2 * node + 1}\n"
        files[f"{folder}/meminfo"] = f"Node {node} MemTotal:  2097152 kB\n"
    for name, text in files.items():
        path = root / "sys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").touch()
    return Linux(root)


def test_guests_float_over_what_is_not_dedicated(tmp_path: Path) -> None:
    """In cells and without them; what is offline is nobody's."""
    linux, dedicated = two_cells(tmp_path), frozenset({1, 2, 3, 9})
    assert floating_cpus_of(GUEST, dedicated, linux) == FloatingCpus(frozenset({0}))
    in_cell = msgspec.structs.replace(GUEST, cells=(CellShare(0, 512, shared_cpus=2),))
    of_cells = {0: frozenset({0}), 1: frozenset[int]()}
    assert floating_cpus_of(in_cell, dedicated, linux) == FloatingCpus(frozenset({0}), of_cells)


def test_without_dedicated_cpus_guests_float_anywhere(tmp_path: Path) -> None:
    """But those with a cell stay in it."""
    linux = two_cells(tmp_path)
    assert floating_cpus_of(GUEST, frozenset(), linux) == ANYWHERE
    in_cell = msgspec.structs.replace(GUEST, cells=(CellShare(0, 512, shared_cpus=2),))
    of_cells = {0: frozenset({0, 1}), 1: frozenset({2, 3})}
    assert floating_cpus_of(in_cell, frozenset(), linux) == FloatingCpus(frozenset(), of_cells)
