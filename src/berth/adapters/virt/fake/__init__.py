"""The fake driver: hosts that exist only in memory, for demonstrations, tests and load."""

from berth.adapters.virt.fake.driver import FakeDriver
from berth.adapters.virt.fake.folder_network import FolderNetwork
from berth.adapters.virt.fake.host import DriverFaults, FakeHost
from berth.adapters.virt.fake.machine import FakeGuest, FakeMachine
from berth.adapters.virt.fake.network import FakeNetwork

__all__ = [
    "DriverFaults",
    "FakeDriver",
    "FakeGuest",
    "FakeHost",
    "FakeMachine",
    "FakeNetwork",
    "FolderNetwork",
]
