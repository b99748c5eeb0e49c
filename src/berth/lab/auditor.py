"""An independent auditor: keeps its own books of a run and says when a rule was broken.

It shares no code with the ledger, the tables or the scheduling, only plain dicts, so that a
mistake there cannot hide here. Slow on purpose: every answer is computed from the books.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from berth.domain.errors import BerthError
from berth.lab.workload import FleetHost


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """What one resource group has: amounts of the device with that index on its host."""

    device: int
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What one instance asks of devices: amounts by class for each group.

    Each group is of one device; with `isolate` no two are of the same.
    """

    groups: tuple[Mapping[str, int], ...] = ()
    isolate: bool = False


class DeviceUsage:
    """What is used of every device of a fleet, in the unit of each class."""

    def __init__(self, hosts: Iterable[FleetHost]) -> None:
        self._free = {host.name: [dict(device) for device in host.devices] for host in hosts}

    def find(self, host: str, ask: DeviceRequest) -> tuple[DeviceShare, ...] | None:
        """Find devices of a host for every group, or tell that there are none by None."""
        free = [dict(device) for device in self._free[host]]
        largest_first = sorted(ask.groups, key=lambda group: -sum(group.values()))
        return _find_shares(free, largest_first, isolate=ask.isolate)

    def book(self, host: str, parts: Iterable[DeviceShare], *, sign: int) -> None:
        """Enter that parts were taken (1) or given back (-1)."""
        devices = self._free[host]
        for part in parts:
            for name, amount in part.amounts.items():
                free = devices[part.device]
                free[name] = free.get(name, 0) - sign * amount

    def broken(self, host: str, ask: DeviceRequest, parts: Sequence[DeviceShare]) -> list[str]:
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


def _find_shares(
    free: list[dict[str, int]], groups: Sequence[Mapping[str, int]], *, isolate: bool
) -> tuple[DeviceShare, ...] | None:
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
        rest = _find_shares([*free[:number], less, *free[number + 1 :]], others, isolate=isolate)
        if rest is not None:
            return (DeviceShare(number, group), *rest)
    return None


def _sorted(amounts: Iterable[Mapping[str, int]]) -> list[list[tuple[str, int]]]:
    return sorted(sorted(one.items()) for one in amounts)


NO_DEVICES = DeviceRequest()


class AuditError(BerthError):
    """What happened breaks a rule: room, traits, availability zone, or one host an instance."""


@dataclass(frozen=True, slots=True)
class Overcommit:
    """One host uses more of one resource class than it has, in the unit of the class."""

    host: str
    resource_class: str
    used: int
    capacity: int


class Auditor:
    """The books of one run.

    Args:
        hosts: the fleet; amounts are totals in the unit of each resource class.
        ratios: allocation ratio of a resource class, 1 for one not named. Capacity is the total
            times the ratio, rounded down. One instance may never get more than the total: a
            host does not overcommit against itself.
    """

    def __init__(
        self, hosts: Iterable[FleetHost], ratios: Mapping[str, float] | None = None
    ) -> None:
        self._hosts = {host.name: host for host in hosts}
        self._ratios = dict(ratios or {})
        self._used: dict[str, dict[str, int]] = {name: {} for name in self._hosts}
        self._placements: dict[str, tuple[str, dict[str, int]]] = {}
        self._devices = DeviceUsage(self._hosts.values())
        self._parts: dict[str, Sequence[DeviceShare]] = {}

    def placed(
        self,
        instance_id: str,
        host: str,
        amounts: Mapping[str, int],
        *,
        traits_required: Iterable[str] = (),
        any_traits: Iterable[AbstractSet[str]] = (),
        availability_zone: str | None = None,
    ) -> None:
        """Enter that an instance was placed; the books follow what happened, right or wrong.

        So a placement that breaks a rule is entered, then reported, and a replay that goes on
        still has true books. Only what has no meaning is not entered: a second placement of
        the same instance, an unknown host, a negative amount.

        Args:
            instance_id: who; placed once until released.
            host: name of the host.
            amounts: by resource class, in the unit of the class, each 0 or more.
            traits_required: the host must have all.
            any_traits: the host must have one of each set.
            availability_zone: the zone asked for, None when any would do.

        Raises:
            AuditError: naming the instance, the host and every rule broken.
        """
        found = self._enterable(instance_id, host, amounts)
        broken = [
            *self._broken_room(found, amounts),
            *_broken_place(found, traits_required, any_traits, availability_zone),
        ]
        self._placements[instance_id] = (host, dict(amounts))
        self._book(host, amounts, sign=1)
        if broken:
            raise AuditError(f"instance {instance_id!r} on host {host!r}: {'; '.join(broken)}")

    def took(self, instance_id: str, ask: DeviceRequest, parts: Sequence[DeviceShare]) -> None:
        """Enter what a placed instance got of its host's devices, once; right or wrong.

        Raises:
            AuditError: naming the instance, the host and every rule broken.
        """
        host = self._placements[instance_id][0]
        broken = self._devices.broken(host, ask, parts)
        there = [one for one in parts if 0 <= one.device < len(self._hosts[host].devices)]
        self._parts[instance_id] = there
        self._devices.book(host, there, sign=1)
        if broken:
            raise AuditError(f"instance {instance_id!r} on host {host!r}: {'; '.join(broken)}")

    def released(self, instance_id: str) -> None:
        """Enter that an instance is gone and its room is free.

        Raises:
            AuditError: it was not placed, or was released before.
        """
        if instance_id not in self._placements:
            raise AuditError(f"instance {instance_id!r} was released but is not placed")
        host, amounts = self._placements.pop(instance_id)
        self._book(host, amounts, sign=-1)
        self._devices.book(host, self._parts.pop(instance_id, ()), sign=-1)

    def fits(
        self,
        amounts: Mapping[str, int],
        traits_required: Iterable[str] = (),
        any_traits: Iterable[AbstractSet[str]] = (),
        availability_zone: str | None = None,
        devices: DeviceRequest = NO_DEVICES,
    ) -> list[str]:
        """Name the hosts that could take one more such instance now, in the order of the fleet.

        A refusal was right when this is empty. Arguments as for `placed`.
        """
        required, alternatives = frozenset(traits_required), tuple(any_traits)
        return [
            name
            for name, host in self._hosts.items()
            if not _broken_place(host, required, alternatives, availability_zone)
            and not self._broken_room(host, amounts)
            and self._devices.find(name, devices) is not None
        ]

    def parts_on(self, host: str, devices: DeviceRequest) -> tuple[DeviceShare, ...]:
        """Return parts of a host's devices that would do; empty when there are not enough."""
        return self._devices.find(host, devices) or ()

    def overcommitted(self) -> list[Overcommit]:
        """Recount every placement and list what uses more than there is, in fleet order."""
        counted: dict[str, dict[str, int]] = {name: {} for name in self._hosts}
        for host, amounts in self._placements.values():
            for resource_class, amount in amounts.items():
                used = counted[host].get(resource_class, 0)
                counted[host][resource_class] = used + amount
        return [
            Overcommit(name, resource_class, used, self._capacity(host, resource_class))
            for name, host in self._hosts.items()
            for resource_class, used in sorted(counted[name].items())
            if used > self._capacity(host, resource_class)
        ]

    def _enterable(self, instance_id: str, host: str, amounts: Mapping[str, int]) -> FleetHost:
        """Return the host, unless the placement has no meaning in the books."""
        if instance_id in self._placements:
            first = self._placements[instance_id][0]
            raise AuditError(
                f"instance {instance_id!r} was placed on {host!r} but is on {first!r} already"
            )
        if host not in self._hosts:
            raise AuditError(f"instance {instance_id!r} was placed on unknown host {host!r}")
        negative = sorted(name for name, amount in amounts.items() if amount < 0)
        if negative:
            raise AuditError(f"instance {instance_id!r} takes less than 0 of {negative[0]}")
        return self._hosts[host]

    def _book(self, host: str, amounts: Mapping[str, int], *, sign: int) -> None:
        used = self._used[host]
        for resource_class, amount in amounts.items():
            used[resource_class] = used.get(resource_class, 0) + sign * amount

    def _capacity(self, host: FleetHost, resource_class: str) -> int:
        total = host.amounts.get(resource_class, 0)
        return int(total * self._ratios.get(resource_class, 1))

    def _broken_room(self, host: FleetHost, amounts: Mapping[str, int]) -> list[str]:
        """Say which resource classes lack room for one more such instance; 0 always has room."""
        broken: list[str] = []
        for resource_class, amount in amounts.items():
            total = host.amounts.get(resource_class, 0)
            used = self._used[host.name].get(resource_class, 0)
            free = self._capacity(host, resource_class) - used
            if amount > 0 and (amount > free or amount > total):
                broken.append(
                    f"takes {amount} of {resource_class} where {free} are free of {total}"
                )
        return broken


def _broken_place(
    host: FleetHost,
    traits_required: Iterable[str],
    any_traits: Iterable[AbstractSet[str]],
    availability_zone: str | None,
) -> list[str]:
    """Say which traits the host lacks and whether its availability zone is another one."""
    broken = [f"lacks trait {trait}" for trait in traits_required if trait not in host.traits]
    broken += [
        f"has none of the traits {', '.join(sorted(traits))}"
        for traits in any_traits
        if traits.isdisjoint(host.traits)
    ]
    if availability_zone not in (None, host.availability_zone):
        broken.append(f"is in {host.availability_zone}, not in {availability_zone}")
    return broken
