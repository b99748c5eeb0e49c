"""Sends notifications about instances, hosts and services, and about scheduling."""

from collections.abc import Iterator, Sequence

from berth.domain.compute import lifecycle
from berth.domain.compute.decision import Decision
from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Fault, Instance, Status, Task
from berth.domain.compute.instance_action import Action
from berth.domain.compute.request import Request
from berth.domain.errors import BerthError
from berth.domain.ledger.change import Change, Event, RecordRemoved, Snapshot
from berth.domain.ledger.record import Kind
from berth.ports.bus import Notifier, Priority
from berth.services.requests.orders import PlaceOrder, Placer
from berth.services.telemetry.notification_payloads import (
    HostData,
    InstanceData,
    Payload,
    RefusedData,
    SelectedData,
    SelectionData,
    ServiceData,
)

_Seen = tuple[Status, Task | None, str | None, Fault | None]
_EVENT = "scheduler.select_destinations"
# Nova notifies of both actions in the same way, and its history has the names of the requests.
_SNAPSHOT = "snapshot"
_SNAPSHOTS = frozenset({lifecycle.CREATE_IMAGE.action, lifecycle.CREATE_BACKUP.action})


class ChangeNotifications:
    """A subscriber of the change feed that sends notifications about changes.

    The records of the first snapshot cause no notifications. All processes that follow the feed
    give a notification the same key, so readers can drop duplicates.
    """

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._instances: dict[str, _Seen] = {}
        self._hosts: dict[str, Host] = {}
        self._services: dict[str, tuple[bool, bool]] = {}
        self._has_loaded = False

    def load(self, snapshot: Snapshot) -> None:
        """Notify of the differences after a gap in the feed; see `Subscriber.load`.

        Instances that were created and deleted within the gap cause no notifications.
        """
        events: list[Event] = [*snapshot.hosts, *snapshot.services, *snapshot.instances]
        if self._has_loaded:
            here = {host.uuid for host in snapshot.hosts}
            events += [RecordRemoved(Kind.HOST, uuid) for uuid in self._hosts if uuid not in here]
            for event in events:
                self._tell(event, snapshot.version)
            return
        # A restarted process must not repeat the notifications about every instance.
        self._has_loaded = True
        self._instances = {one.uuid: _seen(one) for one in snapshot.instances}
        self._hosts = {one.uuid: one for one in snapshot.hosts}
        self._services = {one.host: (one.disabled, one.forced_down) for one in snapshot.services}

    def apply(self, changes: Sequence[Change]) -> None:
        """See `Subscriber.apply`."""
        for change in changes:
            self._tell(change.event, change.version)

    def _tell(self, event: Event, version: int) -> None:
        match event:
            case Instance():
                self._tell_instance(event, version)
            case Host():
                self._tell_host(event, version)
            case Service():
                self._tell_service(event, version)
            case RecordRemoved(Kind.HOST, uuid):
                gone = self._hosts.pop(uuid, None)
                if gone is not None:
                    self._notify("host.delete", "Host", HostData.of(gone, version), uuid)
            case _:
                pass

    def _tell_instance(self, instance: Instance, version: int) -> None:
        before = self._instances.get(instance.uuid)
        if instance.status is Status.DELETED:
            self._instances.pop(instance.uuid, None)
        else:
            self._instances[instance.uuid] = _seen(instance)
        notifications = [*_happened(before, instance)]
        if notifications:
            data = InstanceData.of(instance, version)
            for what in notifications:
                self._notify(f"instance.{what}", "Instance", data, instance.uuid)

    def _tell_host(self, host: Host, version: int) -> None:
        before = self._hosts.get(host.uuid)
        self._hosts[host.uuid] = host
        # An equal record causes no notification. Heartbeats and usage are in other records.
        if before != host:
            what = "host.create" if before is None else "host.update"
            self._notify(what, "Host", HostData.of(host, version), host.uuid)

    def _tell_service(self, service: Service, version: int) -> None:
        now = service.disabled, service.forced_down
        before = self._services.get(service.host, (False, False))
        self._services[service.host] = now
        if now != before:
            data = ServiceData.of(service, version)
            self._notify("host.service.update", "Service", data, service.host)

    def _notify(
        self, event_type: str, name: str, data: InstanceData | HostData | ServiceData, key: str
    ) -> None:
        # Consumers written for Nova subscribe by priority, so failures need the error queue.
        priority = Priority.ERROR if event_type.endswith(".error") else Priority.INFO
        # The version makes the key the same in every process that follows the feed.
        key = f"{key}:{data.ledger_version}"
        self._notifier.notify(event_type, Payload(name, data), key=key, priority=priority)


def _seen(instance: Instance) -> _Seen:
    return instance.status, instance.task, _name_of(instance.action), instance.fault


def _name_of(action: Action | None) -> str | None:
    # A deletion is notified by the task and the status, whether a user asked for it or not.
    if action is None or action.is_deletion:
        return None
    return _SNAPSHOT if action.name in _SNAPSHOTS else action.name


def _happened(before: _Seen | None, now: Instance) -> Iterator[str]:
    """Yield the names of an instance's events since its last known state."""
    status, task, action, fault = before or (None, None, None, None)
    if status is None and now.status in {Status.BUILD, Status.ERROR}:
        yield "create.start"
        # One change may bring both the start and the end, so the checks below treat the start as
        # known.
        status = Status.BUILD
    if status is Status.BUILD and now.status is Status.ACTIVE:
        yield "create.end"
    if status is Status.BUILD and now.status is Status.ERROR:
        yield "create.error"
    if action is not None and _name_of(now.action) != action:
        # A failed snapshot leaves the status as it is, but it has a fault.
        has_failed = now.status is Status.ERROR or (action == _SNAPSHOT and fault != now.fault)
        yield f"{action}.{'error' if has_failed else 'end'}"
    begun = _name_of(now.action)
    if begun is not None and begun != action:
        yield f"{begun}.start"
    if task is not Task.SOFT_DELETING and now.task is Task.SOFT_DELETING:
        yield "soft_delete.start"
    is_kept = now.status is Status.SOFT_DELETED
    if is_kept and status is not Status.SOFT_DELETED:
        # If the host is down, the instance never has the task, so the start is reported here.
        if task is not Task.SOFT_DELETING:
            yield "soft_delete.start"
        yield "soft_delete.end"
    # A delete whose task was never seen still gets a start, so readers can pair the events.
    is_gone = now.status is Status.DELETED
    if task is not Task.DELETING and (is_gone or now.task is Task.DELETING):
        yield "delete.start"
    if is_gone:
        yield "delete.end"


class NotifyingPlacer:
    """Places orders through another placer, and notifies of the start and the outcome.

    It wraps the placement service only when notifications are enabled, so they cost nothing
    otherwise.

    Args:
        placer: places the orders.
        notifier: receives the notifications.
    """

    def __init__(self, placer: Placer, notifier: Notifier) -> None:
        self._placer = placer
        self._notifier = notifier

    async def place(self, order: PlaceOrder) -> Decision:
        """See `Placer.place`."""
        request = order.request
        start = Payload("SelectDestinationsStart", SelectionData.of(request))
        self._notifier.notify(f"{_EVENT}.start", start, key=request.request_id)
        try:
            decision = await self._placer.place(order)
        except Exception as error:
            # The text of an unexpected error may contain internals, so outside readers do not get
            # it.
            words = str(error) if isinstance(error, BerthError) else "an unexpected failure"
            self._tell_error(request, type(error).__name__, words)
            raise
        if decision.refusal is None:
            end = Payload("SelectDestinationsEnd", SelectedData.of(request, decision))
            self._notifier.notify(f"{_EVENT}.end", end, key=request.request_id)
        else:
            self._tell_error(request, str(decision.refusal.code), decision.refusal.message)
        return decision

    def _tell_error(self, request: Request, code: str, message: str) -> None:
        data = RefusedData(SelectionData.of(request), code, message)
        self._notifier.notify(
            f"{_EVENT}.error",
            Payload("SelectDestinationsError", data),
            key=f"{request.request_id}:{code}",
            priority=Priority.ERROR,
        )
