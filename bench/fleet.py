"""The fleet and the request of `peers/nova_peer.py`, as Berth's own records."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.host import Host, Service
from berth.domain.compute.request import Request, instance_uuid_of
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.change import Snapshot

NOW_S = 1_700_000_000.0
"""The present time of the benchmarks, so no prepared heartbeat expires."""

INVENTORIES = {
    VCPU: Inventory(64, allocation_ratio=4.0),
    MEMORY_MB: Inventory(262_144),
    DISK_GB: Inventory(2_000),
}

FLAVOR = Flavor("peer", "peer", vcpus=2, memory_mb=2_048, root_gb=20)
IMAGE = Image("peer", properties={"hw_architecture": "x86_64"})


class Standstill:
    """A clock that stands still at `NOW_S`; see the port `Clock`."""

    def __init__(self) -> None:
        self._ticks = 0

    def now_s(self) -> float:
        """Return `NOW_S`."""
        return NOW_S

    def ticks_ns(self) -> int:
        """Return a count that grows by a microsecond per call."""
        self._ticks += 1_000
        return self._ticks

    async def sleep(self, seconds: float) -> None:
        """Return immediately."""


@dataclass(frozen=True, slots=True)
class FleetMember:
    """The three records of one host."""

    host: Host
    provider: Provider
    service: Service


def host_uuid(index: int) -> str:
    """Return the uuid of a host."""
    return str(uuid.UUID(int=index + 1))


def used_of(index: int) -> dict[str, int]:
    """Return the used amounts of a host, by class, without zeros."""
    used = {
        VCPU: index * 7_919 % 97,
        MEMORY_MB: index * 104_729 % 191 * 1_024,
        DISK_GB: index * 1_299_709 % 1_009,
    }
    return {name: amount for name, amount in used.items() if amount}


def fleet(count: int, *, now_s: float = NOW_S) -> Iterator[FleetMember]:
    """Yield `count` hosts by the peer's recipe, all alive at `now_s` (Unix seconds)."""
    for index in range(count):
        name, key = f"host-{index:06d}", host_uuid(index)
        host = Host(
            uuid=key,
            name=name,
            node=name,
            hypervisor_type="QEMU",
            hypervisor_version=8_002_000,
            host_ip="192.0.2.1",
            supported_instances=(("x86_64", "kvm", "hvm"),),
        )
        provider = Provider(key, name, inventories=INVENTORIES, used=used_of(index))
        yield FleetMember(host, provider, Service(name, key, last_seen_s=now_s))


def snapshot(count: int) -> Snapshot:
    """Return the ledger state of a fleet with the peer's used amounts."""
    return snapshot_of(list(fleet(count)))


def snapshot_of(members: Sequence[FleetMember]) -> Snapshot:
    """Return the ledger state of some hosts of a fleet."""
    return Snapshot(
        version=1,
        now_s=NOW_S,
        hosts=tuple(member.host for member in members),
        providers=tuple(member.provider for member in members),
        services=tuple(member.service for member in members),
    )


def request(request_id: str, instances: int = 1) -> Request:
    """Return the peer's request for `instances` instances."""
    uuids = tuple(instance_uuid_of(request_id, index) for index in range(instances))
    return Request(request_id, uuids, FLAVOR, project_id="project", user_id="user", image=IMAGE)
