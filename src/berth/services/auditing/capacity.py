"""The audit of providers, whose usage must equal the allocations and be within the capacity."""

from collections.abc import Iterator, Mapping

from berth.domain.compute.host import Host
from berth.domain.compute.ratios import Ratio, resolve_ratio
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.domain.ledger.discrepancy import Discrepancy, DiscrepancyCode
from berth.domain.ledger.record import Kind
from berth.ports.ledger import Ledger
from berth.services.auditing.audit_snapshot import (
    AuditSnapshot,
    amounts_text,
    total_by_class,
    without_zeros,
)

_TRIES = 5


def sums_of(snapshot: AuditSnapshot) -> Mapping[str, Mapping[str, int]]:
    """Return the sums of all allocations, by provider and class."""
    sums: dict[str, dict[str, int]] = {}
    for holding in snapshot.held.values():
        for uuid, amounts in holding.items():
            total = sums.setdefault(uuid, {})
            for name, amount in amounts.items():
                total[name] = total.get(name, 0) + amount
    return sums


def suspect_provider(
    snapshot: AuditSnapshot, provider: Provider, held: Mapping[str, int]
) -> Iterator[Discrepancy]:
    """Yield the suspicions about the usage of a provider.

    Args:
        snapshot: the audit's snapshot.
        provider: the provider.
        held: the sum of all allocations on it, by class and without zeros.
    """
    used = without_zeros(provider.used)
    if used != held:
        yield Discrepancy(
            code=DiscrepancyCode.USAGE_DIFFERS,
            kind=Kind.PROVIDER,
            key=provider.uuid,
            text=(
                f"provider {provider.name} has a recorded usage of {amounts_text(used)}, but "
                f"consumers hold {amounts_text(held)}"
            ),
            advice="this is a fault in Berth or in its database; please report it",
            host=snapshot.host_of(provider.uuid),
            lost={
                name: amount - held.get(name, 0)
                for name, amount in used.items()
                if amount > held.get(name, 0)
            },
        )
    # A provider whose usage equals its capacity is full, which is not a discrepancy.
    above = {name: used[name] for name in sorted(used) if used[name] > _capacity(provider, name)}
    if above:
        yield _over(snapshot, provider, above)


async def recheck_provider(
    ledger: Ledger, snapshot: AuditSnapshot, suspicion: Discrepancy
) -> Discrepancy | None:
    """Return the discrepancy as it is now; None if it is gone or the usage keeps changing.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    for _ in range(_TRIES):
        # The allocations are read between two reads of the usage. If these differ, the allocations
        # may belong to either of them, and all is read again.
        before = await ledger.get(Provider, suspicion.key)
        holders = await ledger.provider_consumers(suspicion.key)
        now = await ledger.get(Provider, suspicion.key)
        if before is None or now is None:
            return None
        if before.used != now.used:
            continue
        held = total_by_class(
            {holder.consumer.uuid: holder.allocations[now.uuid] for holder in holders}
        )
        found = suspect_provider(snapshot, now, without_zeros(held))
        return next((one for one in found if one.code is suspicion.code), None)
    return None


def _capacity(provider: Provider, name: str) -> int:
    inventory = provider.inventories.get(name)
    return 0 if inventory is None else inventory.capacity


def _over(snapshot: AuditSnapshot, provider: Provider, above: Mapping[str, int]) -> Discrepancy:
    excess = "; ".join(
        f"{name} {used:,} of {_capacity(provider, name):,}: "
        f"{_cause(snapshot, provider, name, used)}"
        for name, used in above.items()
    )
    return Discrepancy(
        code=DiscrepancyCode.OVER_CAPACITY,
        kind=Kind.PROVIDER,
        key=provider.uuid,
        text=f"the usage of provider {provider.name} exceeds its capacity: {excess}",
        advice="move instances away, or restore the capacity that it had",
        host=snapshot.host_of(provider.uuid),
    )


def _cause(snapshot: AuditSnapshot, provider: Provider, name: str, used: int) -> str:
    """Return the reason why the capacity of a class is below its usage."""
    inventory = provider.inventories.get(name)
    if inventory is None or inventory.total == 0:
        return "its agent no longer reports any"
    parts = f"{inventory.total:,} in all, {inventory.reserved:,} reserved"
    host = snapshot.hosts_by_uuid.get(provider.uuid)
    if host is None:
        return f"its inventory was reduced ({parts}, ratio {inventory.allocation_ratio:g})"
    ratio = _ratio(snapshot, host, name, with_aggregates=True)
    if ratio.value != inventory.allocation_ratio:
        # A ratio that no source explains was written into the inventory by a client.
        return f"its ratio was set to {inventory.allocation_ratio:g} through the Placement API"
    without = _ratio(snapshot, host, name, with_aggregates=False)
    if ratio != without and _with_ratio(inventory, without.value) >= used:
        return (
            f"the ratio {ratio.value:g} comes from {ratio.origin}, and would be {without.value:g} "
            f"({without.origin}) without it"
        )
    return f"its inventory or ratio was reduced ({parts}, ratio {ratio.value:g}: {ratio.origin})"


def _ratio(snapshot: AuditSnapshot, host: Host, name: str, *, with_aggregates: bool) -> Ratio:
    """Return a host's ratio for a resource class, with or without those of its aggregates."""
    own = [one for one in snapshot.aggregates if host.name in one.hosts]
    return resolve_ratio(name, host, aggregates=own if with_aggregates else ())


def _with_ratio(inventory: Inventory, ratio: float) -> int:
    return int((inventory.total - inventory.reserved) * ratio)
