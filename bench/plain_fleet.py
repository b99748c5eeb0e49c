"""First-Fit and Best-Fit in plain code, with which the policies are compared.

The code uses a few arrays and none of Berth's rules, so it cannot share their mistakes. It behaves
like `berth.lab.fleet_filling.FleetFilling` for the flavors of the lab's workloads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.domain.compute.needs import Needs, needs_of
from berth.lab.workload import Arrival, FlavorSpec, FleetHost

Rows = NDArray[np.int64]
Amounts = NDArray[np.int64]

FIRST_FIT: Final = "first fit"
BEST_FIT: Final = "best fit"
PLAIN: Final = (FIRST_FIT, BEST_FIT)


@dataclass(frozen=True, slots=True)
class _Kind:
    """The needs of one instance of a flavor.

    `amounts` is (R,); the instance needs `parts` different devices with `part` free on each.
    """

    needs: Needs
    amounts: Amounts
    parts: int
    part: int


@dataclass(frozen=True, slots=True)
class _Held:
    """The resources of one instance: a row, amounts (R,), and a part of some devices."""

    row: int
    amounts: Amounts
    devices: tuple[int, ...]
    part: int


class PlainFleet:
    """A fleet that is filled by First-Fit or Best-Fit.

    First-Fit takes hosts in the order of their names. Best-Fit takes the host with the least left,
    summed over the classes as fractions of the largest host.
    """

    def __init__(self, hosts: Sequence[FleetHost], rule: str) -> None:
        self._rule = rule
        self._hosts = sorted(hosts, key=lambda host: host.name)
        self._classes = sorted({name for host in self._hosts for name in host.amounts})
        self._free = np.array(
            [[host.amounts.get(name, 0) for name in self._classes] for host in self._hosts],
            dtype=np.int64,
        )
        most = max((len(host.devices) for host in self._hosts), default=0)
        self._devices = np.zeros((len(self._hosts), most), dtype=np.int64)
        for row, host in enumerate(self._hosts):
            self._devices[row, : len(host.devices)] = [sum(one.values()) for one in host.devices]
        self._largest = np.maximum(self._free.max(axis=0), 1)
        self._device_largest = max(int(self._devices.sum(axis=1).max(initial=0)), 1)
        self._count = np.zeros(len(self._hosts), dtype=np.int64)
        self._kinds: dict[str, _Kind] = {}
        self._allowed: dict[tuple[str, str | None], NDArray[np.bool_]] = {}
        self._here: dict[str, list[_Held]] = {}

    @property
    def empty_share(self) -> float:
        """The share of the hosts that have no instance."""
        return float((self._count == 0).mean())

    def arrive(self, arrival: Arrival, spec: FlavorSpec) -> bool:
        """Place all instances of a request, or none; tell which."""
        kind = self._kinds.setdefault(spec.name, self._kind(spec))
        allowed = self._allowed_for(arrival, kind)
        held: list[_Held] = []
        for _ in range(arrival.count):
            row = self._choose(kind, allowed)
            if row is None:
                for one in held:
                    self._give_back(one)
                return False
            held.append(self._take(row, kind))
        self._here[arrival.name] = held
        return True

    def depart(self, arrival: Arrival) -> None:
        """Free the resources of a request's instances; a refused request has none."""
        for one in self._here.pop(arrival.name, []):
            self._give_back(one)

    def _kind(self, spec: FlavorSpec) -> _Kind:
        needs = needs_of(spec.flavor)
        parts = [sum(group.amounts.values()) for group in needs.groups]
        amounts = [needs.amounts.get(name, 0) for name in self._classes]
        return _Kind(needs, np.array(amounts), len(parts), max(parts, default=0))

    def _allowed_for(self, arrival: Arrival, kind: _Kind) -> NDArray[np.bool_]:
        key = (arrival.flavor, arrival.availability_zone)
        if key not in self._allowed:
            zone = arrival.availability_zone
            self._allowed[key] = np.array(
                [
                    zone in (None, host.availability_zone)
                    and kind.needs.traits_required.issubset(host.traits)
                    and all(not one.isdisjoint(host.traits) for one in kind.needs.traits_any)
                    for host in self._hosts
                ]
            )
        return self._allowed[key]

    def _choose(self, kind: _Kind, allowed: NDArray[np.bool_]) -> int | None:
        fits = allowed & (self._free >= kind.amounts).all(axis=1)
        if kind.parts:
            fits &= (self._devices >= kind.part).sum(axis=1) >= kind.parts
        rows = np.flatnonzero(fits)
        if not rows.size:
            return None
        if self._rule == FIRST_FIT:
            return int(rows[0])
        left = (self._free[rows] / self._largest).sum(axis=1)
        left += self._devices[rows].sum(axis=1) / self._device_largest
        return int(rows[np.argmin(left)])

    def _take(self, row: int, kind: _Kind) -> _Held:
        """Allocate amounts and, of the devices that fit, those with the least free."""
        devices = self._devices[row]
        fitting = np.flatnonzero(devices >= kind.part)
        order = fitting[np.argsort(devices[fitting], kind="stable")]
        held = _Held(row, kind.amounts, tuple(order[: kind.parts].tolist()), kind.part)
        self._book(held, -1)
        return held

    def _give_back(self, held: _Held) -> None:
        self._book(held, 1)

    def _book(self, held: _Held, sign: int) -> None:
        self._free[held.row] += sign * held.amounts
        self._count[held.row] -= sign
        for device in held.devices:
            self._devices[held.row, device] += sign * held.part
