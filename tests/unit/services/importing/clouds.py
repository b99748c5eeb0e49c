"""Small Nova clouds as a reader returns them, and a ledger to import them into."""

from dataclasses import replace
from typing import Final

from berth.adapters.ledger import MemoryLedger
from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.key_pair import KeyPair, KeyRing, KeyType
from berth.domain.compute.observed import NOVA, OBSERVED_IN
from berth.domain.compute.quota import Quota
from berth.domain.inventory.allocation import Consumer, ConsumerAllocations
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import VCPU, Inventory
from berth.domain.ledger.write import Committed, Write
from berth.ports.nova import NovaCloud
from berth.services.importing.import_plan import ImportPlan
from berth.services.importing.importer import ImportResult, NovaImport
from berth.testing.builders import (
    make_aggregate,
    make_flavor,
    make_host,
    make_instance,
    make_provider,
    make_server_group,
    make_service,
    make_uuid,
)
from berth.testing.virtual_time import VirtualClock

GPU: Final = make_uuid("gpu", 1)
MOVE: Final = make_uuid("move", 1)


def observed_host(number: int) -> Host:
    """Return `host-N` as observed in Nova."""
    return replace(make_host(number), stats={OBSERVED_IN: NOVA})


def observed_service(number: int) -> Service:
    """Return the service of `host-N` as the import stores it."""
    return replace(make_service(number, last_seen_s=0.0), forced_down=True)


def observed_server(number: int, *, on: int | None) -> Instance:
    """Return `vm-N` as observed in Nova, on a host or on none."""
    server = make_instance(number, host=None if on is None else f"host-{on}")
    return replace(
        server,
        status=Status.ACTIVE if on is not None else Status.SHELVED_OFFLOADED,
        task=None,
        extra={OBSERVED_IN: NOVA},
    )


def imported_provider(number: int) -> Provider:
    """Return the root provider of `host-N` as a reader returns it."""
    return replace(make_provider(number), owned_traits=frozenset(), owned_classes=frozenset())


def holding(
    uuid: str, allocations: dict[str, dict[str, int]], kind: str = "INSTANCE"
) -> ConsumerAllocations:
    """Return the allocations of a consumer of project-1."""
    return ConsumerAllocations(Consumer(uuid, "project-1", "user-1", kind), allocations)


def make_cloud() -> NovaCloud:
    """Return a cloud of two hosts, one with a GPU, and three servers, one on no host."""
    first, second = make_uuid("host", 1), make_uuid("host", 2)
    gpu = Provider(
        GPU,
        "host-1_gpu",
        parent_uuid=first,
        inventories={"VGPU": Inventory(total=4)},
        owned_traits=frozenset(),
        owned_classes=frozenset(),
    )
    pair = KeyPair("key", KeyType.SSH, "ssh-rsa AAAA", "00:11")
    group = make_server_group(1)
    return NovaCloud(
        source="a test",
        hosts=(observed_host(1), observed_host(2)),
        services=(observed_service(1), observed_service(2)),
        providers=(imported_provider(1), gpu, imported_provider(2)),
        resource_classes=("CUSTOM_GOLD",),
        traits=("CUSTOM_FAST",),
        aggregates=(replace(make_aggregate(7), hosts=frozenset({"host-1"})),),
        flavors=(make_flavor(1), make_flavor(2)),
        server_groups=(group,),
        members={group.uuid: (make_uuid("instance", 1), make_uuid("instance", 2))},
        servers=(
            observed_server(1, on=1),
            observed_server(2, on=2),
            observed_server(3, on=None),
        ),
        quotas=(Quota("project-1", vcpus=40),),
        key_rings=(KeyRing("user-1", (pair,)),),
        holdings=(
            holding(make_uuid("instance", 1), {first: {VCPU: 2}, GPU: {"VGPU": 1}}),
            holding(make_uuid("instance", 2), {second: {VCPU: 3}}),
            holding(MOVE, {second: {VCPU: 1}}, "MIGRATION"),
        ),
    )


class ImportRig:
    """A ledger in memory, and imports into it."""

    def __init__(self) -> None:
        self.ledger = MemoryLedger()
        self._import = NovaImport(self.ledger, VirtualClock())

    async def plan(self, cloud: NovaCloud) -> ImportPlan:
        """Compare a cloud with the ledger."""
        return await self._import.plan(cloud)

    async def run(self, cloud: NovaCloud, *, prunes: bool = False) -> ImportResult:
        """Import a cloud."""
        return await self._import.carry_out(await self.plan(cloud), prunes=prunes)

    async def store(self, *writes: Write) -> None:
        """Commit writes of another process."""
        (outcome,) = await self.ledger.commit([writes])
        assert isinstance(outcome, Committed), outcome
