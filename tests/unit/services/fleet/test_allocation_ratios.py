"""Tests for the allocation ratios in the inventories of hosts."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.write import Put, Unit
from berth.ports.virt import HostReport
from berth.services.fleet.allocation_ratios import AllocationRatios, RatioSettings
from berth.testing.builders import make_host, make_provider, make_uuid
from tests.unit.services.wiring import Desk, Fleet, open_desk

KEY = "cpu_allocation_ratio"


def report_of(number: int, own: dict[str, float] | None = None, ratio: float = 2.0) -> HostReport:
    """Return the report of `host-N` with 10 CPUs and its own ratios."""
    inventories = {VCPU: Inventory(10, allocation_ratio=ratio), MEMORY_MB: Inventory(1000)}
    host = replace(make_host(number), allocation_ratios=own or {})
    return HostReport(host, replace(make_provider(number), inventories=inventories))


async def ratio(desk: Desk, number: int = 1, name: str = VCPU) -> tuple[float, str]:
    """Return a host's ratio and its origin, checking that ledger and table agree."""
    view = await desk.hosts.get(f"host-{number}")
    provider = await desk.ledger.get(Provider, make_uuid("host", number))
    assert provider is not None
    value = provider.inventories[name].allocation_ratio
    assert view.inventories[name].allocation_ratio == value
    found = desk.hosts.ratio_of(view, name)
    assert found.value == value
    return value, found.origin


@pytest.fixture
async def desk() -> Desk:
    """Return a desk with two registered hosts, whose own ratio of CPUs is 2."""
    desk = await open_desk(Fleet(hosts=0))
    await desk.hosts.register([report_of(1), report_of(2)])
    return desk


async def test_an_aggregate_comes_before_the_host(desk: Desk) -> None:
    """The lowest ratio of a host's aggregates replaces the host's own while it applies."""
    assert await ratio(desk) == (2.0, "the host's own")
    await desk.aggregates.create("gold", {KEY: "8"})
    await desk.aggregates.create("batch", {KEY: "4.0"})
    await desk.aggregates.add_host(1, "host-1")
    assert await ratio(desk) == (8.0, "aggregate gold")
    await desk.aggregates.add_host(2, "host-1")
    assert await ratio(desk) == (4.0, "minimum of aggregates batch, gold")
    assert await ratio(desk, 2) == (2.0, "the host's own")
    assert await ratio(desk, name=MEMORY_MB) == (1.0, "the host's own")
    await desk.aggregates.set_metadata(2, {KEY: "0"})
    assert await ratio(desk) == (8.0, "aggregate gold")
    await desk.aggregates.remove_host(1, "host-1")
    assert await ratio(desk) == (2.0, "the host's own")


async def test_capacity_changes_in_the_unit_of_the_aggregate(desk: Desk) -> None:
    """The inventories change in the same unit as the aggregate."""
    await desk.aggregates.create("gold", {})
    await desk.aggregates.add_host(1, "host-1")
    units: list[Unit] = []

    async def watch(committed: Sequence[Unit]) -> None:
        units.extend(committed)

    desk.ledger.before_commit = watch
    await desk.aggregates.set_metadata(1, {KEY: "3"})
    (unit,) = units
    records = [write.record for write in unit if isinstance(write, Put)]
    assert [type(record).__name__ for record in records] == ["Aggregate", "Provider"]
    columns = desk.replica.hosts.resource(VCPU)
    assert columns is not None
    row = desk.replica.hosts.row_of(make_uuid("host", 1))
    assert row is not None
    assert columns.capacity[row] == 30


async def test_a_registration_keeps_what_is_in_force(desk: Desk) -> None:
    """A new report of a host keeps the ratio of its aggregates."""
    await desk.aggregates.create("gold", {KEY: "8"})
    await desk.aggregates.add_host(1, "host-1")
    await desk.hosts.register([report_of(1, ratio=5.0)])
    assert await ratio(desk) == (8.0, "aggregate gold")
    await desk.aggregates.remove_host(1, "host-1")
    assert await ratio(desk) == (5.0, "the host's own")


async def test_a_host_that_inherits_gets_what_it_was_first_registered_with() -> None:
    """A host without a ratio of its own keeps its initial ratio, or has the default."""
    desk = await open_desk(Fleet(hosts=0))
    inherits = report_of(1, own={VCPU: 0.0, MEMORY_MB: 0.0})
    await desk.hosts.register([inherits])
    assert await ratio(desk) == (1.0, "default of the class")
    for initial in (4.0, 9.0):
        settings = RatioSettings(initial={VCPU: initial})
        ratios = AllocationRatios(ledger=desk.ledger, replica=desk.replica, settings=settings)
        first = ratios.settled(inherits, None, ())
        assert first.provider.inventories[VCPU].allocation_ratio == initial
        again = ratios.settled(inherits, replace(first.host, initial_ratios={VCPU: 4.0}), ())
        assert again.provider.inventories[VCPU].allocation_ratio == 4.0


async def test_a_setting_comes_before_what_the_host_says(desk: Desk) -> None:
    """The agent's setting comes before the host's own ratio."""
    ratios = AllocationRatios(
        ledger=desk.ledger, replica=desk.replica, settings=RatioSettings(own={VCPU: 6.0})
    )
    settled = ratios.settled(report_of(1), None, ())
    assert settled.provider.inventories[VCPU].allocation_ratio == 6.0
    assert settled.host.forced_ratios == {VCPU: 6.0}
    assert ratios.of(settled.host, (), VCPU).origin == "the agent's settings"


async def test_a_host_registered_while_its_aggregate_changes_is_right_at_last() -> None:
    """A host that registers while its aggregate changes gets the aggregate's ratio."""
    desk = await open_desk(Fleet(hosts=0))
    await desk.hosts.register([report_of(1)])
    await desk.aggregates.create("gold", {})
    await desk.aggregates.add_host(1, "host-1")
    meanwhile = [report_of(1, ratio=3.0)]

    async def register(units: Sequence[Unit]) -> None:
        del units
        if meanwhile:
            reports = list(meanwhile)
            meanwhile.clear()
            await desk.hosts.register(reports)

    desk.ledger.before_commit = register
    await desk.aggregates.set_metadata(1, {KEY: "7"})
    assert await ratio(desk) == (7.0, "aggregate gold")
