"""Counts of hosts and instances for the status and the metrics, computed from the replica."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.lifecycle import STATUSES_SHOWN, status_shown
from berth.domain.ledger.change import Change, Snapshot
from berth.ports.ledger import InstanceQuery, RecordReader
from berth.services.replica.replica import Replica
from berth.tables.columnar.bitsets import Mask
from berth.tables.host.hosts import HostTable

OTHER: Final = "OTHER"
"""The status that counts all instances whose own status this version of Berth does not know."""

ERRORS_MAX = 1000
"""At most this many instances in ERROR are counted."""


class ShownStates:
    """A subscriber that knows the instances that are shown in a state other than their status.

    Only instances with a task in progress can be among them, so they are few even in a large
    deployment.
    """

    def __init__(self) -> None:
        # Status and shown state, by instance uuid.
        self._shown: dict[str, tuple[str, str]] = {}

    def load(self, snapshot: Snapshot) -> None:
        """Replace all states; see `Subscriber.load`."""
        self._shown.clear()
        for instance in snapshot.instances:
            self._note(instance)

    def apply(self, changes: Sequence[Change]) -> None:
        """Apply changes of instances; see `Subscriber.apply`."""
        for change in changes:
            if isinstance(change.event, Instance):
                self._note(change.event)

    def counts(self, by_status: Mapping[str, int]) -> dict[str, int]:
        """Return the number of instances shown in each state, including states with none.

        Args:
            by_status: the number of instances by status.
        """
        counts = dict.fromkeys(STATUSES_SHOWN, 0)
        for status, count in by_status.items():
            key = status if status in STATUSES_SHOWN else OTHER
            counts[key] = counts.get(key, 0) + count
        for status, shown in self._shown.values():
            # `by_status` comes from the ledger and `_shown` from the feed, which may be a few
            # versions apart. A count must not become negative.
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
    """The numbers of hosts by state; a disabled host is counted neither as up nor as down.

    Hosts without a compute service are counted as disabled. `oldest_s` is the age in seconds of the
    oldest heartbeat among the hosts that are up; 0 if none is up.
    """

    total: int
    up: int
    down: int
    disabled: int
    oldest_s: float


class InstanceStats(NamedTuple):
    """The numbers of instances by activity.

    `building` counts the instances that wait for a decision, or have a task that loads the disks of
    a host (a build, rebuild, resize or unshelving). `placed` counts all others on hosts; a moving
    instance is counted on both hosts. `errors` counts those in ERROR, up to ERRORS_MAX.
    """

    building: int
    placed: int
    errors: int


def usable_hosts(table: HostTable, now_s: float, service_down_time_s: float) -> Mask:
    """Return, for each row, whether its host is enabled and up at `now_s` (Unix seconds): (N,)."""
    # A heartbeat from the future means a wrong clock. Filters also take the absolute value of the
    # age, so a host whose clock is far off is down.
    age_s = np.abs(now_s - table.last_seen_s)
    usable: Mask = table.alive & table.enabled & ~table.forced_down & (age_s <= service_down_time_s)
    return usable


def count_hosts(table: HostTable, now_s: float, service_down_time_s: float) -> HostStats:
    """Return the counts of hosts as a decision at `now_s` (Unix seconds) would see them."""
    is_up = usable_hosts(table, now_s, service_down_time_s)
    total = int(np.count_nonzero(table.alive))
    up = int(np.count_nonzero(is_up))
    disabled = total - int(np.count_nonzero(table.alive & table.enabled))
    oldest_s = float(np.abs(now_s - table.last_seen_s[is_up]).max()) if up else 0.0
    return HostStats(total, up, total - up - disabled, disabled, oldest_s)


async def count_instances(replica: Replica, records: RecordReader) -> InstanceStats:
    """Return the counts of instances from the replica; those in ERROR come from the ledger.

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
