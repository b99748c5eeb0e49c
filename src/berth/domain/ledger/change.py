"""The change feed: what a follower needs to keep a replica true."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.compute.quota import Quota
from berth.domain.compute.server_group import ServerGroup
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import ResourceClass, Trait
from berth.domain.ledger.record import Kind, PendingRequest, Record
from berth.domain.zones.zone import Zone


@dataclass(frozen=True, slots=True)
class Usage:
    """All that is used of one provider after a version, by class (absolute, not a difference).

    Every class of the provider's inventories is named, with 0 where nothing is used.
    `generation` is that of the provider; None in what was told before it was counted here.
    """

    provider_uuid: str
    used: Mapping[str, int]
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class HostsAlive:
    """Heartbeats that came with a version.

    Without hosts it stands for a version that changed nothing which followers keep, so that
    every version is in the feed.
    """

    hosts: tuple[str, ...]
    at_s: float


@dataclass(frozen=True, slots=True)
class RecordRemoved:
    """A record was removed."""

    kind: Kind
    key: str


Event = Record | Usage | HostsAlive | RecordRemoved


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that a version changed. A version may have many; they belong together."""

    version: int
    event: Event


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state that decisions depend on, as of one version: also the state file.

    `now_s` is the time that heartbeats are compared with (Unix seconds). Instances are those
    that occupy a host or wait for one, migrations those that have not ended; history stays in
    the ledger, and so do consumers.
    """

    version: int
    now_s: float
    hosts: tuple[Host, ...] = ()
    providers: tuple[Provider, ...] = ()
    services: tuple[Service, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    server_groups: tuple[ServerGroup, ...] = ()
    flavors: tuple[Flavor, ...] = ()
    instances: tuple[Instance, ...] = ()
    migrations: tuple[Migration, ...] = ()
    pending_requests: tuple[PendingRequest, ...] = ()
    resource_classes: tuple[ResourceClass, ...] = ()
    traits: tuple[Trait, ...] = ()
    quotas: tuple[Quota, ...] = ()
    zones: tuple[Zone, ...] = ()
    format: str = field(default="berth-state/1")
