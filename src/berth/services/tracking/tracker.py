"""The instance tracker, which checks the instance lists of hosts and repairs wrong ones."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from berth.domain.compute.decision import Decision, Placement
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy
from berth.domain.errors import BerthError
from berth.domain.ledger.change import Change, Snapshot
from berth.ports.bus import Bus
from berth.ports.clock import Clock
from berth.ports.measures import (
    DOUBTED_HOSTS,
    INSTANCE_MESSAGES,
    INSTANCE_RELOADS,
    UNREPORTED_HOSTS,
)
from berth.ports.telemetry import Metrics, Reading, Telemetry
from berth.scheduling.plan.instance_rules import reads_instances
from berth.services.decisions.decisions import PolicyInForce
from berth.services.decisions.device_locks import hosts_with_choices
from berth.services.replica.instance_overlay import place_of, with_attributes
from berth.services.tracking.doubtful_lists import (
    NEWEST,
    NOTHING_LEFT_OUT,
    DecisionBasis,
    DoubtfulLists,
)
from berth.services.tracking.host_messages import HostMessages, MessageKind
from berth.services.tracking.list_reload import LedgerView, ListReloader, hosts_with_wrong_members
from berth.services.tracking.lists import list_digest
from berth.services.tracking.messages import (
    InstancesDeleted,
    InstancesUpdated,
    Message,
    serve_messages,
)
from berth.tables.host.orphans import LocatedResident

__all__ = ["InstanceTracker", "LedgerView", "TrackingPace"]

# An agent that is silent for this many sync intervals counts as not reporting. Three syncs may thus
# be lost or late.
_SILENT_INTERVALS: Final = 3.5
_AT_ONCE: Final = 16
_ROUNDS: Final = 3
_HARD: Final = (GroupPolicy.AFFINITY, GroupPolicy.ANTI_AFFINITY)


@dataclass(frozen=True, slots=True)
class TrackingPace:
    """The interval of the agents' syncs, and the time for which a list is in doubt before a reload.

    Within `patience_s` a late message may settle a doubt without a reload. A decision does not wait
    for that: it has the list reloaded immediately.
    """

    sync_interval_s: float = 120.0
    patience_s: float = 1.0


_PACE: Final = TrackingPace()


class InstanceTracker:
    """Receives the agents' casts about their instances.

    It must come after the replica in the follower's list of subscribers, because it reads the
    changes in the host table.

    When the feed is the source, the table has all instances from it, and the casts are compared
    with the table. When casts are the source, the table has the instances of reporting hosts from
    casts only, and those of other hosts from the feed, which is read for each request. A list that
    differs from its agent's digest is doubtful, and no decision uses the list until a later report
    agrees with it, or the list has been reloaded from the ledger.

    Args:
        view: the ledger, and the process's replica of it.
        policies: the rules in force, which determine whether instances are read at all.
        clock: provides the time of day.
        telemetry: receives events about wrong lists and silent agents, and failures to read lists.
        pace: the intervals of agents and repairs.
        by_casts: whether casts are the source of instances.
        metrics: counts messages and reloads, or None if the process has no metrics.
    """

    def __init__(  # noqa: PLR0913 - each parameter is one collaborator
        self,
        view: LedgerView,
        policies: PolicyInForce,
        clock: Clock,
        telemetry: Telemetry,
        pace: TrackingPace = _PACE,
        *,
        by_casts: bool = False,
        metrics: Metrics | None = None,
    ) -> None:
        self._view = view
        self._policies = policies
        self._clock = clock
        self._telemetry = telemetry
        self._pace = pace
        self._by_casts = by_casts
        self._metrics = metrics
        self._host_messages: dict[str, HostMessages] = {}
        # Hosts with messages that wait for the table; a dict keeps their order.
        self._waiting: dict[str, None] = {}
        self._doubts = DoubtfulLists()
        self._reloading = ListReloader(view)
        # How often a host has begun to report or fallen silent. The number is a part of the key of
        # `_unheard`, the cached names of the hosts that do not report.
        self._changes = 0
        self._unheard: tuple[tuple[int, int], frozenset[str]] = ((-1, -1), frozenset())

    # ---- messages -----------------------------------------------------------------------------

    def serve(self, bus: Bus, name: str) -> Callable[[], None]:
        """Serve casts under this scheduler's unique name; return the function that stops it."""
        return serve_messages(bus, name, self.hear)

    def load(self, snapshot: Snapshot) -> None:  # noqa: ARG002 - the replica has loaded it
        """Forget all messages, and which lists were in doubt; see `Subscriber.load`."""
        self._doubts = DoubtfulLists()
        self._waiting.clear()
        self._host_messages.clear()
        self._changes += 1

    def apply(self, changes: Sequence[Change]) -> None:
        """See `Subscriber.apply`; the replica has already applied the changes."""
        self._note_losses()
        if self._waiting:
            self._take_waiting(changes[-1].version)

    def hear(self, message: Message) -> None:
        """Process a message now, or when the feed has delivered the version of its list."""
        head = message.head
        received = self._host_messages.setdefault(head.host, HostMessages())
        if head.version <= self._view.version and not received.waits:
            self._take(received, message)
        elif received.wait(message, self._clock.now_s()):
            self._waiting[head.host] = None
        else:
            self._waiting.pop(head.host, None)
            self._doubt(head.host)

    def _take_waiting(self, version: int) -> None:
        for host in list(self._waiting):
            received = self._host_messages[host]
            for message in received.due(version):
                # An unreadable message may have removed the host's state.
                self._take(self._host_messages.setdefault(host, received), message)
            if received.waits and host in self._host_messages:
                self._waiting[host] = None
            else:
                self._waiting.pop(host, None)

    def _take(self, received: HostMessages, message: Message) -> None:
        head, hosts = message.head, self._view.hosts
        if not (hosts.host_names.of_name(head.host) or hosts.orphans.on(head.host)):
            self._count("unknown")
            self._unhear(head.host)
            return
        kind, lost = received.take(head)
        if lost:
            self._count("lost", lost)
        if kind is MessageKind.UNREADABLE:
            self._count(kind)
            self._unhear(head.host)
            return
        self._changes += not received.heard_s
        received.heard_s = self._clock.now_s()
        overlay = self._view.overlay.hosts
        if self._by_casts and head.host not in overlay:
            # Until now the feed was the source of this host's list, up to the table's version.
            overlay.add(head.host)
            received.version = self._view.version
            kind = MessageKind.REPEATED if head.version < received.version else kind
        if kind is MessageKind.REPEATED:
            self._count(kind)
            return
        if self._by_casts:
            self._write(message)
        self._compare(message)

    def _compare(self, message: Message) -> None:
        """Compare the table's list of a host with its agent's digest; doubt a list that differs."""
        head = message.head
        here = self._view.overlay.residents_on(self._view.hosts, head.host, head.version)
        if (
            len(here) != head.count
            or list_digest(with_attributes(self._view.hosts, here)) != head.digest
        ):
            self._count("differed")
            self._doubt(head.host, head.version)
            return
        self._count("agreed")
        self._doubts.agree(head.host, head.version)

    def _write(self, message: Message) -> None:
        """Write the instances in a message to the table."""
        view, head = self._view, message.head
        gone: Iterable[str] = ()
        if isinstance(message, InstancesUpdated):
            for one in message.told:
                located = LocatedResident(one.resident, head.host, one.node, one.attributes)
                if not self._is_elsewhere(located, head.version):
                    view.overlay.put(view.hosts, located, head.version)
            gone = message.gone
            if message.is_full:
                here = view.overlay.residents_on(view.hosts, head.host, head.version)
                gone = here.keys() - {one.uuid for one in message.told}
        elif isinstance(message, InstancesDeleted):
            gone = message.gone
        for uuid in gone:
            view.overlay.remove(view.hosts, uuid, head.host, head.version)
        self._note_losses()

    def _is_elsewhere(self, located: LocatedResident, version: int) -> bool:
        """Return whether an instance is known to be on another host at a version or later."""
        place = place_of(self._view.hosts, located.uuid)
        if place is None or place == located.name:
            return False
        if place not in self._view.overlay.hosts:
            return True  # the feed is the source there, and the table is newer than the message
        return self._host_messages[place].version >= version

    # ---- doubts -------------------------------------------------------------------------------

    @property
    def is_in_doubt(self) -> bool:
        """Whether a decision has to call `settle` first."""
        return self._by_casts or bool(self._doubts)

    @property
    def doubted(self) -> frozenset[str]:
        """The names of the hosts with doubtful lists."""
        return self._doubts.hosts

    async def settle(self, request: Request) -> DecisionBasis:
        """Reload the doubtful lists before a decision, and return the basis of the decision.

        The decision must leave out hosts whose lists could not be read from the ledger.
        """
        # A policy without instance rules needs no list, so it does not wait for reloads.
        if not reads_instances(self._policies.policy, request):
            return NOTHING_LEFT_OUT
        left_out = frozenset[str]()
        seen: int | None = None
        if self._by_casts:
            try:
                unheard = self.unheard()
                if unheard:
                    await self._view.follower.catch_up()
                seen = await self._check_group(request)
            except BerthError as error:
                self._telemetry.failure(
                    "instance_list_read_failed", error, hosts=len(self.unheard())
                )
                left_out = self.unheard()
                # The group's members are unknown, so version 0 makes its guard reject every claim.
                seen = None if request.group_uuid is None else 0
        # Messages that arrive during a reload may cause new doubts. Hosts that are still doubtful
        # after the last round are left out.
        for _ in range(_ROUNDS):
            if not self._doubts or not await self._reload(self._doubts.hosts):
                break
        return DecisionBasis(left_out | self.doubted, seen)

    def dated(self, decision: Decision, settled: DecisionBasis) -> Decision:
        """Return a decision dated by the oldest version of the data that it depends on.

        When casts are the source, the feed does not deliver new group members or device
        assignments, so the ledger's guards would accept a stale decision at the table's version.
        """
        versions = [decision.table_version]
        if settled.seen is not None:
            versions.append(settled.seen)
        for uuid in hosts_with_choices(decision.placements) if self._by_casts else ():
            name = self._name_of(uuid)
            if name in self._view.overlay.hosts:
                versions.append(self._host_messages[name].version)
        # The guards compare with one version, so the oldest source decides.
        least = min(versions)
        if least == decision.table_version:
            return decision
        return replace(decision, table_version=least)

    def note_stale(self, placements: Iterable[Placement]) -> None:
        """Mark as doubtful the lists of the hosts whose CPUs or devices the placements use.

        The ledger rejected the claim, because another scheduler took CPUs or devices there.
        """
        for uuid in hosts_with_choices(placements):
            name = self._name_of(uuid)
            if name in self._view.overlay.hosts:
                self._doubt(name)

    async def run(self) -> None:
        """Repair lists that stay doubtful, and notice silent agents; this never returns."""
        silent_s = self._pace.sync_interval_s * _SILENT_INTERVALS
        looked_s = self._clock.now_s()
        while True:
            await self._clock.sleep(self._pace.patience_s)
            now_s = self._clock.now_s()
            await self._reload(self._doubts.since(now_s - self._pace.patience_s))
            if now_s - looked_s >= self._pace.sync_interval_s:
                looked_s = now_s
                self._note_silence(now_s - silent_s)

    def unheard(self) -> frozenset[str]:
        """Return the names of the hosts whose agents do not report."""
        hosts = self._view.hosts
        key = hosts.membership_epoch, self._changes
        if self._unheard[0] != key:
            names = {hosts.name(int(row)) for row in hosts.alive_rows()}
            heard = {host for host, received in self._host_messages.items() if received.heard_s}
            self._unheard = key, frozenset(names - heard)
        return self._unheard[1]

    def read(self) -> list[Reading]:
        """Return the gauges: the numbers of hosts that do not report, and of doubtful hosts."""
        return [
            Reading(UNREPORTED_HOSTS, len(self.unheard())),
            Reading(DOUBTED_HOSTS, len(self._doubts.hosts)),
        ]

    def _doubt(self, host: str, until: int = NEWEST) -> None:
        self._doubts.add(host, self._clock.now_s(), until)

    def _note_losses(self) -> None:
        """Mark hosts that have lost instances as doubtful, until their agents report the loss."""
        outdated = self._view.overlay.outdated
        while outdated:
            host, version = outdated.popitem()
            self._doubt(host, version)

    def _note_silence(self, since_s: float) -> None:
        """Stop trusting agents that have sent nothing since `since_s`, in Unix seconds."""
        silent = [
            host
            for host, received in self._host_messages.items()
            if max(received.heard_s, received.waited_s) < since_s
        ]
        for host in silent:
            self._unhear(host)
        if silent:
            example = min(silent)
            self._telemetry.event("instance_reports_missing", hosts=len(silent), example=example)

    def _unhear(self, host: str) -> None:
        """Treat a host's agent as not reporting, and take its instances from the feed again."""
        received = self._host_messages.pop(host, None)
        self._waiting.pop(host, None)
        self._changes += received is not None and received.heard_s > 0
        if host in self._view.overlay.hosts:
            self._view.overlay.hosts.discard(host)
            self._doubt(host)

    async def _check_group(self, request: Request) -> int | None:
        """Mark hosts as doubtful whose members of a group differ from the ledger's.

        Returns:
            The ledger version before the members were read, or None if the request has no group
            with a hard policy.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        group = self._view.hosts.server_groups.get(request.group_uuid or "")
        if group is None or group.policy not in _HARD:
            return None
        seen = await self._view.ledger.version()
        for host in await hosts_with_wrong_members(self._view, group.uuid):
            self._doubt(host)
        return seen

    async def _reload(self, names: Iterable[str]) -> bool:
        """Reload lists, and return whether at least one of each batch could be read."""
        wanted = sorted(names)
        for first in range(0, len(wanted), _AT_ONCE):
            some = wanted[first : first + _AT_ONCE]
            done = await asyncio.gather(*map(self._reload_one, some))
            if not any(done):
                return False
        return True

    async def _reload_one(self, host: str) -> bool:
        """Reload one list if it is still doubtful; return False if it could not be read."""
        try:
            found = await self._reloading.reload(host, lambda: host in self._doubts)
        except BerthError as error:
            self._telemetry.failure("instance_list_read_failed", error, host=host)
            return False
        if found is None:
            return True
        received = self._host_messages.get(host)
        if received is not None:
            received.version = max(received.version, found.version)
        self._doubts.end(host)
        self._note_losses()
        if self._metrics is not None:
            self._metrics.add(INSTANCE_RELOADS, ("wrong" if found.was_wrong else "right",))
        if found.was_wrong:
            self._telemetry.event("instances_reloaded", host=host, instances=found.instances)
        return True

    def _name_of(self, host_uuid: str) -> str:
        row = self._view.hosts.row_of(host_uuid)
        return "" if row is None else self._view.hosts.name(row)

    def _count(self, outcome: str, amount: int = 1) -> None:
        if self._metrics is not None:
            self._metrics.add(INSTANCE_MESSAGES, (outcome,), amount)
