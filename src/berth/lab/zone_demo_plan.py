"""The workload of the zones demo: fake fleets and requests of many sizes, from a seed."""

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
# The number of instances of each request is drawn from these.
_SIZES: Final = (8, 15, 25, 40, 60, 90)
# Each request is for at most 1/8 of the instances, so a demo has at least this many requests.
_REQUESTS_MIN: Final = 8

# Each flavor with its popularity in percent.
_FLAVORS: Final = (
    (FlavorSpec("small", 1, 4 * _MB_PER_GB, 10), 30),
    (FlavorSpec("medium", 2, 8 * _MB_PER_GB, 20), 30),
    (FlavorSpec("large", 4, 16 * _MB_PER_GB, 40), 15),
    (FlavorSpec("memory", 2, 32 * _MB_PER_GB, 20), 12),
    (FlavorSpec("vector", 4, 8 * _MB_PER_GB, 20, {f"trait:{_AVX}": "required"}), 13),
)

FLAVORS: Final = tuple(flavor for flavor, _ in _FLAVORS)
RARE: Final = FLAVORS[-1]
"""The flavor whose required trait only a few hosts have."""


@dataclass(frozen=True, slots=True)
class _Model:
    """The size and traits of one kind of host."""

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
# The kinds of hosts in consecutive zones other than the root, which has old hosts only. The zones
# differ, so that each request goes to the zones with the hosts that it needs.
_HALVES: Final = (("plain", _OLD), ("plain", "memory"), ("plain", "vector"))


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """One request for `count` instances of a flavor, all or none."""

    flavor: str
    count: int


def zone_fleets(hosts: int, seed: int) -> Callable[[str, int], Sequence[FakeHost]]:
    """Return a `berth.lab.zone_tree.FleetFactory` that draws a fleet for each zone of a tree.

    Args:
        hosts: the number of hosts of each zone but the root, which has a third of that.
        seed: the seed of all random choices.
    """
    turns = itertools.cycle(_HALVES)

    def fleet(name: str, depth: int) -> Sequence[FakeHost]:
        rng = Random(f"berth-fleet-{seed}-{name}")  # noqa: S311 - a made-up fleet is not secret
        kinds = next(turns) if depth else (_OLD,)
        count = hosts if depth else max(1, hosts // 3)
        # The fleet has at least one host of each kind, so that the demo works with every seed.
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
    """Return requests of different sizes and flavors for `instances` instances in total."""
    rng = Random(f"berth-asks-{seed}")  # noqa: S311 - requests are not secret
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
    """Return a request that is too large for all hosts with the rare trait together.

    Args:
        fleet: all hosts of the tree.
    """
    able = sum(host.totals[VCPU] for host in fleet if _AVX in host.traits)
    return DemoRequest(RARE.name, able // RARE.vcpus + 1)
