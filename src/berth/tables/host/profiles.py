"""Host attributes that many hosts share, each distinct combination stored once."""

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

# Keys are sorted so that equal descriptions of a CPU have equal encodings.
_encoded = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Profile:
    """The host attributes that capability and image rules read; equal hosts share one object.

    `cpu_info` is `Host.cpu_info` as JSON text with sorted keys, because a profile must be hashable.
    """

    hypervisor_type: str = ""
    hypervisor_version: int = 0
    cpu_info: str = "{}"
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    stats: tuple[tuple[str, str], ...] = ()

    @property
    def stats_by_name(self) -> Mapping[str, str]:
        """The stats of the profile's hosts, by name."""
        return dict(self.stats)


class Reported(NamedTuple):
    """The attributes of a profile as its first host reported them."""

    hypervisor_type: str
    hypervisor_version: int
    cpu_info: Mapping[str, object]
    supported_instances: tuple[tuple[str, str, str], ...]
    stats: Mapping[str, str]


class Profiles:
    """Reference-counted profiles by id; the id of a profile that no host has is reused.

    Id 0 is the empty profile of unused rows. References are counted because stats may differ in
    every report of a host, and a table that kept all profiles would grow without bound.

    Attributes:
        interned: the profiles, each with the number of its hosts.
        versions: the hypervisor version of each id, clipped to ±AMOUNT_MAX.
    """

    def __init__(self) -> None:
        self.interned = Interned(Profile())
        self._reported = [Reported("", 0, {}, (), {})]
        self.versions: NDArray[np.int64] = np.zeros(_FIRST, dtype=np.int64)

    @property
    def all(self) -> list[Profile | None]:
        """The profile of each id; None for ids that are not in use."""
        return self.interned.all

    def reported(self, number: int) -> Reported:
        """Return the reported attributes of the profile with the given id."""
        return self._reported[number]

    def number(self, host: Host) -> int:
        """Return the id of a host's profile, and count one more host that has it.

        Hosts with equal attributes get equal ids. `interned.release` undoes the count.
        """
        profile = Profile(
            hypervisor_type=host.hypervisor_type,
            hypervisor_version=host.hypervisor_version,
            cpu_info=_encoded(host.cpu_info) if host.cpu_info else "{}",
            supported_instances=tuple(host.supported_instances),
            stats=tuple(sorted(host.stats.items())) if host.stats else (),
        )
        number = self.interned.take(profile)
        if self.interned.row_count(number) == 1:
            self._write(number, host)
        return number

    def mask(self, numbers: NDArray[np.int32], test: Callable[[Profile], bool]) -> Mask:
        """Test each profile in use once, and spread the results over the rows.

        Args:
            numbers: (N,) profile ids of the rows.
            test: the test of one profile.

        Returns:
            (N,) bool; False for rows without a host.
        """
        return np.array(self._verdicts(test), dtype=np.bool_).take(numbers)

    def _verdicts(self, test: Callable[[Profile], bool]) -> list[bool]:
        return [
            one is not None and self.interned.row_count(number) > 0 and test(one)
            for number, one in enumerate(self.all)
        ]

    def _write(self, number: int, host: Host) -> None:
        """Store the attributes of an id that is new or was reused."""
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
        # Reports and state files accept integers of any size, but a column has 64 bits.
        version = max(-AMOUNT_MAX, min(host.hypervisor_version, AMOUNT_MAX))
        self.versions[number] = version
