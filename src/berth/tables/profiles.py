"""Profiles: the attributes that many hosts share, kept once."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from berth.domain.host import Host
from berth.tables.bitsets import Mask


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


class Profiles:
    """Profiles, numbered as they come; a number that no host has is given to the next.

    Number 0 is the empty one, of unused rows. Numbers are counted, because stats may differ at
    every report of a host, and a table that kept all of them would never stop growing.

    Attributes:
        all: the profile of every number; None where no host has it.
    """

    def __init__(self) -> None:
        self._numbers: dict[Profile, int] = {Profile(): 0}
        self._hosts: list[int] = [1]
        self._free: list[int] = []
        self.all: list[Profile | None] = [Profile()]

    def number(self, host: Host) -> int:
        """Return the number of the host's profile; equal attributes give equal numbers.

        The host is counted until `release`.
        """
        profile = Profile(
            hypervisor_type=host.hypervisor_type,
            hypervisor_version=host.hypervisor_version,
            cpu_info=json.dumps(host.cpu_info, sort_keys=True, separators=(",", ":")),
            supported_instances=tuple(host.supported_instances),
            stats=tuple(sorted(host.stats.items())),
        )
        number = self._numbers.get(profile)
        if number is None:
            number = self._add(profile)
        self._hosts[number] += 1
        return number

    def release(self, number: int) -> None:
        """Undo one `number`, and forget the profile when no host has it any more."""
        self._hosts[number] -= 1
        profile = self.all[number]
        if not self._hosts[number] and profile is not None:
            del self._numbers[profile]
            self.all[number] = None
            self._free.append(number)

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
            one is not None and self._is_on_a_host(number) and test(one)
            for number, one in enumerate(self.all)
        ]

    def _is_on_a_host(self, number: int) -> bool:
        return self._hosts[number] > (number == 0)  # unused rows count once, as number 0

    def _add(self, profile: Profile) -> int:
        if self._free:
            number = self._free.pop()
            self.all[number] = profile
        else:
            number = len(self.all)
            self.all.append(profile)
            self._hosts.append(0)
        self._numbers[profile] = number
        return number
