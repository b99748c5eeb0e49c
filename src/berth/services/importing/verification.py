"""Verifies an import: every record, the amounts per host and class, and each consumer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from berth.domain.inventory.allocation import ConsumerAllocations
from berth.domain.inventory.provider import Provider
from berth.services.importing.completion import trees_of
from berth.services.importing.import_plan import ImportPlan, Verb


@dataclass(frozen=True, slots=True)
class VerifiedDifference:
    """A value that differs between Nova and Berth; the value of a missing record is empty."""

    kind: str
    key: str
    name: str
    field: str
    nova: str
    berth: str


@dataclass(frozen=True, slots=True)
class HostTotal:
    """The amounts of one class on a host's tree: capacity and usage on both sides."""

    host: str
    resource_class: str
    nova_capacity: int
    berth_capacity: int
    nova_used: int
    berth_used: int

    @property
    def is_equal(self) -> bool:
        """Whether both sides agree."""
        mine = (self.nova_capacity, self.nova_used)
        return mine == (self.berth_capacity, self.berth_used)


def differences_in(plan: ImportPlan) -> list[VerifiedDifference]:
    """Return every difference between a Nova cloud and the ledger.

    Args:
        plan: the plan of another import, which is empty if nothing differs.
    """
    found: list[VerifiedDifference] = []
    for change in plan.changes:
        about = (str(change.kind), change.key, change.name)
        match change.verb:
            case Verb.CREATE:
                found.append(VerifiedDifference(*about, "exists", "yes", "no"))
            case Verb.REMOVE:
                found.append(VerifiedDifference(*about, "exists", "no", "yes"))
            case Verb.UPDATE:
                found += [
                    VerifiedDifference(*about, one.field, one.nova, one.berth)
                    for one in change.differences
                ]
    found += [
        VerifiedDifference("amounts", one.host, one.host, f"{one.resource_class} {field}", *pair)
        for one in host_totals(plan)
        if not one.is_equal
        for field, pair in _pairs(one)
    ]
    return found


def _pairs(one: HostTotal) -> Iterator[tuple[str, tuple[str, str]]]:
    if one.nova_capacity != one.berth_capacity:
        yield "capacity", (str(one.nova_capacity), str(one.berth_capacity))
    if one.nova_used != one.berth_used:
        yield "used", (str(one.nova_used), str(one.berth_used))


def host_totals(plan: ImportPlan) -> list[HostTotal]:
    """Return the amounts of each class on each host, ordered by host and class.

    Nova's usage is the sum of the allocations of all consumers. Berth's is what its ledger counts,
    so the two are computed independently.
    """
    cloud, trees = plan.cloud, trees_of(plan.cloud)
    names = {one.uuid: f"{one.name} ({one.node})" for one in cloud.hosts}
    used = _used(cloud.holdings)
    totals: dict[tuple[str, str], list[int]] = {}
    for provider in cloud.providers:
        host = names.get(trees.roots[provider.uuid])
        if host is None:
            continue
        berth = plan.stored.providers.get(provider.uuid)
        mine = used.get(provider.uuid, {})
        theirs: Mapping[str, int] = {} if berth is None else berth.used
        for name in provider.inventories.keys() | mine.keys() | theirs.keys():
            row = totals.setdefault((host, name), [0, 0, 0, 0])
            row[0] += _capacity(provider, name)
            row[1] += 0 if berth is None else _capacity(berth, name)
            row[2] += mine.get(name, 0)
            row[3] += theirs.get(name, 0)
    return [HostTotal(*key, *row) for key, row in sorted(totals.items())]


def _capacity(provider: Provider, name: str) -> int:
    inventory = provider.inventories.get(name)
    return 0 if inventory is None else inventory.capacity


def _used(holdings: tuple[ConsumerAllocations, ...]) -> dict[str, dict[str, int]]:
    """Return the sums of allocations by provider and class."""
    used: dict[str, dict[str, int]] = {}
    for one in holdings:
        for uuid, amounts in one.allocations.items():
            total = used.setdefault(uuid, {})
            for name, amount in amounts.items():
                total[name] = total.get(name, 0) + amount
    return used
