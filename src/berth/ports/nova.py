"""A Nova cloud as Berth's records, and the reader that supplies it.

The readers of the API and of the databases differ in what they can tell. Both return the same
records, and a finding for each fact that they cannot read or that Berth cannot represent, so that
an import guesses nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Flavor, FlavorAccess
from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Instance
from berth.domain.compute.key_pair import KeyRing
from berth.domain.compute.quota import Quota
from berth.domain.compute.server_group import ServerGroup
from berth.domain.inventory.allocation import ConsumerAllocations
from berth.domain.inventory.provider import Provider


class ImportKind(StrEnum):
    """A kind of record that is imported; the order is the order in which they are written."""

    RESOURCE_CLASS = "resource class"
    TRAIT = "trait"
    AGGREGATE = "aggregate"
    FLAVOR = "flavor"
    FLAVOR_ACCESS = "flavor access"
    SERVER_GROUP = "server group"
    QUOTA = "quota"
    KEY_PAIRS = "key pairs"
    PROVIDER = "provider"
    HOST = "host"
    SERVICE = "service"
    SERVER = "server"
    ALLOCATIONS = "allocations"


@dataclass(frozen=True, slots=True)
class ImportFinding:
    """A record of Nova that needs attention, or is left out or changed, with the reason and advice.

    `key` is the id or the name of what the finding is about. Findings with the same kind, reason
    and advice are reported together.
    """

    kind: ImportKind
    key: str
    reason: str
    advice: str


@dataclass(frozen=True, slots=True)
class NovaCloud:
    """The contents of a Nova cloud, as records of Berth.

    Hosts and servers bear the mark of observed records. Providers have no usage: it follows from
    `holdings`, the allocations of all consumers, with the project, the user and the type of each.
    `members` are the UUIDs of the servers of each server group. Servers have neither a group nor
    an assignment yet; `services.importing` completes them. Services have no heartbeat.

    `source` describes where the data comes from, without credentials.
    """

    source: str
    hosts: tuple[Host, ...] = ()
    services: tuple[Service, ...] = ()
    providers: tuple[Provider, ...] = ()
    resource_classes: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    flavors: tuple[Flavor, ...] = ()
    flavor_accesses: tuple[FlavorAccess, ...] = ()
    server_groups: tuple[ServerGroup, ...] = ()
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    servers: tuple[Instance, ...] = ()
    quotas: tuple[Quota, ...] = ()
    key_rings: tuple[KeyRing, ...] = ()
    holdings: tuple[ConsumerAllocations, ...] = ()
    findings: tuple[ImportFinding, ...] = ()


class NovaReader(Protocol):
    """Reads a Nova cloud, and changes nothing there."""

    async def read(self) -> NovaCloud:
        """Return everything that can be imported.

        Raises:
            UnavailableError: Nova, Placement, Keystone or a database does not answer.
            AccessDeniedError: the credentials are refused or are not those of an administrator.
            InvalidInputError: an answer cannot be understood, or Nova is too old.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
