"""Places a workload in a host table in memory, as the schedulers of a service would place it.

The policy's own driver makes the plans, and holds take room in the table as a scheduler's holds do.
There is no ledger, agent or clock: the question is how well a policy fills a fleet, which takes
thousands of requests per second to answer.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from berth.domain.compute.aggregate import AZ_KEY, Aggregate
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.host import Host, Service
from berth.domain.compute.request import Request, instance_uuid_of
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.domain.ledger.change import Snapshot
from berth.lab.workload import Arrival, FlavorSpec, FleetHost
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.plan.planning import seed_of
from berth.services.replica.replica import Hold, Replica
from berth.tables.host.occupants import Resident

NOW_S = 1_700_000_000.0
"""The fixed Unix time of all events, so that no heartbeat becomes stale."""


class FleetFilling:
    """Fills one fleet under one policy.

    Args:
        hosts: the hosts of the fleet, which are empty at first.
        policy: the policy, whose driver makes the plans.

    Attributes:
        replica: the fleet's state, as a scheduler keeps it.
        refused: the number of refused requests.
        placed: the number of requests with all instances placed.
    """

    def __init__(self, hosts: Iterable[FleetHost], policy: Policy) -> None:
        self.replica = Replica()
        self.replica.load(snapshot_of(hosts))
        self.placed = 0
        self.refused = 0
        # Runners-up and alternates are not read here, and finding them takes time.
        self._policy = replace(policy, runners_up=0, alternates=0)
        self._flavors: dict[str, Flavor] = {}
        self._here: dict[str, tuple[str, ...]] = {}

    def arrive(self, arrival: Arrival, spec: FlavorSpec) -> bool:
        """Place all instances of a request or none, and return whether they were placed."""
        flavor = self._flavors.setdefault(spec.name, spec.flavor)
        uuids = tuple(instance_uuid_of(arrival.name, index) for index in range(arrival.count))
        request = Request(
            arrival.name,
            uuids,
            flavor,
            project_id="lab",
            user_id="lab",
            availability_zone=arrival.availability_zone,
        )
        seed = seed_of(arrival.name)
        plan = self._policy.driver.plan(
            self.replica.hosts, request, self._policy, now_s=NOW_S, seed=seed
        )
        if plan.refusal is not None:
            self.refused += 1
            return False
        # Placements are held and never committed: without a ledger, only holds take room.
        for placement in plan.placements:
            resident = Resident(placement.instance_uuid, assignment=placement.assignment)
            self.replica.hold(Hold(resident, placement.provider_uuid, plan.amounts))
        self._here[arrival.name] = uuids
        self.placed += 1
        return True

    def depart(self, arrival: Arrival) -> None:
        """Free the room of a request's instances; a refused request has none."""
        for instance_uuid in self._here.pop(arrival.name, ()):
            self.replica.release(instance_uuid)

    @property
    def empty_share(self) -> float:
        """The share of hosts without instances, between 0 and 1; 0 for a fleet without hosts."""
        counts = self.replica.hosts.num_instances
        return float((counts == 0).mean()) if counts.size else 0.0


def snapshot_of(hosts: Iterable[FleetHost]) -> Snapshot:
    """Return the ledger snapshot of an empty fleet in which all hosts are up."""
    fleet = tuple(hosts)
    zones: dict[str, set[str]] = {}
    for host in fleet:
        if host.availability_zone is not None:
            zones.setdefault(host.availability_zone, set()).add(host.name)
    return Snapshot(
        version=1,
        now_s=NOW_S,
        hosts=tuple(Host(host.name, host.name, host.name) for host in fleet),
        providers=tuple(provider for host in fleet for provider in _providers(host)),
        services=tuple(Service(host.name, host.name, last_seen_s=NOW_S) for host in fleet),
        aggregates=tuple(
            Aggregate(number, zone, zone, frozenset(names), {AZ_KEY: zone})
            for number, (zone, names) in enumerate(sorted(zones.items()), start=1)
        ),
    )


def _providers(host: FleetHost) -> Iterator[Provider]:
    yield Provider(
        host.name, host.name, inventories=_inventories(host.amounts), traits=frozenset(host.traits)
    )
    for index, amounts in enumerate(host.devices):
        name = f"{host.name}-device-{index}"
        yield Provider(name, name, parent_uuid=host.name, inventories=_inventories(amounts))


def _inventories(amounts: dict[str, int]) -> dict[str, Inventory]:
    return {name: Inventory(total) for name, total in amounts.items() if total}
