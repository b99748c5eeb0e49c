"""Query and response body for the load of the fleet."""

from typing import Annotated

from berth.api.codec import Meta, Model, Name, View


class TopQuery(Model):
    """The hosts to show: the first `limit` in an order, of all or of one availability zone.

    `sort` is `load` (the largest used share of any resource class), `name`, `instances`, `tasks` or
    a resource class.
    """

    sort: Name = "load"
    availability_zone: Name | None = None
    limit: Annotated[int, Meta(ge=0, le=1000)] = 50


class AmountsView(View):
    """Amounts of one resource class, with those of child providers, in the unit of the class.

    `total` is the physical amount, `reserved` the part that hosts keep for themselves, `capacity`
    what servers may be given, and `used` what they have.
    """

    total: int
    reserved: int
    capacity: int
    used: int


class HostLoadView(View):
    """A host with its load; `state` is `up`, `down`, `disabled` or `no service`.

    `tasks` is the number of servers with a task that loads the disks of the host.
    """

    name: str
    node: str
    zones: list[str]
    state: str
    instances: int
    tasks: int
    resources: dict[str, AmountsView]


class HostStateCounts(View):
    """Numbers of hosts by the state of their service; a disabled host is neither up nor down."""

    total: int
    up: int
    down: int
    disabled: int


class QueueView(View):
    """The requests that are accepted but not yet decided, and the servers that they ask for.

    `oldest_s` is the waiting time of the oldest one in seconds, or null.
    """

    requests: int
    instances: int
    oldest_s: float | None


class SchedulerView(View):
    """A live scheduler, as of its newest report, which it makes every 5 seconds.

    `lag` is the number of ledger versions that it had not applied. The totals count since it
    started: requests placed and refused, and claims that the ledger rejected; the rates are those
    between its two newest reports. All are null if the scheduler does not report them.
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


class TopAnswer(View):
    """The load of the fleet, or of one availability zone.

    `instances` are on the hosts, and `tasks` of them load the disks of a host, such as builds.
    `ledger_version`, `replica_version` and `lag` are those of the answering process.
    """

    at_s: float
    ledger_version: int
    replica_version: int
    lag: int
    hosts: HostStateCounts
    instances: int
    tasks: int
    resources: dict[str, AmountsView]
    queue: QueueView
    schedulers: list[SchedulerView]
    busiest: list[HostLoadView]
