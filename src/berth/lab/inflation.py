"""Inflates a workload to more demand than its fleet can take.

The method is that of the FGD paper (Weng et al., "Beware of Fragmentation", USENIX ATC 2023) on the
openb trace: all requests in random order, followed by randomly drawn ones until the total is 1.3
times the fleet's GPUs. No instance departs, and refused requests are not retried. The hosts are
also put in random order, by a prefix to their names.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from berth.domain.compute.needs import needs_of
from berth.domain.inventory.resources import add_amounts
from berth.lab.workload import Arrival, FlavorSpec, FleetHost, Workload


@dataclass(frozen=True, slots=True)
class InflatedWorkload:
    """An inflated workload, and the amounts that its demand is computed from.

    Attributes:
        workload: the inflated workload.
        asked: the amount of the counted class that each flavor requests, by flavor name.
        capacity: the fleet's amount of that class.
    """

    workload: Workload
    asked: Mapping[str, int]
    capacity: int


def inflate(
    workload: Workload, resource_class: str, *, seed: int, demand: float = 1.3
) -> InflatedWorkload:
    """Return a workload with shuffled hosts and requests that reaches a given demand.

    Args:
        workload: requests for one instance each; their times are ignored.
        resource_class: the class in which demand is counted, over hosts and their devices.
        seed: the seed of all random choices.
        demand: the limit for the total of all requests, as a multiple of the fleet's capacity. The
            total comes close to the limit but does not exceed it.
    """
    rng = Random(f"berth-inflation-{seed}")  # noqa: S311 - a trace is not secret
    asked = {name: asked_of(spec, resource_class) for name, spec in workload.flavors.items()}
    hosts = _shuffled_hosts(rng, workload.hosts)
    capacity = sum(total_of(host, resource_class) for host in hosts)
    # Requests are sorted first, so that the shuffle depends on the seed and not on their order.
    flavors = sorted((arrival.name, arrival.flavor) for arrival in workload.arrivals)
    drawn = [flavor for _, flavor in flavors]
    rng.shuffle(drawn)
    _bring_to(drawn, asked, demand * capacity, rng)
    digits = len(str(len(drawn)))
    arrivals = tuple(
        Arrival(float(number), f"request-{number:0{digits}d}", flavor)
        for number, flavor in enumerate(drawn)
    )
    inflated = replace(
        workload, name=f"{workload.name}-seed{seed}", hosts=hosts, arrivals=arrivals, notes=()
    )
    return InflatedWorkload(inflated, asked, capacity)


def _bring_to(drawn: list[str], asked: Mapping[str, int], limit: float, rng: Random) -> None:
    original = tuple(drawn)
    total = sum(asked[flavor] for flavor in drawn)
    # Requests are removed at random, so that the mix of flavors stays about the same.
    while total > limit:
        total -= asked[drawn.pop(rng.randrange(len(drawn)))]
    while total and len(drawn) >= len(original):
        flavor = original[rng.randrange(len(original))]
        if total + asked[flavor] > limit:
            break
        total += asked[flavor]
        drawn.append(flavor)


def _shuffled_hosts(rng: Random, hosts: tuple[FleetHost, ...]) -> tuple[FleetHost, ...]:
    order = list(hosts)
    rng.shuffle(order)
    digits = len(str(len(order)))
    return tuple(
        replace(host, name=f"{number:0{digits}d}-{host.name}") for number, host in enumerate(order)
    )


def asked_of(spec: FlavorSpec, resource_class: str) -> int:
    """Return the amount of a class that a flavor requests, including in its resource groups.

    Raises:
        InvalidInputError: an extra spec of the flavor is invalid.
    """
    needs = needs_of(spec.flavor)
    amounts = needs.amounts
    for group in needs.groups:
        amounts = add_amounts(amounts, group.amounts)
    return amounts.get(resource_class, 0)


def total_of(host: FleetHost, resource_class: str) -> int:
    """Return a host's amount of a class, devices included."""
    total = Counter(host.amounts)
    for device in host.devices:
        total.update(device)
    return total[resource_class]
