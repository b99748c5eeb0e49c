"""The rescue disk of QEMU guests: its counters, and its deletion."""

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from berth.adapters.virt import guest_disks
from berth.adapters.virt.accelerator import Accelerator
from berth.adapters.virt.guest_folder import GuestFolder
from berth.adapters.virt.images import Images
from berth.adapters.virt.qemu.builder import QemuBuilder
from berth.adapters.virt.qemu.command_line import QemuHost
from berth.adapters.virt.qemu.diagnostics import diagnostics_of
from berth.adapters.virt.qemu.machine import Machine
from berth.domain.uuids import named_uuid
from berth.ports.virt import Power
from berth.testing.virtual_time import VirtualClock


class AnsweringMachine:
    """A guest in this process, whose QEMU has the given disks."""

    spec = SimpleNamespace(disks=("root", "config"))
    pid = os.getpid()

    def __init__(self, names: tuple[str, ...]) -> None:
        kinds = ("rd_bytes", "rd_operations", "wr_bytes", "wr_operations")
        self._stats: list[dict[str, object]] = [
            {"node-name": name, "stats": dict.fromkeys(kinds, len(name))} for name in names
        ]

    async def ask(self, command: str) -> dict[str, object]:
        """Answer a question with one object."""
        return {"enabled": False} if command == "query-kvm" else {"base-memory": 1 << 20}

    async def execute(self, command: str) -> list[dict[str, object]]:
        """Answer a question with a list."""
        if command == "query-cpus-fast":
            return [{"thread-id": threading.get_native_id()}]
        return self._stats


@pytest.mark.parametrize("names", [("config", "root"), ("config", "root", "rescue")])
async def test_every_disk_has_its_counters_under_its_name_in_the_guest(
    names: tuple[str, ...],
) -> None:
    """The rescue disk comes first, and moves the guest's own disks to the next names."""
    found = await diagnostics_of(cast("Machine", AnsweringMachine(names)))
    ordered = [name for name in ("rescue", "root", "config") if name in names]
    assert [(one.name, one.read_bytes) for one in found.disks] == [
        (f"vd{letter}", len(name)) for letter, name in zip("abc", ordered, strict=False)
    ]


class StoppedMachine:
    """A guest without a process, whose agent died before it deleted the rescue disk."""

    def __init__(self, folder: GuestFolder) -> None:
        size = guest_disks.GuestSize(0, 0)
        self.folder = folder
        self.spec = SimpleNamespace(
            address="",
            image_id="image",
            rescue_image="",
            power=Power.STOPPED,
            size=size,
            wanted=size,
            needs_image=False,
        )
        self.starts = 0

    async def start(self, image: object, accelerator: Accelerator) -> None:
        """Count the starts."""
        self.starts += 1

    def set_power(self, power: Power) -> None:
        """Record the power state."""
        self.spec.power = power


async def test_a_rescue_disk_that_was_left_behind_is_deleted_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest boots from its own disks, and the space of the rescue disk is free."""
    folder = GuestFolder(tmp_path, named_uuid("guest"))
    folder.path.mkdir()
    machine = StoppedMachine(folder)
    for name in ("rescue", "root"):
        folder.disk(name).touch()
    builder = QemuBuilder(cast("QemuHost", None), cast("Images", None), VirtualClock())

    async def accelerator() -> Accelerator:
        return Accelerator.TCG

    monkeypatch.setattr(builder, "accelerator", accelerator)
    monkeypatch.setattr(builder, "_image", lambda _: None)
    await builder.start(cast("Machine", machine), rescue_image="")
    assert (machine.starts, machine.spec.power) == (1, Power.RUNNING)
    assert not folder.disk("rescue").exists()
    assert folder.disk("root").exists()
