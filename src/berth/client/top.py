"""The load of the fleet: amounts by resource class, the queue, schedulers, and busy hosts."""

from collections.abc import Mapping
from typing import Final

from berth.client.requests import Route, Value


class ResourceAmounts(Value, frozen=True):
    """Amounts of one resource class, with those of child providers, in the unit of the class.

    `total` is the physical amount, `reserved` the part that hosts keep for themselves, `capacity`
    what servers may be given, and `used` what they have.
    """

    total: int
    reserved: int
    capacity: int
    used: int


class HostLoad(Value, frozen=True):
    """A host with its load; `state` is `up`, `down`, `disabled` or `no service`.

    `tasks` is the number of servers with a task that loads the disks of the host.
    """

    name: str
    node: str
    zones: tuple[str, ...]
    state: str
    instances: int
    tasks: int
    resources: Mapping[str, ResourceAmounts]


class HostStates(Value, frozen=True):
    """Numbers of hosts by the state of their service; a disabled host is neither up nor down."""

    total: int
    up: int
    down: int
    disabled: int


class Queue(Value, frozen=True):
    """The requests that wait for a decision, and the servers that they ask for.

    `oldest_s` is the waiting time of the oldest one in seconds, or None.
    """

    requests: int
    instances: int
    oldest_s: float | None


class SchedulerState(Value, frozen=True):
    """A live scheduler, as of its newest report, which is `age_s` seconds old.

    `lag` is the number of ledger versions that it had not applied. The totals count since it
    started: requests placed and refused, and claims that the ledger rejected; the rates are those
    between its two newest reports. All are None if the scheduler does not report them.
    """

    id: str
    part: str
    age_s: float
    lag: int | None
    placed: int | None
    refused: int | None
    lost: int | None
    placed_per_s: float | None
    refused_per_s: float | None
    lost_per_s: float | None


class FleetLoad(Value, frozen=True):
    """The load of the fleet, or of one availability zone, at the Unix time `at_s`.

    `instances` are on the hosts, and `tasks` of them load the disks of a host, such as builds.
    `busiest` are the first hosts in the order that was asked for. The versions and the lag are
    those of the process that answered.
    """

    at_s: float
    ledger_version: int
    replica_version: int
    lag: int
    hosts: HostStates
    instances: int
    tasks: int
    resources: Mapping[str, ResourceAmounts]
    queue: Queue
    schedulers: tuple[SchedulerState, ...]
    busiest: tuple[HostLoad, ...]


TOP: Final = Route("GET", "/berth/v1/top", FleetLoad, query=("sort", "availability_zone", "limit"))
