"""Two fake hosts for the driver's conformance suite."""

from collections.abc import Sequence
from pathlib import Path

from berth.adapters.system import SystemClock
from berth.adapters.virt.fake import (
    DriverFaults,
    FakeDriver,
    FakeHost,
    FakeMachine,
    FakeNetwork,
    FolderNetwork,
)
from berth.ports.virt import DriverFeature, Power
from berth.testing.driver_conformance.rig import HERE

_FOR_EVER_S = 3_600.0


class FakeRig:
    """See `DriverRig`. With a folder, each host has a network of its own over that folder."""

    def __init__(
        self,
        *,
        spawn_s: float = 0.0,
        lacks: frozenset[DriverFeature] = frozenset(),
        folder: Path | None = None,
    ) -> None:
        self.machines = [FakeMachine("host-1"), FakeMachine("host-2")]
        self._folder = folder
        network = FakeNetwork()
        self.networks = [
            network if folder is None else FolderNetwork(folder) for _ in self.machines
        ]
        self._delay_s: dict[str, float] = {}
        self._hosts = [
            FakeHost(one.name, spawn_s=spawn_s, lacks=lacks, faults=DriverFaults(self._delay_s))
            for one in self.machines
        ]

    async def open(self, host: int = HERE) -> FakeDriver:
        """See `DriverRig`."""
        return FakeDriver(
            self._hosts[host], SystemClock(), self.machines[host], self.networks[host]
        )

    async def crash(self, instance_uuid: str, host: int = HERE) -> None:
        """See `DriverRig`."""
        self.machines[host].set_power(instance_uuid, Power.CRASHED, "it has crashed")

    async def turn_off(self, instance_uuid: str, host: int = HERE) -> None:
        """See `DriverRig`."""
        self.machines[host].set_power(instance_uuid, Power.STOPPED)

    async def deafen(self, instance_uuid: str, host: int = HERE) -> None:
        """See `DriverRig`."""
        self.machines[host].guests[instance_uuid].hangs = True

    async def forget(self, instance_uuid: str, host: int = HERE) -> None:
        """See `DriverRig`."""
        self.machines[host].guests[instance_uuid].is_orphan = True

    async def stall(self, instance_uuid: str) -> None:
        """See `DriverRig`."""
        self._delay_s["hand_over"] = _FOR_EVER_S

    async def write_disk(self, instance_uuid: str, value: int, host: int = HERE) -> None:
        """See `DriverRig`."""
        self.machines[host].guests[instance_uuid].disk = str(value)

    async def read_disk(self, instance_uuid: str, host: int = HERE) -> int:
        """See `DriverRig`."""
        return int(self.machines[host].guests[instance_uuid].disk or 0)

    def remains(self) -> Sequence[str]:
        """See `DriverRig`."""
        guests = [uuid for machine in self.machines for uuid in machine.guests]
        files = [] if self._folder is None else self._folder.rglob("*.json*")
        return [*guests, *self.networks[HERE].machines, *map(str, files)]

    async def close(self) -> None:
        """See `DriverRig`."""
        self._delay_s.clear()
