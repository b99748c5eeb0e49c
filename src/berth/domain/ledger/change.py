"""The change feed and snapshots, from which followers maintain their replicas."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.host import Host, Service
from berth.domain.compute.host_identity import HostIdentity
from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.compute.quota import Quota
from berth.domain.compute.server_group import ServerGroup
from berth.domain.compute.server_image import ServerImage
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import ResourceClass, Trait
from berth.domain.ledger.record import Kind, PendingRequest, Record
from berth.domain.zones.zone import Zone


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of one provider as of a version, by class.

    The amounts are absolute, not differences. Every class of the provider's inventories is present,
    with 0 if it is unused. `generation` is the provider's; None in events that predate it.
    """

    provider_uuid: str
    # Absolute amounts allow a follower to apply an event twice, or after a newer snapshot.
    used: Mapping[str, int]
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class HostsAlive:
    """The heartbeats that one version records, received at `at_s` (Unix seconds).

    A version that changes nothing for followers has one such event without hosts. The feed
    therefore has every version, and a gap always means lost events.
    """

    hosts: tuple[str, ...]
    at_s: float


@dataclass(frozen=True, slots=True)
class RecordRemoved:
    """The removal of the record with this kind and key."""

    kind: Kind
    key: str


Event = Record | Usage | HostsAlive | RecordRemoved
"""The content of a change: a record as of its version, or one of the events above."""


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a version. All changes of a version take effect together."""

    version: int
    event: Event


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All state that decisions depend on, as of one version; also the content of a state file.

    `now_s` is the time against which heartbeats are compared, in Unix seconds. `instances` are
    those that occupy a host or wait for one, `migrations` those that have not ended. History and
    consumers are not included; they stay in the ledger.
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
    host_identities: tuple[HostIdentity, ...] = ()
    server_images: tuple[ServerImage, ...] = ()
    # State files carry the format so that a later format is rejected rather than misread.
    format: str = field(default="berth-state/1")
