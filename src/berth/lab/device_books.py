"""Device books: what instances have of the devices of each host, kept apart from the auditor's.

Like the auditor it shares no code with the scheduling, and is slow on purpose.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from berth.lab.workload import FleetHost


@dataclass(frozen=True, slots=True)
class DevicePart:
    """What one resource group has: amounts of the device with that index on its host."""

    device: int
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DeviceAsk:
    """What one instance asks of devices: amounts by class for each group.

    Each group is of one device; with `isolate` no two are of the same.
    """

    groups: tuple[Mapping[str, int], ...] = ()
    isolate: bool = False


class DeviceBooks:
    """What is used of every device of a fleet, in the unit of each class."""

    def __init__(self, hosts: Iterable[FleetHost]) -> None:
        self._free = {host.name: [dict(device) for device in host.devices] for host in hosts}

    def find(self, host: str, ask: DeviceAsk) -> tuple[DevicePart, ...] | None:
        """Find devices of a host for every group, or tell that there are none by None."""
        free = [dict(device) for device in self._free[host]]
        largest_first = sorted(ask.groups, key=lambda group: -sum(group.values()))
        return _find(free, largest_first, isolate=ask.isolate)

    def book(self, host: str, parts: Iterable[DevicePart], *, sign: int) -> None:
        """Enter that parts were taken (1) or given back (-1)."""
        devices = self._free[host]
        for part in parts:
            for name, amount in part.amounts.items():
                free = devices[part.device]
                free[name] = free.get(name, 0) - sign * amount

    def broken(self, host: str, ask: DeviceAsk, parts: Sequence[DevicePart]) -> list[str]:
        """Say what is wrong with these parts for that ask; they are not entered yet."""
        devices = self._free[host]
        if any(not 0 <= part.device < len(devices) for part in parts):
            return ["has a part of a device that the host does not have"]
        broken: list[str] = []
        if _sorted(part.amounts for part in parts) != _sorted(ask.groups):
            broken.append("has other parts of devices than it asked for")
        if ask.isolate and len({part.device for part in parts}) < len(parts):
            broken.append("has two parts of one device, and asked for different ones")
        self.book(host, parts, sign=1)
        broken += [
            f"takes {-free} of {name} more than device {number} has"
            for number, device in enumerate(devices)
            for name, free in device.items()
            if free < 0
        ]
        self.book(host, parts, sign=-1)
        return broken


def _find(
    free: list[dict[str, int]], groups: Sequence[Mapping[str, int]], *, isolate: bool
) -> tuple[DevicePart, ...] | None:
    """Try every device for the first group, and go on with what is left."""
    if not groups:
        return ()
    group, *others = groups
    tried: list[dict[str, int]] = []
    for number, device in enumerate(free):
        if device in tried or any(device.get(name, 0) < asked for name, asked in group.items()):
            continue
        tried.append(dict(device))
        # A device that is given to a group alone has nothing for the others.
        less = {n: 0 if isolate else have - group.get(n, 0) for n, have in device.items()}
        rest = _find([*free[:number], less, *free[number + 1 :]], others, isolate=isolate)
        if rest is not None:
            return (DevicePart(number, group), *rest)
    return None


def _sorted(amounts: Iterable[Mapping[str, int]]) -> list[list[tuple[str, int]]]:
    return sorted(sorted(one.items()) for one in amounts)
