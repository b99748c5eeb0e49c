"""Moves of instances: their requests, and the writes with which a decision starts them.

The allocations of the instance pass to the migration, and the instance claims others on the
destination. The unit that starts the move does both, so nothing is held twice or lost.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from berth.domain.compute.decision import Decision, Placement
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Fault, Instance, Task
from berth.domain.compute.instance_action import ActionEvent
from berth.domain.compute.migration import CONSUMER_TYPE, Migration, MoveKind, Place, Stage
from berth.domain.compute.request import Destination, Operation, Request
from berth.domain.errors import InvalidInputError
from berth.domain.fast_replace import fast_replace
from berth.domain.hardware.assignment import allocations_by_provider
from berth.domain.inventory.allocation import INSTANCE_TYPE, Allocation, Claim, Consumer
from berth.domain.ledger.write import Add, Free, Put, Take, TransferAllocations, Write
from berth.domain.uuids import named_uuid
from berth.scheduling.rules.rule import resident_of
from berth.services.replica.replica import Hold
from berth.tables.host.hosts import HostTable
from berth.tables.host.resident_columns import Attributes

NO_VALID_HOST: Final = 500
"""The code in the fault of an instance for which no host was found, as in Nova's API."""

_KINDS: Final[Mapping[Operation, MoveKind]] = {
    Operation.RESIZE: MoveKind.RESIZE,
    Operation.MIGRATE: MoveKind.COLD,
    Operation.LIVE_MIGRATE: MoveKind.LIVE,
    Operation.EVACUATE: MoveKind.EVACUATION,
}
# The operation that requests each kind of move.
OPERATIONS: Final[Mapping[MoveKind, Operation]] = {kind: one for one, kind in _KINDS.items()}

_FIRST: Final[Mapping[MoveKind, tuple[Stage, Task]]] = {
    MoveKind.RESIZE: (Stage.LEAVING, Task.RESIZE_MIGRATING),
    MoveKind.COLD: (Stage.LEAVING, Task.RESIZE_MIGRATING),
    MoveKind.LIVE: (Stage.PREPARING, Task.MIGRATING),
    MoveKind.EVACUATION: (Stage.ARRIVING, Task.REBUILDING),
}

# The task of an instance while a request about it is pending, by the request's operation.
AWAITING: Final[Mapping[Operation, Task]] = {
    Operation.CREATE: Task.SCHEDULING,
    Operation.RETRY: Task.SCHEDULING,
    Operation.RESIZE: Task.RESIZE_PREP,
    Operation.MIGRATE: Task.RESIZE_PREP,
    Operation.LIVE_MIGRATE: Task.MIGRATING,
    Operation.EVACUATE: Task.REBUILDING,
    Operation.UNSHELVE: Task.UNSHELVING,
}


@dataclass(frozen=True, slots=True)
class MoveTarget:
    """The requested destination of an instance.

    `host` is the name of a host, or None for any. `zone` is the availability zone for an unshelve:
    None keeps the current one, and an empty string means any. With `forced` the filters are
    skipped.
    """

    host: str | None = None
    node: str | None = None
    zone: str | None = None
    forced: bool = False


def resolve_target(target: MoveTarget, hosts: HostTable, field: str = "host") -> MoveTarget:
    """Return a target with the host's exact name, which clients may write in any letter case.

    Raises:
        InvalidInputError: there is no such host.
    """
    name = target.host
    if name is None or hosts.host_names.of_name(name):
        return target
    rows = hosts.host_names.of_folded_name(name.casefold())
    if not rows:
        raise InvalidInputError(field, f"compute host {name[:80]!r} could not be found")
    return replace(target, host=hosts.name(min(rows)))


def request_to_move(
    instance: Instance,
    operation: Operation,
    target: MoveTarget,
    request_id: str,
    *,
    flavor: Flavor | None = None,
    may_stay: bool = False,
) -> Request:
    """Return the request for a scheduler to choose a host for an existing instance.

    Args:
        instance: the instance to move or unshelve.
        operation: the reason for the move.
        target: the requested host, if any.
        request_id: the id of the new request.
        flavor: the size on the new host, or None for the current one.
        may_stay: whether the current host is also allowed.

    Raises:
        InvalidInputError: the instance is already on the target, or a spec cannot be parsed.
    """
    source, wanted = instance.host, target.host
    if wanted is not None and wanted == source:
        raise InvalidInputError("host", "the instance is already on this host; choose another")
    request = Request(
        request_id=request_id,
        instance_uuids=(instance.uuid,),
        flavor=flavor or instance.flavor,
        project_id=instance.project_id,
        user_id=instance.user_id,
        image=instance.image,
        availability_zone=instance.requested_zone,
        hints=instance.hints,
        group_uuid=instance.group_uuid,
        destination=Destination(wanted, target.node) if wanted and not target.forced else None,
        force_hosts=(wanted,) if wanted and target.forced else (),
        ignore_hosts=() if may_stay or source is None else (source,),
        operation=operation,
        name=instance.name,
        metadata=instance.metadata,
    )
    _ = request.needs  # raises for specs that the scheduler could not parse
    return request


def is_move(request: Request) -> bool:
    """Return whether a request moves an instance that already has a host."""
    return request.operation in _KINDS


def migration_uuid_of(request: Request) -> str:
    """Return the uuid of the migration that a request starts."""
    return named_uuid(f"migration:{request.request_id}")


def hold_of_move(
    placement: Placement, decision: Decision, request: Request, instance: Instance
) -> Hold:
    """Return the hold on the destination, which lasts until the feed delivers the move."""
    resident = resident_of(request, migration_uuid_of(request), placement.assignment)
    # The hold of a move is only about capacity, as rules must not count its instance twice.
    resident = replace(resident, image_properties={}, is_move=True)
    if (instance.host, instance.node) == (placement.host, placement.node):
        resident = replace(resident, group_uuid=None, building=False, counts=False)
    attributes = Attributes(instance.project_id, instance.user_id)
    return Hold(resident, placement.provider_uuid, decision.amounts, attributes)


def start_move(
    request: Request, instance: Instance, decision: Decision, number: int
) -> list[Write]:
    """Return the writes that claim the destination and start the move.

    Args:
        request: the request.
        instance: the record at the time of the request.
        decision: the decision, with one placement.
        number: the migration's id for clients.
    """
    (placement,) = decision.placements
    migration = _migration(request, instance, decision, number)
    holder = holder_of_move(migration, decision.decided_at_s)
    gives = allocations_by_provider(placement.provider_uuid, decision.amounts, placement.assignment)
    allocations = [Allocation(instance.uuid, uuid, amounts) for uuid, amounts in gives.items()]
    leaving = replace(
        instance,
        task=_FIRST[migration.kind][1],
        migration_uuid=migration.uuid,
        alternates=placement.alternates,
        decision_id=decision.request_id,
        updated_at_s=decision.decided_at_s,
    )
    return [
        # The transfer comes first, so the instance can claim under its own uuid in the same unit.
        TransferAllocations(instance.uuid, holder, must_hold=False),
        Take(Claim(request.request_id, tuple(allocations))),
        Add(migration),
        Put(leaving),
    ]


def holder_of_move(migration: Migration, now_s: float) -> Consumer:
    """Return the consumer that holds the allocations of a move that its instance does not hold."""
    return Consumer(
        migration.uuid,
        migration.project_id,
        migration.user_id,
        CONSUMER_TYPE,
        created_at_s=now_s,
        updated_at_s=now_s,
    )


def _migration(request: Request, instance: Instance, decision: Decision, number: int) -> Migration:
    (placement,) = decision.placements
    kind, at_s = _KINDS[request.operation], decision.decided_at_s
    source = Place(instance.host or "", instance.node or "", instance.flavor, instance.assignment)
    destination = Place(placement.host, placement.node, request.flavor, placement.assignment)
    return Migration(
        uuid=migration_uuid_of(request),
        number=number,
        instance_uuid=instance.uuid,
        kind=kind,
        stage=_FIRST[kind][0],
        source=source,
        destination=destination,
        was=instance.status,
        request_id=request.request_id,
        project_id=instance.project_id,
        user_id=instance.user_id,
        forced=request.destination is not None or bool(request.force_hosts),
        retried=request.retried,
        group_uuid=instance.group_uuid,
        stays_off=request.stays_off,
        created_at_s=at_s,
        updated_at_s=at_s,
    )


def undo_claim(migration: Migration, instance: Instance) -> list[Write]:
    """Return the writes that undo a move's claim and give the instance its old allocations."""
    owner = Consumer(instance.uuid, instance.project_id, instance.user_id, INSTANCE_TYPE)
    return [Free(instance.uuid), TransferAllocations(migration.uuid, owner, must_hold=False)]


def fault_of(decision: Decision, now_s: float, sentence: str = "") -> Fault:
    """Return the fault that gives the reasons for a refusal, followed by `sentence`."""
    refusal = decision.refusal
    fault = Fault(
        code=NO_VALID_HOST,
        message=refusal.message if refusal else "",
        created_at_s=now_s,
        summary=refusal.summary if refusal else "",
        hints=refusal.hints if refusal else "",
    )
    return with_sentence(fault, sentence) if sentence else fault


def with_sentence(fault: Fault, sentence: str) -> Fault:
    """Return a fault whose message and hints end with one more sentence."""
    message, hints = (f"{text} {sentence}".strip() for text in (fault.message, fault.hints))
    return replace(fault, message=message, hints=hints)


def refuse_move(
    request: Request, instance: Instance, decision: Decision, fault: Fault
) -> list[Write]:
    """Return the writes that end a refused move, with the reason in the instance's history.

    The instance keeps its status and its host.
    """
    failed = len(request.retried)
    if failed:
        hosts = "host" if failed == 1 else "hosts"
        fault = with_sentence(fault, f"The move failed on {failed} {hosts} before.")
    details = instance.fault.details if failed and instance.fault else ""
    fault = replace(fault, details=details)
    return end_task(
        replace(instance, fault=fault, decision_id=decision.request_id, migration_uuid=None),
        fault.created_at_s,
        message=fault.message,
    )


def end_task(
    instance: Instance,
    now_s: float,
    *,
    message: str = "",
    event: ActionEvent | None = None,
    **changes: object,
) -> list[Write]:
    """Return the writes that end an instance's task and the action that it belongs to.

    Args:
        instance: the new record, except for `changes`.
        now_s: Unix seconds.
        message: the failure, addressed to the owner, or empty on success.
        event: the last step of the action, or None.
        changes: further changed fields of the instance.
    """
    done = fast_replace(instance, task=None, action=None, updated_at_s=now_s, **changes)
    # Once the move is over, the quota charges the instance at its own size again.
    if done.counts_as is not None and done.migration_uuid is None:
        done = fast_replace(done, counts_as=None)
    action = instance.action
    if action is None:
        return [Put(done)]
    events = action.events if event is None else (*action.events, event)
    return [Put(done), Put(replace(action, ended_at_s=now_s, message=message, events=events))]


def continue_task(
    instance: Instance, now_s: float, *, event: ActionEvent | None = None, **changes: object
) -> list[Write]:
    """Return the writes that record one step of an action that continues; see `end_task`."""
    action = instance.action
    if action is None or event is None:
        return [Put(fast_replace(instance, updated_at_s=now_s, **changes))]
    further = replace(action, events=(*action.events, event))
    return [
        Put(fast_replace(instance, action=further, updated_at_s=now_s, **changes)),
        Put(further),
    ]


@contextmanager
def outside_server_group(hosts: HostTable, instance_uuid: str) -> Generator[None, None, None]:
    """Take an instance out of its server group in the host table until the context ends."""
    occupant = hosts.occupants.by_uuid.get(instance_uuid)
    if occupant is None or occupant.group_uuid is None:
        yield
        return
    host_uuid = hosts.host(occupant.row).uuid
    attributes = hosts.occupants.attributes(instance_uuid)
    hosts.put_instance(host_uuid, replace(occupant.resident, group_uuid=None), attributes)
    try:
        yield
    finally:
        hosts.put_instance(host_uuid, occupant.resident, attributes)
