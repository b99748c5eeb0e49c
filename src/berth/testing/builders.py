"""Builders of small valid domain objects with default values, distinguished by a number.

Tests set other fields with `dataclasses.replace`.
"""

from collections.abc import Mapping
from dataclasses import replace

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.decision import Decision, Verdict
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.instance_action import Action, ActionEvent
from berth.domain.compute.migration import CONSUMER_TYPE, Migration, MoveKind, Place, Stage
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.inventory.allocation import INSTANCE_TYPE, Allocation, Claim, Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import ConsumerUpdate, Put, Take, Unit

CREATED_AT_S = 1_700_000_000.0


def make_uuid(kind: str, number: int) -> str:
    """Return the uuid for a kind and a number, such as `host` and 3: the same in every call."""
    # The kind is part of the uuid, in hexadecimal, so that uuids in failing tests can be traced.
    return f"{kind.encode().hex():0<8.8}-0000-4000-8000-{number:012d}"


def make_host(number: int = 1) -> Host:
    """Return host `host-N`, with one node of the same name."""
    name = f"host-{number}"
    return Host(uuid=make_uuid("host", number), name=name, node=name)


def make_service(number: int = 1, *, last_seen_s: float = CREATED_AT_S) -> Service:
    """Return the enabled service of `host-N`."""
    return Service(
        host=f"host-{number}",
        service_id=make_uuid("service", number),
        last_seen_s=last_seen_s,
        created_at_s=CREATED_AT_S,
    )


def make_provider(
    number: int = 1, *, vcpus: int = 16, memory_mb: int = 32_768, disk_gb: int = 1_000
) -> Provider:
    """Return the root provider of `host-N`."""
    host = make_host(number)
    return Provider(
        uuid=host.uuid,
        name=host.name,
        inventories={
            VCPU: Inventory(total=vcpus),
            MEMORY_MB: Inventory(total=memory_mb),
            DISK_GB: Inventory(total=disk_gb),
        },
    )


def make_fleet(count: int = 1, *, vcpus: int = 16) -> list[Unit]:
    """Return units that create `host-1` to `host-N`, each with its service and its provider."""
    return [
        (Put(make_host(n)), Put(make_service(n)), Put(make_provider(n, vcpus=vcpus)))
        for n in range(1, count + 1)
    ]


def make_flavor(number: int = 1, *, vcpus: int = 1, memory_mb: int = 512) -> Flavor:
    """Return flavor `flavor-N`."""
    return Flavor(
        flavor_id=str(number),
        name=f"flavor-{number}",
        vcpus=vcpus,
        memory_mb=memory_mb,
        root_gb=1,
    )


def make_instance(number: int = 1, *, host: str | None = None) -> Instance:
    """Return instance `vm-N`, waiting to be scheduled unless it has a host."""
    return Instance(
        uuid=make_uuid("instance", number),
        name=f"vm-{number}",
        project_id="project-1",
        user_id="user-1",
        request_id=f"req-{number}",
        reservation_id=f"r-{number:08d}",
        flavor=make_flavor(),
        host=host,
        node=host,
        created_at_s=CREATED_AT_S + number,
        updated_at_s=CREATED_AT_S + number,
    )


def make_allocation(
    number: int = 1, *, on: int = 1, amounts: Mapping[str, int] | None = None
) -> Allocation:
    """Return the allocation of `vm-N` on the provider of host `on`; one VCPU by default."""
    return Allocation(
        consumer_uuid=make_uuid("instance", number),
        provider_uuid=make_uuid("host", on),
        amounts={VCPU: 1} if amounts is None else amounts,
    )


def make_claim(number: int = 1, *, on: int = 1, amounts: Mapping[str, int] | None = None) -> Claim:
    """Return the claim of `vm-N` on host `on`, with the key `claim-N`."""
    return Claim(
        key=f"claim-{number}", allocations=(make_allocation(number, on=on, amounts=amounts),)
    )


def make_take(number: int = 1, *, on: int = 1, amounts: Mapping[str, int] | None = None) -> Take:
    """Return the write that commits the claim of `vm-N` on host `on`."""
    return Take(make_claim(number, on=on, amounts=amounts))


def make_consumer(number: int = 1) -> Consumer:
    """Return consumer N of type instance, as written by clients of the Placement API."""
    return Consumer(
        uuid=make_uuid("consumer", number),
        project_id="project-1",
        user_id="user-1",
        consumer_type=INSTANCE_TYPE,
        created_at_s=CREATED_AT_S + number,
        updated_at_s=CREATED_AT_S + number,
    )


def make_migration(number: int = 1, *, of: int = 1) -> Migration:
    """Return move N: a resize of instance `of` from `host-1` to `host-2` that has just begun."""
    return Migration(
        uuid=make_uuid("migration", number),
        number=number,
        instance_uuid=make_uuid("instance", of),
        kind=MoveKind.RESIZE,
        stage=Stage.LEAVING,
        source=Place("host-1", "host-1", make_flavor()),
        destination=Place("host-2", "host-2", make_flavor(2, vcpus=2)),
        was=Status.ACTIVE,
        request_id=f"req-{number}",
        project_id="project-1",
        user_id="user-1",
        created_at_s=CREATED_AT_S + number,
        updated_at_s=CREATED_AT_S + number,
    )


def make_moving_consumer(number: int = 1) -> Consumer:
    """Return the consumer of migration N, which holds the allocations on the source at first."""
    return replace(
        make_consumer(number), uuid=make_uuid("migration", number), consumer_type=CONSUMER_TYPE
    )


def make_action(number: int = 1, *, of: int = 1) -> Action:
    """Return the finished resize of instance `of` by request `req-N`; a higher N starts later."""
    started_at_s = CREATED_AT_S + number
    return Action(
        instance_uuid=make_uuid("instance", of),
        request_id=f"req-{number}",
        name="resize",
        project_id="project-1",
        user_id="user-1",
        started_at_s=started_at_s,
        ended_at_s=started_at_s + 2.0,
        events=(ActionEvent("resize_instance", "host-1", started_at_s, started_at_s + 1.0),),
    )


def make_share(
    number: int = 1, *, seen: int | None = None, **vcpus: int | Mapping[str, int]
) -> ConsumerUpdate:
    """Return the update of consumer N's allocations; `on_1=2` means two VCPUs of `host-1`."""
    return ConsumerUpdate(
        consumer=make_consumer(number),
        allocations={
            make_uuid("host", int(name.removeprefix("on_"))): (
                {VCPU: amounts} if isinstance(amounts, int) else amounts
            )
            for name, amounts in vcpus.items()
        },
        seen=seen,
    )


def make_request(number: int = 1, *, count: int = 1) -> Request:
    """Return request `req-N` for instances `vm-N`, `vm-N+1`, ..."""
    return Request(
        request_id=f"req-{number}",
        instance_uuids=tuple(make_uuid("instance", number + n) for n in range(count)),
        flavor=make_flavor(),
        project_id="project-1",
        user_id="user-1",
    )


def make_pending_request(number: int = 1) -> PendingRequest:
    """Return request `req-N`, waiting to be scheduled."""
    return PendingRequest(request=make_request(number), accepted_at_s=CREATED_AT_S + number)


def make_decision(number: int = 1) -> Decision:
    """Return a decision on `req-N`; a higher N is decided later."""
    return Decision(
        request_id=f"req-{number}",
        verdict=Verdict.PLACED,
        policy_name="default",
        policy_hash="0" * 16,
        driver="filter",
        seed=number,
        table_version=number,
        decided_at_s=CREATED_AT_S + number,
        duration_us=100,
        amounts={VCPU: 1},
    )


def make_aggregate(number: int = 1) -> Aggregate:
    """Return aggregate `aggregate-N`, with one host."""
    return Aggregate(
        aggregate_id=number,
        uuid=make_uuid("aggregate", number),
        name=f"aggregate-{number}",
        hosts=frozenset({f"host-{number}"}),
        metadata={"availability_zone": "az-1"},
        created_at_s=CREATED_AT_S,
    )


def make_server_group(number: int = 1) -> ServerGroup:
    """Return server group `group-N` with the anti-affinity policy."""
    return ServerGroup(
        uuid=make_uuid("group", number),
        name=f"group-{number}",
        policy=GroupPolicy.ANTI_AFFINITY,
        project_id="project-1",
    )
