"""What a live migration reports when QEMU does not answer."""

from types import SimpleNamespace
from typing import cast

import pytest

from berth.adapters.virt.qemu.machine import Machine
from berth.adapters.virt.qemu.migration import QemuMigration
from berth.adapters.virt.qemu.qmp import QmpError
from berth.domain.errors import UnavailableError
from berth.testing.virtual_time import VirtualClock


class SilentMachine:
    """A guest whose QEMU does not answer."""

    spec = SimpleNamespace(uuid="guest-1", disks=())

    async def status(self) -> str:
        """Fail, since nothing answers."""
        raise QmpError("QEMU does not answer: no greeting")


async def test_silence_is_no_failed_migration() -> None:
    """A QEMU that does not answer may have completed a migration, so its outcome is unknown."""
    migration = QemuMigration(cast("Machine", SilentMachine()), VirtualClock())
    with pytest.raises(UnavailableError, match="whether guest guest-1 has moved"):
        await migration.run("qemu://127.0.0.1:1/guest-1")
