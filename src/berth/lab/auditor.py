"""An independent auditor, which records a run in data of its own and reports broken rules.

It uses plain dicts and shares no code with the ledger, the tables or the scheduling, so a fault in
them cannot hide in the auditor. It is slow on purpose: every answer is computed from the records.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from berth.domain.errors import BerthError
from berth.lab.workload import FleetHost


@dataclass(frozen=True, slots=True)
class AuditedDeviceShare:
    """The amounts that one resource group takes of a device, by the device's index on its host."""

    device: int
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """The amounts, by class, that each resource group of one instance requests of a device.

    Each group is served by one device; with `isolate` no two groups share a device.
    """

    groups: tuple[Mapping[str, int], ...] = ()
    isolate: bool = False


class DeviceUsage:
    """The free amounts of every device of a fleet, in the unit of each class."""

    def __init__(self, hosts: Iterable[FleetHost]) -> None:
        self._free = {host.name: [dict(device) for device in host.devices] for host in hosts}

    def find(self, host: str, ask: DeviceRequest) -> tuple[AuditedDeviceShare, ...] | None:
        """Return shares of a host's devices for every group, or None if the groups do not fit."""
        free = [dict(device) for device in self._free[host]]
        # Large groups fit on the fewest devices, so trying them first prunes the search.
        largest_first = sorted(ask.groups, key=lambda group: -sum(group.values()))
        return _find_shares(free, largest_first, isolate=ask.isolate)

    def book(self, host: str, parts: Iterable[AuditedDeviceShare], *, sign: int) -> None:
        """Record that shares were taken (`sign` 1) or given back (-1)."""
        devices = self._free[host]
        for part in parts:
            for name, amount in part.amounts.items():
                free = devices[part.device]
                free[name] = free.get(name, 0) - sign * amount

    def broken(
        self, host: str, ask: DeviceRequest, parts: Sequence[AuditedDeviceShare]
    ) -> list[str]:
        """Return a message for each rule that the shares break; call this before recording them."""
        devices = self._free[host]
        if any(not 0 <= part.device < len(devices) for part in parts):
            return ["has a share of a device that the host does not have"]
        broken: list[str] = []
        if _sorted(part.amounts for part in parts) != _sorted(ask.groups):
            broken.append("has other shares of devices than it requested")
        if ask.isolate and len({part.device for part in parts}) < len(parts):
            broken.append("has two shares of one device, but requested separate devices")
        self.book(host, parts, sign=1)
        broken += [
            f"takes {-free} more of {name} than device {number} has"
            for number, device in enumerate(devices)
            for name, free in device.items()
            if free < 0
        ]
        self.book(host, parts, sign=-1)
        return broken


def _find_shares(
    free: list[dict[str, int]], groups: Sequence[Mapping[str, int]], *, isolate: bool
) -> tuple[AuditedDeviceShare, ...] | None:
    """Return shares for all groups by backtracking over the devices, or None if some do not fit."""
    if not groups:
        return ()
    group, *others = groups
    tried: list[dict[str, int]] = []
    for number, device in enumerate(free):
        # A device that is equal to one that was tried leads to the same dead end.
        if device in tried or any(device.get(name, 0) < asked for name, asked in group.items()):
            continue
        tried.append(dict(device))
        # With `isolate` a device that serves one group has nothing left for the other groups.
        less = {n: 0 if isolate else have - group.get(n, 0) for n, have in device.items()}
        rest = _find_shares([*free[:number], less, *free[number + 1 :]], others, isolate=isolate)
        if rest is not None:
            return (AuditedDeviceShare(number, group), *rest)
    return None


def _sorted(amounts: Iterable[Mapping[str, int]]) -> list[list[tuple[str, int]]]:
    return sorted(sorted(one.items()) for one in amounts)


NO_DEVICES = DeviceRequest()


class AuditError(BerthError):
    """An event breaks a rule or contradicts the records; the message names each broken rule."""


@dataclass(frozen=True, slots=True)
class Overcommit:
    """A host that uses more of a resource class than its capacity, in the unit of the class."""

    host: str
    resource_class: str
    used: int
    capacity: int


class Auditor:
    """Records the placements of one run, and checks each of them against the rules.

    Args:
        hosts: the fleet; amounts are totals in the unit of each resource class.
        ratios: the allocation ratio by resource class, by default 1. Capacity is the total times
            the ratio, rounded down. A single instance may never get more than the total.
    """

    def __init__(
        self, hosts: Iterable[FleetHost], ratios: Mapping[str, float] | None = None
    ) -> None:
        self._hosts = {host.name: host for host in hosts}
        self._ratios = dict(ratios or {})
        self._used: dict[str, dict[str, int]] = {name: {} for name in self._hosts}
        self._placements: dict[str, tuple[str, dict[str, int]]] = {}
        self._devices = DeviceUsage(self._hosts.values())
        self._parts: dict[str, Sequence[AuditedDeviceShare]] = {}

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
        """Record a placement, and check it.

        A placement that breaks a rule is recorded before it is reported, so that a replay which
        continues has correct records. A second placement of an instance, an unknown host and a
        negative amount are reported without a record.

        Args:
            instance_id: the instance, which must not be placed already.
            host: the host's name.
            amounts: the amounts by resource class, in the unit of the class, at least 0.
            traits_required: traits that the host must have.
            any_traits: sets of traits; the host must have at least one trait of each.
            availability_zone: the requested availability zone, or None for any.

        Raises:
            AuditError: the placement breaks rules, which the message names, or is not recorded.
        """
        found = self._enterable(instance_id, host, amounts)
        broken = [
            *self._broken_room(found, amounts),
            *_broken_place(found, traits_required, any_traits, availability_zone),
        ]
        # The check precedes the record, because it assumes that the instance takes no room yet.
        self._placements[instance_id] = (host, dict(amounts))
        self._book(host, amounts, sign=1)
        if broken:
            raise AuditError(f"instance {instance_id!r} on host {host!r}: {'; '.join(broken)}")

    def took(
        self, instance_id: str, ask: DeviceRequest, parts: Sequence[AuditedDeviceShare]
    ) -> None:
        """Record the device shares of a placed instance, and check them.

        Raises:
            AuditError: the shares break rules; the message names all of them.
        """
        host = self._placements[instance_id][0]
        broken = self._devices.broken(host, ask, parts)
        there = [one for one in parts if 0 <= one.device < len(self._hosts[host].devices)]
        self._parts[instance_id] = there
        self._devices.book(host, there, sign=1)
        if broken:
            raise AuditError(f"instance {instance_id!r} on host {host!r}: {'; '.join(broken)}")

    def released(self, instance_id: str) -> None:
        """Record that an instance is gone and its room is free.

        Raises:
            AuditError: the instance is not placed.
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
        """Return the names of hosts with room for one more such instance, in fleet order.

        A refusal of one instance is correct if the list is empty. `devices` is the request as in
        `took`; the other arguments are those of `placed`.
        """
        required, alternatives = frozenset(traits_required), tuple(any_traits)
        return [
            name
            for name, host in self._hosts.items()
            if not _broken_place(host, required, alternatives, availability_zone)
            and not self._broken_room(host, amounts)
            and self._devices.find(name, devices) is not None
        ]

    def parts_on(self, host: str, devices: DeviceRequest) -> tuple[AuditedDeviceShare, ...]:
        """Return device shares of a host that satisfy a request; empty if it has too few."""
        return self._devices.find(host, devices) or ()

    def overcommitted(self) -> list[Overcommit]:
        """Recount all placements, and return the overcommitted resources in fleet order."""
        # Usage is counted from the placements, so an error in `_used` cannot hide an overcommit.
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
        """Return the host of a placement that can be recorded.

        Raises:
            AuditError: the instance is already placed, the host is unknown, or an amount is
                negative.
        """
        if instance_id in self._placements:
            first = self._placements[instance_id][0]
            raise AuditError(
                f"instance {instance_id!r} was placed on {host!r} but is already on {first!r}"
            )
        if host not in self._hosts:
            raise AuditError(f"instance {instance_id!r} was placed on unknown host {host!r}")
        negative = sorted(name for name, amount in amounts.items() if amount < 0)
        if negative:
            raise AuditError(f"instance {instance_id!r} takes a negative amount of {negative[0]}")
        return self._hosts[host]

    def _book(self, host: str, amounts: Mapping[str, int], *, sign: int) -> None:
        used = self._used[host]
        for resource_class, amount in amounts.items():
            used[resource_class] = used.get(resource_class, 0) + sign * amount

    def _capacity(self, host: FleetHost, resource_class: str) -> int:
        total = host.amounts.get(resource_class, 0)
        return int(total * self._ratios.get(resource_class, 1))

    def _broken_room(self, host: FleetHost, amounts: Mapping[str, int]) -> list[str]:
        """Return a message for each class without room for an instance; an amount of 0 fits."""
        broken: list[str] = []
        for resource_class, amount in amounts.items():
            total = host.amounts.get(resource_class, 0)
            used = self._used[host.name].get(resource_class, 0)
            free = self._capacity(host, resource_class) - used
            if amount > 0 and (amount > free or amount > total):
                broken.append(f"takes {amount} of {resource_class} ({free} free, {total} in total)")
        return broken


def _broken_place(
    host: FleetHost,
    traits_required: Iterable[str],
    any_traits: Iterable[AbstractSet[str]],
    availability_zone: str | None,
) -> list[str]:
    """Return messages about the traits that a host lacks, and about a wrong availability zone."""
    broken = [f"lacks trait {trait}" for trait in traits_required if trait not in host.traits]
    broken += [
        f"has none of the traits {', '.join(sorted(traits))}"
        for traits in any_traits
        if traits.isdisjoint(host.traits)
    ]
    if availability_zone not in (None, host.availability_zone):
        broken.append(f"is in {host.availability_zone}, not in {availability_zone}")
    return broken
