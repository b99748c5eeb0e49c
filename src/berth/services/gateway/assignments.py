"""Assignments: the part of the change feed that concerns each host.

A gateway follows the feed once, and every agent that is connected to it gets the instances and
moves that concern its host, and nothing else.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.migration import Migration
from berth.domain.compute.turns import as_any_host_sees, is_nowhere
from berth.domain.ledger.change import Change, Snapshot
from berth.ports.gateway import HostView
from berth.ports.ledger import InstanceQuery, Ledger
from berth.services.replica.replica import Replica

_ALL: Final = 2**31 - 1


@dataclass(eq=False, slots=True)
class Assignment:
    """The subscription of one connected agent to the records that concern its host.

    Attributes:
        host: the name of the host.
        deletes_disks: whether its agent can delete the stored disks of instances on no host.
        deliver: called with each complete view of the host, and with the changes after it.
        waiting: the views that arrived before the first complete view was delivered; None after
            that.
    """

    host: str
    deletes_disks: bool
    deliver: Callable[[HostView], None]
    waiting: list[HostView] | None = field(default_factory=list[HostView])


class Assignments:
    """Subscribes to the change feed and hands each host the records that concern it.

    It must follow the replica among the subscribers of the feed.

    Args:
        ledger: the ledger, from which the instances of a host are read when its agent connects.
        replica: tells which hosts have no instances, and need no read.
    """

    def __init__(self, ledger: Ledger, replica: Replica) -> None:
        self._ledger = ledger
        self._replica = replica
        self._version = 0
        self._by_host: dict[str, list[Assignment]] = {}
        # The assignments whose agents can delete stored disks, in order of connection. Only the
        # first is sent the instances on no host, whose disks it deletes.
        self._disk_deleters: dict[Assignment, None] = {}
        # The moves that have not ended, by uuid, and those from or to each host.
        self._moves: dict[str, Migration] = {}
        self._moves_of: dict[str, dict[str, Migration]] = {}
        # How many views are being read, and the instances that have changed meanwhile.
        self._reading = 0
        self._changed: dict[str, Instance] = {}
        # The instances on no host whose stored disks are to be deleted.
        self._nowhere: dict[str, Instance] = {}
        # By the uuid of an instance, the hosts whose agents were told that it is on them; these
        # agents must learn when it leaves. There may be several, since a first view may be ahead of
        # the feed.
        # Entries of disconnected agents stay until the instance changes, which does no harm.
        self._where: dict[str, tuple[str, ...]] = {}

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
        # The assignment is registered before the ledger is read, so that no change in between is
        # missed. The agent has reported its host before, so this process knows all that the agent
        # may know.
        self._by_host.setdefault(host, []).append(one)
        moves = tuple(self._moves_of.get(host, {}).values())
        here: dict[str, Instance] = {}
        version = self._version
        if moves or self._replica.may_have_instances(host):
            try:
                here = await self._read(host, moves)
            except BaseException:
                self.close(one)
                raise
        view = HostView(version, tuple(here.values()), moves, is_complete=True)
        if deletes_disks:
            is_first = not self._disk_deleters
            self._disk_deleters[one] = None
            if is_first:
                view = view.with_instances(self._nowhere.values())
        for each in view.instances:
            if each.host == host:
                hosts = self._where.get(each.uuid, ())
                self._where[each.uuid] = hosts if host in hosts else (*hosts, host)
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
        """See `Subscriber.load`. Every connected agent receives a complete view."""
        self._version = snapshot.version
        self._moves, self._moves_of = {}, {}
        for migration in snapshot.migrations:
            self._put_move(migration)
        self._nowhere = {
            one.uuid: as_any_host_sees(one) for one in snapshot.instances if is_nowhere(one)
        }
        self._where = {}
        instances: dict[str, list[Instance]] = {}
        for instance in snapshot.instances:
            if instance.host in self._by_host:
                self._where[instance.uuid] = (instance.host,)
            for host in self._hosts_of(instance):
                instances.setdefault(host, []).append(instance)
        for host, assigned in self._by_host.items():
            here = tuple(instances.get(host, ()))
            there = tuple(self._moves_of.get(host, {}).values())
            for one in assigned:
                view = HostView(snapshot.version, here, there, is_complete=True)
                if next(iter(self._disk_deleters), None) is one:
                    view = view.with_instances(self._nowhere.values())
                self._tell(one, view)

    def apply(self, changes: Sequence[Change]) -> None:
        """See `Subscriber.apply`. Each agent receives the changes of all versions together."""
        events = [change.event for change in changes]
        instances = {one.uuid: one for one in events if isinstance(one, Instance)}
        moves = [one for one in events if isinstance(one, Migration)]
        self._version = changes[-1].version
        if self._reading:
            self._changed |= instances
        # All moves are noted before any instance is processed: a version contains both in any
        # order, and the move determines which hosts its instance concerns.
        for migration in moves:
            self._put_move(migration)
        views: dict[Assignment, tuple[list[Instance], list[Migration]]] = {}
        for migration in moves:
            for one in self._assigned(_sides(migration)):
                views.setdefault(one, ([], []))[1].append(migration)
        for instance in instances.values():
            for one in self._concerned(instance):
                shown = self._nowhere.get(instance.uuid, instance)
                views.setdefault(one, ([], []))[0].append(shown)
        for migration in moves:
            if migration.has_ended:
                self._drop_move(migration)
        for one, (its_instances, its_moves) in views.items():
            self._tell(one, HostView(self._version, tuple(its_instances), tuple(its_moves)))

    def _concerned(self, instance: Instance) -> list[Assignment]:
        """Return the agents that an instance concerns now or concerned before its change."""
        hosts, before = self._hosts_of(instance), self._where.pop(instance.uuid, ())
        if instance.host in self._by_host and instance.status is not Status.DELETED:
            self._where[instance.uuid] = (instance.host,)
        found = dict.fromkeys(self._assigned(dict.fromkeys((*hosts, *before))))
        if is_nowhere(instance):
            self._nowhere[instance.uuid] = as_any_host_sees(instance)
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

    def _put_move(self, migration: Migration) -> None:
        self._moves[migration.uuid] = migration
        for host in _sides(migration):
            self._moves_of.setdefault(host, {})[migration.uuid] = migration

    def _drop_move(self, migration: Migration) -> None:
        self._moves.pop(migration.uuid, None)
        for host in _sides(migration):
            here = self._moves_of.get(host, {})
            here.pop(migration.uuid, None)
            if not here:
                self._moves_of.pop(host, None)

    async def _read(self, host: str, moves: Iterable[Migration]) -> dict[str, Instance]:
        """Read the instances on a host, and those that its moves are about."""
        self._reading += 1
        try:
            here = await self._ledger.instances(InstanceQuery(host=host, limit=_ALL))
            found = {one.uuid: one for one in here}
            for migration in moves:
                if migration.instance_uuid not in found:
                    instance = await self._ledger.get(Instance, migration.instance_uuid)
                    # A deleted instance may have left a guest here, which its move cleans up.
                    if instance is not None and instance.status is not Status.DELETED:
                        found[instance.uuid] = instance
            for uuid, instance in list(found.items()):
                newer = self._changed.get(uuid, instance)
                # An instance that left the host during the read no longer concerns its agent, and
                # no later change would say so.
                if newer.revision > instance.revision and host not in self._hosts_of(newer):
                    del found[uuid]
        finally:
            self._reading -= 1
            if not self._reading:
                self._changed.clear()
        return found


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
