"""The census: hosts and instances counted on the replica, for whoever asks how things are."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.lifecycle import STATUSES_SHOWN, status_shown
from berth.domain.ledger.change import Change, Snapshot
from berth.ports.ledger import InstanceQuery, RecordReader
from berth.services.replica.replica import Replica
from berth.tables.host.hosts import HostTable

OTHER: Final = "OTHER"
"""Of a status that only a newer Berth knows."""

ERRORS_MAX = 1000
"""Instances in ERROR that are counted at most, the newest ones."""


class ShownStates:
    """A subscriber that knows which instances are shown in another state than their status.

    Only while a task goes on are they, so they are few, however many there are in all.
    """

    def __init__(self) -> None:
        self._shown: dict[str, tuple[str, str]] = {}
        """Status and what is shown, by instance."""

    def load(self, snapshot: Snapshot) -> None:
        """See `Subscriber.load`."""
        self._shown.clear()
        for instance in snapshot.instances:
            self._note(instance)

    def apply(self, changes: Sequence[Change]) -> None:
        """See `Subscriber.apply`."""
        for change in changes:
            if isinstance(change.event, Instance):
                self._note(change.event)

    def counts(self, by_status: Mapping[str, int]) -> dict[str, int]:
        """Return how many instances are shown in each state, all of them named.

        Args:
            by_status: how many have each status.
        """
        counts = dict.fromkeys(STATUSES_SHOWN, 0)
        for status, count in by_status.items():
            key = status if status in STATUSES_SHOWN else OTHER
            counts[key] = counts.get(key, 0) + count
        for status, shown in self._shown.values():
            if counts[status]:
                counts[status] -= 1
                counts[shown] += 1
        return counts

    def _note(self, instance: Instance) -> None:
        shown = status_shown(instance.status, instance.task)
        if shown == instance.status or shown not in STATUSES_SHOWN:
            self._shown.pop(instance.uuid, None)
        else:
            self._shown[instance.uuid] = (instance.status, shown)


class HostStats(NamedTuple):
    """Hosts by the state of their service; a disabled one is not counted as up or down.

    `oldest_s` is the age of the oldest heartbeat of those that are up, in seconds.
    """

    total: int
    up: int
    down: int
    disabled: int
    oldest_s: float


class InstanceStats(NamedTuple):
    """Instances that wait for a host or are built, that are on a host otherwise, and in ERROR."""

    building: int
    placed: int
    errors: int


def count_hosts(table: HostTable, now_s: float, service_down_time_s: float) -> HostStats:
    """Count hosts, as decisions at `now_s` (Unix seconds) would see them."""
    age_s = np.abs(now_s - table.last_seen_s)
    fresh = ~table.forced_down & (age_s <= service_down_time_s)
    enabled = table.alive & table.enabled
    is_up = enabled & fresh
    total = int(np.count_nonzero(table.alive))
    up = int(np.count_nonzero(is_up))
    disabled = total - int(np.count_nonzero(enabled))
    oldest_s = float(age_s[is_up].max()) if up else 0.0
    return HostStats(total, up, total - up - disabled, disabled, oldest_s)


async def count_instances(replica: Replica, records: RecordReader) -> InstanceStats:
    """Count instances, on the replica and, for those in ERROR, in the ledger.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    table = replica.hosts
    alive = table.alive
    placed = int(table.num_instances[alive].sum())
    building = int(table.num_io_ops[alive].sum())
    waiting = sum(len(one.request.instance_uuids) for one in replica.pending.values())
    query = InstanceQuery(status=Status.ERROR, limit=ERRORS_MAX)
    errors = len(await records.instances(query))
    return InstanceStats(building + waiting, placed - building, errors)
