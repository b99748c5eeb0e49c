"""Creates instances through a scheduler, and reads and deletes them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from berth.domain.compute.decision import ZONE_AWARE_DRIVER, Decision
from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.instance_action import Caller
from berth.domain.compute.migration import Migration
from berth.domain.compute.observed import check_not_observed
from berth.domain.compute.quota import QuotaExceededError
from berth.domain.compute.request import (
    COUNT_MAX,
    Destination,
    Request,
    instance_uuid_of,
    reservation_id_of,
)
from berth.domain.errors import ConflictError, InvalidInputError, NotFoundError, UnavailableError
from berth.domain.ledger.write import Committed, Put, Unit, Write
from berth.ports.bus import Bus
from berth.ports.clock import Clock
from berth.ports.ledger import InstanceQuery, Ledger
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica
from berth.services.requests.child_zone_instances import indexes_in_child_zones, may_be_repeat
from berth.services.requests.orders import PLACE, PlaceOrder, acceptance_writes, split_zone
from berth.services.requests.permissions import check_size
from berth.services.requests.quotas import CreateDefaults, QuotaLimits, check_excess
from berth.services.servers.moves import MoveTarget, resolve_target
from berth.services.servers.teardown import (
    begin_disk_deletion,
    delete_instance,
    deletion_by,
    end_by_deletion,
)

# If no scheduler answers within this many seconds, the order is stored in the ledger as a pending
# request.
_PLACE_TIMEOUT_S = 60.0
_DELETE_TRIES = 5


def _always(_: Instance) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class CreateOrder:
    """An owner's order of `count` instances of a flavor, all or none.

    If the project's quota does not allow `count`, the order is for as many as it allows, but at
    least `count_min` (None means `count`).

    `request_id` makes the order idempotent: a repeat returns the same instances. With `may_repeat`
    earlier instances are looked up first. Administrators may pass `ZONE:HOST` or `ZONE:HOST:NODE`
    as `zone`, which forces the host. With `one_by_one` each instance is placed by itself in the
    background, so one that finds no host does not hold back the others.
    """

    request_id: str
    name: str
    flavor_id: str
    project_id: str
    user_id: str
    count: int = 1
    count_min: int | None = None
    image: Image | None = None
    zone: str | None = None
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    destination: Destination | None = None
    may_repeat: bool = False
    one_by_one: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    extra: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class AcceptedCreate:
    """The instances of an accepted order, and its decision, or None while it is pending."""

    reservation_id: str
    instances: tuple[Instance, ...]
    decision: Decision | None


class Instances:
    """Creates, reads, changes and deletes instances.

    Args:
        ledger: stores the instances and pending requests.
        follower: keeps the replica up to date with the ledger.
        replica: provides flavors, hosts, aggregates and server groups.
        bus: reaches the schedulers.
        clock: provides the times in records.
        terms: the default availability zone and the quotas; None for the defaults of
            `CreateDefaults`.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        follower: Follower,
        replica: Replica,
        bus: Bus,
        clock: Clock,
        terms: CreateDefaults | None = None,
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._replica = replica
        self._bus = bus
        self._clock = clock
        terms = terms or CreateDefaults()
        self._default_zone = terms.default_zone
        self._quota_limits = terms.quota_limits or QuotaLimits(replica)

    async def create(self, order: CreateOrder) -> AcceptedCreate:
        """Accept an order durably, and ask a scheduler to place it.

        If a scheduler answers on the bus, the result contains its decision. Otherwise the order is
        stored in the ledger as a pending request, which a scheduler places later. Refused instances
        are in ERROR, with the reason as their fault.

        Raises:
            InvalidInputError: a field of the order is invalid; nothing was stored.
            ConflictError: the request id was already used for another order.
            QuotaExceededError: the project would exceed its quota; nothing was stored.
            UnavailableError: it is unknown whether the order was accepted; repeat it with the same
                request id.
        """
        if order.may_repeat and await may_be_repeat(
            self._ledger, order.request_id, one_by_one=order.one_by_one
        ):
            earlier = await self._earlier(order)
            if earlier is not None:
                return earlier
        wanted = order
        while True:
            try:
                return await self._create(wanted)
            except QuotaExceededError as error:
                # The error contains how many instances would fit, which `count_min` needs.
                fitting = min(one.fitting(wanted.count) for one in error.excess)
                if fitting < max(1, order.count if order.count_min is None else order.count_min):
                    raise
                wanted = replace(wanted, count=fitting)

    async def _create(self, order: CreateOrder) -> AcceptedCreate:
        """Accept an order that is not known to be a repeat.

        Raises:
            ConflictError: the request id was already used for another order.
        """
        request, instances = await self._records(order)
        await self._quota_limits.check_members(self._ledger, request)
        within = self._quota_limits.within(order.project_id)
        place_order = PlaceOrder(request, instances, within=within)
        try:
            if order.one_by_one:
                return await self._accept(place_order, one_by_one=True)
            decision = await self._ask_scheduler(place_order)
            if decision is None:
                return await self._accept(place_order)
            if _is_about(decision, request):
                return AcceptedCreate(instances[0].reservation_id, instances, decision)
        except ConflictError:
            # An earlier request with the same id may have created these instances, which is checked
            # below.
            pass
        earlier = await self._earlier(order)
        if earlier is None:
            raise ConflictError(
                f"request id {order.request_id} was already used for a different request; send a "
                "new Idempotency-Key"
            )
        return earlier

    async def request_of(self, order: CreateOrder) -> Request:
        """Return the request that a scheduler would receive for an order; nothing is written.

        Raises:
            InvalidInputError: a field of the order is invalid.
            UnavailableError: the ledger cannot be reached.
        """
        request, _ = await self._records(order)
        return request

    async def get(self, uuid: str) -> Instance:
        """Return the instance with the given uuid, even if it is deleted.

        Raises:
            NotFoundError: the ledger has no record of the instance.
            UnavailableError: the ledger cannot be reached.
        """
        instance = await self._ledger.get(Instance, uuid)
        if instance is None:
            raise NotFoundError("instance", uuid)
        return instance

    async def delete(
        self,
        uuid: str,
        caller: Caller | None = None,
        *,
        service_down_time_s: float = math.inf,
        may_delete: Callable[[Instance], bool] = _always,
    ) -> bool:
        """Begin to delete an instance and free its capacity; a delete in progress is not repeated.

        If the compute service of its host is down, its capacity is freed immediately, and the
        host's agent destroys the guest when it comes back.

        Args:
            uuid: the instance.
            caller: the caller of the delete, for the history of the instance; None if no user asked
                for it.
            service_down_time_s: seconds without a heartbeat after which a service is down.
            may_delete: returns whether the instance, as read from the ledger, may be deleted.

        Returns:
            False if a deletion is already in progress or `may_delete` returned False.

        Raises:
            NotFoundError: there is no such instance, or it is already deleted.
            ConflictError: the instance keeps changing, another cloud runs it, or this version of
                Berth does not know its move.
            UnavailableError: the ledger cannot be reached.
        """
        for _ in range(_DELETE_TRIES):
            instance = await self.get(uuid)
            if instance.status is Status.DELETED:
                raise NotFoundError("instance", uuid)
            if not may_delete(instance):
                return False
            check_not_observed(instance)
            host = instance.host
            is_local = host is None or await self._is_down(host, service_down_time_s)
            if instance.task is Task.DELETING and (host is None or not is_local):
                return False
            uuid_of_move = instance.migration_uuid
            move = await self._ledger.get(Migration, uuid_of_move) if uuid_of_move else None
            unit = self._deletion(instance, move, caller, is_local=is_local)
            (outcome,) = await self._ledger.commit([unit])
            if isinstance(outcome, Committed):
                return True
        raise ConflictError(f"cannot delete instance {uuid}: it keeps changing; try again")

    async def save(self, instance: Instance) -> None:
        """Store an instance with changed attributes.

        Raises:
            ConflictError: the stored instance has changed since it was read, or another cloud runs
                it.
            UnavailableError: the ledger cannot be reached.
        """
        check_not_observed(instance)
        now_s = self._clock.now_s()
        (outcome,) = await self._ledger.commit([(Put(replace(instance, updated_at_s=now_s)),)])
        if not isinstance(outcome, Committed):
            raise ConflictError(
                outcome.conflict
                or f"cannot save instance {instance.uuid}: it has changed; read it again"
            )

    async def _is_down(self, host: str, service_down_time_s: float) -> bool:
        known, now_s = self._replica.hosts.services.get(host), self._clock.now_s()
        if known is not None and known.is_up(now_s, service_down_time_s):
            return False
        # The replica may be behind the ledger. If the agent were alive, it would continue its build
        # on capacity that is already free.
        found = await self._ledger.get(Service, host)
        service = None if found is None else self._replica.with_heartbeat(found)
        return service is None or not service.is_up(now_s, service_down_time_s)

    def _deletion(
        self,
        instance: Instance,
        migration: Migration | None,
        caller: Caller | None,
        *,
        is_local: bool,
    ) -> Unit:
        now_s = self._clock.now_s()
        history: list[Write] = []
        begun: list[Write] = []
        # A second delete continues the action of the first.
        if caller is not None and instance.task is not Task.DELETING:
            action = deletion_by(instance, caller, now_s)
            history, begun = end_by_deletion(instance, now_s), [Put(action)]
            instance = replace(instance, action=action)
        if not is_local:
            # The agent destroys the guest first, because freeing the capacity before that could
            # overcommit the host.
            going = replace(instance, task=Task.DELETING, updated_at_s=now_s)
            return (Put(going), *history, *begun)
        if instance.disks is not None:
            return (*begin_disk_deletion(instance, now_s), *history, *begun)
        # This records the action as well, since it ends at once.
        return (*delete_instance(instance, migration, now_s), *history)

    async def _earlier(self, order: CreateOrder) -> AcceptedCreate | None:
        query = InstanceQuery(
            request_id=order.request_id, project_id=order.project_id, deleted=None, limit=COUNT_MAX
        )
        found = {one.launch_index: one for one in await self._ledger.instances(query)}
        below = await indexes_in_child_zones(
            self._ledger, order.request_id, order.project_id, here=found, count=order.count
        )
        if not found and not below:
            return None
        if below:
            _, as_sent = await self._records(replace(order, count=max(below) + 1))
            found |= {index: as_sent[index] for index in below}
        instances = tuple(one for _, one in sorted(found.items()))
        decided = await self._ledger.get(Decision, order.request_id)
        return AcceptedCreate(instances[0].reservation_id, instances, decided)

    async def _ask_scheduler(self, order: PlaceOrder) -> Decision | None:
        """Ask a scheduler to place an order, and return the decision, or None if none answers."""
        if not self._bus.serves(PLACE):
            return None
        try:
            return await self._bus.call(PLACE, order, timeout_s=_PLACE_TIMEOUT_S)
        except UnavailableError:
            return None

    async def _accept(self, order: PlaceOrder, *, one_by_one: bool = False) -> AcceptedCreate:
        unit = acceptance_writes(order, self._clock.now_s(), one_by_one=one_by_one)
        (outcome,) = await self._ledger.commit([unit])
        check_excess(outcome)
        if not isinstance(outcome, Committed):
            raise ConflictError(outcome.conflict or "the request was already accepted")
        return AcceptedCreate(order.instances[0].reservation_id, order.instances, None)

    async def _records(self, order: CreateOrder) -> tuple[Request, tuple[Instance, ...]]:
        if not 1 <= order.count <= COUNT_MAX:
            reason = f"must be between 1 and {COUNT_MAX}, not {order.count}"
            raise InvalidInputError("count", reason)
        flavor = await self._flavor(order.flavor_id)
        if order.image is not None:
            check_size(flavor, order.image)
        zone, host, node = split_zone(order.zone)
        await self.check_zone(zone)
        host = await self._host(host, "availability_zone")
        destination = order.destination
        if destination is not None and (name := await self._host(destination.host, "host")):
            destination = replace(destination, host=name)
        group_uuid = await self._group(order.hints)
        forced = host is not None or order.destination is not None
        instances = self._instances(order, flavor, zone, group_uuid, forced=forced)
        request = Request(
            request_id=order.request_id,
            instance_uuids=tuple(instance.uuid for instance in instances),
            flavor=flavor,
            project_id=order.project_id,
            user_id=order.user_id,
            image=order.image,
            availability_zone=zone,
            hints=order.hints,
            group_uuid=group_uuid,
            destination=destination,
            force_hosts=(host,) if host else (),
            force_nodes=(node,) if node else (),
            name=order.name,
            metadata=order.metadata,
        )
        return request, instances

    def _instances(
        self,
        order: CreateOrder,
        flavor: Flavor,
        zone: str | None,
        group_uuid: str | None,
        *,
        forced: bool,
    ) -> tuple[Instance, ...]:
        now_s = self._clock.now_s()
        reservation_id = reservation_id_of(order.request_id)
        return tuple(
            Instance(
                uuid=instance_uuid_of(order.request_id, index),
                name=order.name if order.count == 1 else f"{order.name}-{index + 1}",
                project_id=order.project_id,
                user_id=order.user_id,
                request_id=order.request_id,
                reservation_id=reservation_id,
                flavor=flavor,
                image=order.image,
                launch_index=index,
                requested_zone=zone,
                forced=forced,
                group_uuid=group_uuid,
                hints=order.hints,
                metadata=order.metadata,
                extra=order.extra,
                created_at_s=now_s,
                updated_at_s=now_s,
            )
            for index in range(order.count)
        )

    async def _flavor(self, flavor_id: str) -> Flavor:
        flavor = self._replica.flavors.get(flavor_id)
        # The flavor may be newer than the replica, which therefore catches up before a refusal.
        if flavor is None and await self._follower.catch_up():
            flavor = self._replica.flavors.get(flavor_id)
        if flavor is None:
            raise InvalidInputError("flavorRef", f"flavor {flavor_id[:80]!r} could not be found")
        return flavor

    async def check_zone(self, zone: str | None) -> None:
        """Check that an availability zone exists; None means any.

        Raises:
            InvalidInputError: there is no such zone.
            UnavailableError: the ledger cannot be reached.
        """
        if zone is None or zone == self._default_zone or self._is_zone(zone):
            return
        await self._follower.catch_up()
        if not self._is_zone(zone):
            raise InvalidInputError(
                "availability_zone",
                f"the requested availability zone {zone[:80]!r} is not available",
            )

    def _is_zone(self, zone: str) -> bool:
        aggregates = self._replica.hosts.aggregates.values()
        return any(zone in aggregate.availability_zones for aggregate in aggregates)

    async def _host(self, name: str | None, field_name: str) -> str | None:
        """Return the exact name of the host that a client wrote in any letter case, or None."""
        if name and not self._replica.hosts.host_names.of_folded_name(name.casefold()):
            await self._follower.catch_up()
        return resolve_target(MoveTarget(name), self._replica.hosts, field_name).host

    async def _group(self, hints: Mapping[str, tuple[str, ...]]) -> str | None:
        named = hints.get("group")
        if not named:
            return None
        first, *others = named
        if others:
            reason = f"must be one server group, not {len(named)}"
            raise InvalidInputError("hints.group", reason)
        if first not in self._replica.hosts.server_groups:
            await self._follower.catch_up()
        if first not in self._replica.hosts.server_groups:
            raise InvalidInputError(
                "hints.group", f"server group {first[:80]!r} could not be found"
            )
        return first


def _is_about(decision: Decision, request: Request) -> bool:
    """Return whether a decision is about this request, and not an earlier one with the same id."""
    if decision.project_id != request.project_id:
        return False
    if decision.refusal is not None:
        return decision.refusal.asked == len(request.instance_uuids)
    if decision.driver == ZONE_AWARE_DRIVER:
        return True  # it has no placements to compare, because each zone knows only its own
    return {one.instance_uuid for one in decision.placements} == set(request.instance_uuids)
