"""The records of the ledger that an import compares with Nova's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Flavor, FlavorAccess
from berth.domain.compute.host import Host, Service
from berth.domain.compute.host_identity import HostIdentity
from berth.domain.compute.instance import Instance
from berth.domain.compute.key_pair import KeyRing
from berth.domain.compute.observed import is_observed
from berth.domain.compute.quota import Quota
from berth.domain.compute.server_group import ServerGroup
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import ResourceClass, Trait
from berth.ports.ledger import InstanceQuery, Ledger

_ALL: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class StoredFleet:
    """The records of the ledger by key; aggregates are by UUID, as their numbers may differ.

    Attributes:
        version: a version of the ledger from before anything was read.
        instances: all instances by UUID, with the deleted ones whose records are kept.
        held: the amounts of each consumer, by provider and class.
        enrolled: the names of the hosts that have a key or a token, so an agent may appear there.
    """

    version: int
    hosts: Mapping[str, Host]
    services: Mapping[str, Service]
    providers: Mapping[str, Provider]
    aggregates: Mapping[str, Aggregate]
    flavors: Mapping[str, Flavor]
    flavor_accesses: Mapping[str, FlavorAccess]
    server_groups: Mapping[str, ServerGroup]
    quotas: Mapping[str, Quota]
    key_rings: Mapping[str, KeyRing]
    resource_classes: Mapping[str, ResourceClass]
    traits: Mapping[str, Trait]
    instances: Mapping[str, Instance]
    consumers: Mapping[str, Consumer]
    held: Mapping[str, Mapping[str, Mapping[str, int]]]
    enrolled: frozenset[str]

    @property
    def own_hosts(self) -> frozenset[str]:
        """The names of the hosts that Berth itself runs, or is about to."""
        return self.enrolled | {one.name for one in self.hosts.values() if not is_observed(one)}

    @property
    def own_roots(self) -> frozenset[str]:
        """The root providers of the hosts that Berth itself runs."""
        return frozenset(one.uuid for one in self.hosts.values() if not is_observed(one))


async def read_stored_fleet(ledger: Ledger) -> StoredFleet:
    """Return the records that an import compares.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    version = await ledger.version()
    held: dict[str, dict[str, Mapping[str, int]]] = {}
    for one in await ledger.allocations():
        amounts = {name: amount for name, amount in one.amounts.items() if amount}
        if amounts:
            held.setdefault(one.consumer_uuid, {})[one.provider_uuid] = amounts
    identities = await ledger.all(HostIdentity)
    instances = await ledger.instances(InstanceQuery(deleted=None, limit=_ALL))
    return StoredFleet(
        version=version,
        hosts={one.uuid: one for one in await ledger.all(Host)},
        services={one.host: one for one in await ledger.all(Service)},
        providers={one.uuid: one for one in await ledger.all(Provider)},
        aggregates={one.uuid: one for one in await ledger.all(Aggregate)},
        flavors={one.flavor_id: one for one in await ledger.all(Flavor)},
        flavor_accesses={one.flavor_id: one for one in await ledger.all(FlavorAccess)},
        server_groups={one.uuid: one for one in await ledger.all(ServerGroup)},
        quotas={one.project_id: one for one in await ledger.all(Quota)},
        key_rings={one.user_id: one for one in await ledger.all(KeyRing)},
        resource_classes={one.name: one for one in await ledger.all(ResourceClass)},
        traits={one.name: one for one in await ledger.all(Trait)},
        instances={one.uuid: one for one in instances},
        consumers={one.uuid: one for one in await ledger.all(Consumer)},
        held=held,
        enrolled=frozenset(one.host for one in identities if one.revoked_at_s is None),
    )
