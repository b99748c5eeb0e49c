"""Assignments: the part of the change feed that concerns each host.

A gateway follows the feed once, and every agent that is connected to it gets the instances and
moves that concern its host, and nothing else.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Migration
from berth.domain.compute.turns import is_nowhere
from berth.domain.ledger.change import Change, Snapshot
from berth.ports.gateway import HostView
from berth.ports.ledger import InstanceQuery, Ledger, MigrationQuery

_ALL: Final = 2**31 - 1


@dataclass(eq=False, slots=True)
class Assignment:
    """The subscription of one connected agent to the records that concern its host.

    Attributes:
        host: the name of the host.
        deletes_disks: whether its agent can delete the stored disks of instances on no host.
        deliver: called with each complete view of the host, and with the changes after it.
        waiting: the changes that arrived while the view is being read; None afterwards.
    """

    host: str
    deletes_disks: bool
    deliver: Callable[[HostView], None]
    waiting: list[HostView] | None = field(default_factory=list[HostView])


class Assignments:
    """Subscribes to the change feed and hands each host the records that concern it.

    Args:
        ledger: the ledger, from which the view of a host is read when its agent connects.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._version = 0
        self._by_host: dict[str, list[Assignment]] = {}
        # The assignments whose agents can delete stored disks, in order of connection. Only the
        # first is sent the instances on no host, whose disks it deletes.
        self._disk_deleters: dict[Assignment, None] = {}
        # The moves that have not ended, by uuid.
        self._moves: dict[str, Migration] = {}
        # The instances on no host whose stored disks are to be deleted.
        self._nowhere: dict[str, Instance] = {}
        # The host of each instance that was sent to an agent, which must learn when the instance
        # leaves. Entries of agents that have left stay until the instance changes, which does no
        # harm.
        self._where: dict[str, str] = {}

    async def open(
        self, host: str, deliver: Callable[[HostView], None], *, deletes_disks: bool
    ) -> Assignment:
        """Begin to send an agent the records that concern its host, starting with a complete view.

        Args:
            host: the name of the host.
            deliver: receives the views; it runs on the event loop and must not block.
            deletes_disks: whether the agent can delete the disks of instances on no host.

        Raises:
            UnavailableError: the ledger cannot be reached; the agent must connect again.
        """
        one = Assignment(host, deletes_disks, deliver)
        # Registered before the ledger is read, so no change can be missed in between.
        self._by_host.setdefault(host, []).append(one)
        try:
            view = await self._view(host)
        except BaseException:
            self.close(one)
            raise
        if deletes_disks:
            is_first = not self._disk_deleters
            self._disk_deleters[one] = None
            if is_first:
                view = view.with_instances(self._nowhere.values())
        self._where.update((each.uuid, host) for each in view.instances if each.host == host)
        deliver(view)
        waiting, one.waiting = one.waiting or [], None
        revisions = {instance.uuid: instance.revision for instance in view.instances}
        for changes in waiting:
            self._tell(one, _newer(changes, revisions))
        return one

    def close(self, one: Assignment) -> None:
        """Stop sending records to an agent."""
        others = [other for other in self._by_host.get(one.host, ()) if other is not one]
        if others:
            self._by_host[one.host] = others
        else:
            self._by_host.pop(one.host, None)
        was_first = next(iter(self._disk_deleters), None) is one
        self._disk_deleters.pop(one, None)
        heir = next(iter(self._disk_deleters), None)
        # Another agent deletes the disks that this one was to delete, if it has not done so.
        if was_first and heir is not None and self._nowhere:
            self._tell(heir, HostView(self._version, tuple(self._nowhere.values())))

    def load(self, snapshot: Snapshot) -> None:
        """See `Subscriber.load`. Every connected agent gets a complete view."""
        self._version = snapshot.version
        self._moves = {one.uuid: one for one in snapshot.migrations}
        self._nowhere = {one.uuid: one for one in snapshot.instances if is_nowhere(one)}
        self._where = {}
        instances: dict[str, list[Instance]] = {}
        moves: dict[str, list[Migration]] = {}
        for instance in snapshot.instances:
            if instance.host in self._by_host:
                self._where[instance.uuid] = instance.host
            for host in self._hosts_of(instance):
                instances.setdefault(host, []).append(instance)
        for migration in snapshot.migrations:
            for host in _sides(migration):
                moves.setdefault(host, []).append(migration)
        for host, assigned in self._by_host.items():
            here, there = tuple(instances.get(host, ())), tuple(moves.get(host, ()))
            for one in assigned:
                view = HostView(snapshot.version, here, there, is_complete=True)
                if next(iter(self._disk_deleters), None) is one:
                    view = view.with_instances(self._nowhere.values())
                self._tell(one, view)

    def apply(self, changes: Sequence[Change]) -> None:
        """See `Subscriber.apply`. Each agent gets the changes of all versions together."""
        instances: dict[str, Instance] = {}
        moves: list[Migration] = []
        for change in changes:
            if isinstance(change.event, Instance):
                instances[change.event.uuid] = change.event
            elif isinstance(change.event, Migration):
                moves.append(change.event)
        self._version = changes[-1].version
        # All moves are noted before any instance is processed: a version contains both in any
        # order, and the move determines which hosts its instance concerns.
        for migration in moves:
            self._moves[migration.uuid] = migration
        told: dict[Assignment, tuple[list[Instance], list[Migration]]] = {}
        for migration in moves:
            for one in self._assigned(_sides(migration)):
                told.setdefault(one, ([], []))[1].append(migration)
        for instance in instances.values():
            for one in self._concerned(instance):
                told.setdefault(one, ([], []))[0].append(instance)
        for migration in moves:
            if migration.has_ended:
                self._moves.pop(migration.uuid, None)
        for one, (mine, there) in told.items():
            self._tell(one, HostView(self._version, tuple(mine), tuple(there)))

    def _concerned(self, instance: Instance) -> list[Assignment]:
        """Return the agents that must learn of an instance, which it concerns now or did before."""
        hosts, before = self._hosts_of(instance), self._where.pop(instance.uuid, None)
        if instance.host in self._by_host and instance.status is not Status.DELETED:
            self._where[instance.uuid] = instance.host
        if before is not None and before not in hosts:
            hosts.append(before)
        found = dict.fromkeys(self._assigned(hosts))
        if is_nowhere(instance):
            self._nowhere[instance.uuid] = instance
            found |= dict.fromkeys(list(self._disk_deleters)[:1])
        else:
            self._nowhere.pop(instance.uuid, None)
        return list(found)

    def _hosts_of(self, instance: Instance) -> list[str]:
        hosts = [] if instance.host is None else [instance.host]
        migration = self._moves.get(instance.migration_uuid or "")
        return hosts if migration is None else list(dict.fromkeys((*hosts, *_sides(migration))))

    def _assigned(self, hosts: Collection[str]) -> list[Assignment]:
        return [one for host in hosts for one in self._by_host.get(host, ())]

    def _tell(self, one: Assignment, view: HostView) -> None:
        if one.waiting is not None:
            one.waiting.append(view)
        elif view.is_complete or view.instances or view.migrations:
            one.deliver(view)

    async def _view(self, host: str) -> HostView:
        """Read the complete view of a host from the ledger."""
        version = await self._ledger.version()
        here = await self._ledger.instances(InstanceQuery(host=host, limit=_ALL))
        moves = await self._ledger.migrations(MigrationQuery(host=host, is_live=True, limit=_ALL))
        found = {one.uuid: one for one in here}
        for migration in moves:
            if migration.instance_uuid not in found:
                instance = await self._ledger.get(Instance, migration.instance_uuid)
                # A deleted instance may have left a guest here, which its move cleans up.
                if instance is not None and instance.status is not Status.DELETED:
                    found[instance.uuid] = instance
        return HostView(version, tuple(found.values()), tuple(moves), is_complete=True)


def _sides(migration: Migration) -> tuple[str, ...]:
    return tuple({migration.source.host: None, migration.destination.host: None})


def _newer(view: HostView, revisions: dict[str, int]) -> HostView:
    """Return changes without the instances that a complete view had in the same state or newer."""
    if view.is_complete:
        return view
    left: Iterable[Instance] = (
        one for one in view.instances if one.revision > revisions.get(one.uuid, -1)
    )
    return HostView(view.version, tuple(left), view.migrations)
