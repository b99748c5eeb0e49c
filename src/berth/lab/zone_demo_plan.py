"""What the demo of zones works on: made-up fleets, and requests of many sizes, from a seed."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from berth.adapters.virt.fake import FakeHost
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.lab.workload import FlavorSpec

_MB_PER_GB: Final = 1024
_AVX: Final = "HW_CPU_X86_AVX512F"
_SIZES: Final = (8, 15, 25, 40, 60, 90)
"""Instances of one request; a few large ones, so that no zone has room for all of it."""
_REQUESTS_MIN: Final = 8

_FLAVORS: Final = (
    (FlavorSpec("small", 1, 4 * _MB_PER_GB, 10), 30),
    (FlavorSpec("medium", 2, 8 * _MB_PER_GB, 20), 30),
    (FlavorSpec("large", 4, 16 * _MB_PER_GB, 40), 15),
    (FlavorSpec("memory", 2, 32 * _MB_PER_GB, 20), 12),
    (FlavorSpec("vector", 4, 8 * _MB_PER_GB, 20, {f"trait:{_AVX}": "required"}), 13),
)
"""Each flavor, and how popular it is, in percent."""

FLAVORS: Final = tuple(flavor for flavor, _ in _FLAVORS)
RARE: Final = FLAVORS[-1]
"""The flavor that few hosts can take."""


@dataclass(frozen=True, slots=True)
class _Model:
    """A kind of host."""

    vcpus: int
    memory_gb: int
    traits: frozenset[str] = frozenset()


_OLD = "old"
_KINDS: Final = {
    _OLD: _Model(16, 64),
    "plain": _Model(32, 128),
    "memory": _Model(32, 512),
    "vector": _Model(64, 256, frozenset({_AVX})),
}
_HALVES: Final = (("plain", _OLD), ("plain", "memory"), ("plain", "vector"))
"""Which kinds of hosts zones have, zone after zone; the root has old ones alone."""


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """One request: so many instances of a flavor, all or none."""

    flavor: str
    count: int


def zone_fleets(hosts: int, seed: int) -> Callable[[str, int], Sequence[FakeHost]]:
    """Return who draws a fleet for each zone of a tree; see `berth.lab.zone_tree.Hosts`.

    Args:
        hosts: of each zone; the root has a third of that.
        seed: of everything drawn.
    """
    turns = itertools.cycle(_HALVES)

    def fleet(name: str, depth: int) -> Sequence[FakeHost]:
        rng = Random(f"berth-fleet-{seed}-{name}")  # noqa: S311 - a made-up fleet is no secret
        kinds = next(turns) if depth else (_OLD,)
        count = hosts if depth else max(1, hosts // 3)
        # One of each kind at least, so that the demo does not hang on luck.
        drawn = [*kinds, *rng.choices(kinds, k=max(0, count - len(kinds)))][:count]
        return [_host(f"{name}-{kind}-{index:02d}", kind) for index, kind in enumerate(drawn)]

    return fleet


def _host(name: str, kind: str) -> FakeHost:
    model = _KINDS[kind]
    totals = {
        VCPU: model.vcpus,
        MEMORY_MB: model.memory_gb * _MB_PER_GB,
        DISK_GB: model.vcpus * 40,
    }
    return FakeHost(name, totals, traits=model.traits)


def demo_requests(instances: int, seed: int) -> list[DemoRequest]:
    """Return requests for so many instances in all, of different sizes and flavors."""
    rng = Random(f"berth-asks-{seed}")  # noqa: S311 - as above
    names = [flavor.name for flavor in FLAVORS]
    shares = [share for _, share in _FLAVORS]
    most = max(1, instances // _REQUESTS_MIN)
    found: list[DemoRequest] = []
    while instances:
        count = min(rng.choice(_SIZES), most, instances)
        (flavor,) = rng.choices(names, shares)
        found.append(DemoRequest(flavor, count))
        instances -= count
    return found


def oversized_request(fleet: Sequence[FakeHost]) -> DemoRequest:
    """Return a request that a whole tree has too little room for, as few hosts can take it.

    Args:
        fleet: all hosts of the tree.
    """
    able = sum(host.totals[VCPU] for host in fleet if _AVX in host.traits)
    return DemoRequest(RARE.name, able // RARE.vcpus + 1)
