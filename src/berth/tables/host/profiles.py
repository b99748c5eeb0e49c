"""Profiles: the attributes that many hosts share, kept once."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.domain.compute.host import Host
from berth.domain.inventory.resources import AMOUNT_MAX
from berth.tables.columnar.bitsets import Mask
from berth.tables.columnar.interned import Interned

_FIRST = 16

_encoded = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Profile:
    """What capability and image rules read of a host; equal hosts share one."""

    hypervisor_type: str = ""
    hypervisor_version: int = 0
    cpu_info: str = "{}"
    """JSON text of `Host.cpu_info`, keys sorted."""
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    stats: tuple[tuple[str, str], ...] = ()

    @property
    def stats_by_name(self) -> Mapping[str, str]:
        """The stats as a mapping."""
        return dict(self.stats)


class Reported(NamedTuple):
    """What a profile is made of, as the first host with it reported it."""

    hypervisor_type: str
    hypervisor_version: int
    cpu_info: Mapping[str, object]
    supported_instances: tuple[tuple[str, str, str], ...]
    stats: Mapping[str, str]


class Profiles:
    """Profiles, numbered as they come; a number that no host has is given to the next.

    Number 0 is the empty one, of unused rows. Numbers are counted, because stats may differ at
    every report of a host, and a table that kept all of them would never stop growing.

    Attributes:
        versions: the hypervisor version of every number, cut to what a column can hold.
    """

    def __init__(self) -> None:
        self._profiles = Interned(Profile())
        self._reported = [Reported("", 0, {}, (), {})]
        self.versions: NDArray[np.int64] = np.zeros(_FIRST, dtype=np.int64)

    @property
    def all(self) -> list[Profile | None]:
        """The profile of every number; None where no host has it."""
        return self._profiles.all

    def reported(self, number: int) -> Reported:
        """Return what the hosts with a profile report."""
        return self._reported[number]

    def number(self, host: Host) -> int:
        """Return the number of the host's profile; equal attributes give equal numbers.

        The host is counted until `release`.
        """
        profile = Profile(
            hypervisor_type=host.hypervisor_type,
            hypervisor_version=host.hypervisor_version,
            cpu_info=_encoded(host.cpu_info) if host.cpu_info else "{}",
            supported_instances=tuple(host.supported_instances),
            stats=tuple(sorted(host.stats.items())) if host.stats else (),
        )
        number = self._profiles.take(profile)
        if self._profiles.having(number) == 1:
            self._write(number, host)
        return number

    def release(self, number: int) -> None:
        """Undo one `number`, and forget the profile when no host has it any more."""
        self._profiles.release(number)

    def mask(self, numbers: NDArray[np.int32], test: Callable[[Profile], bool]) -> Mask:
        """Test each profile that a host has once, and spread the verdicts over the rows.

        Args:
            numbers: (N,) profile numbers of the rows.
            test: the verdict on one profile.

        Returns:
            (N,) bool; False for rows without a host.
        """
        return np.array(self._verdicts(test), dtype=np.bool_).take(numbers)

    def _verdicts(self, test: Callable[[Profile], bool]) -> list[bool]:
        return [
            one is not None and self._profiles.having(number) > 0 and test(one)
            for number, one in enumerate(self.all)
        ]

    def _write(self, number: int, host: Host) -> None:
        """Note what belongs to a number that is new, or stands for another profile now."""
        reported = Reported(
            host.hypervisor_type,
            host.hypervisor_version,
            host.cpu_info,
            host.supported_instances,
            host.stats,
        )
        if number == len(self._reported):
            self._reported.append(reported)
        else:
            self._reported[number] = reported
        if number >= self.versions.size:
            self.versions = np.concatenate((self.versions, np.zeros_like(self.versions)))
        # Reports and state files set no bounds to a number, but a column has 64 bits.
        version = max(-AMOUNT_MAX, min(host.hypervisor_version, AMOUNT_MAX))
        self.versions[number] = version
