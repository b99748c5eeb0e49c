"""Registration from the tables of a process: what it reads, and what it writes."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host
from berth.domain.errors import ConflictError
from berth.domain.inventory.provider import Provider, child_uuid
from berth.domain.inventory.resources import VCPU, Inventory, StandardNames
from berth.domain.ledger.write import Put, Unit
from berth.ports.virt import ChildReport, HostReport
from berth.services.replica.provider_replica import ProviderReplica
from berth.testing.builders import make_aggregate, make_host, make_provider, make_uuid
from tests.unit.services.wiring import Desk, TappedLedger

GPU = ChildReport("gpu", {VCPU: Inventory(4)})


def report_of(number: int, *children: ChildReport) -> HostReport:
    """Return the report of the agent of `host-N`."""
    return HostReport(make_host(number), make_provider(number), children)


async def open_tables() -> tuple[Desk, TappedLedger]:
    """Return the services of a process with all tables, and its empty ledger."""
    ledger = TappedLedger()
    desk = Desk(ledger)
    providers = ProviderReplica(StandardNames((), ()))
    desk.follower.subscribers.append(providers)
    desk.hosts.compare_with(providers)
    await desk.follower.start()
    return desk, ledger


async def test_a_registration_reads_no_record_of_the_ledger() -> None:
    """The tables have all that a registration needs, for new, unchanged and changed hosts."""
    desk, ledger = await open_tables()
    for number in range(1, 30):
        await desk.hosts.register([report_of(number, GPU)])
    await desk.hosts.register([report_of(1, GPU)])
    await desk.hosts.register([report_of(2)])
    assert ledger.reads == []
    assert len(await ledger.all(Host)) == 29
    parts = {child_uuid(make_uuid("host", number), "gpu") for number in range(1, 30)}
    stored = {one.uuid for one in await ledger.all(Provider)}
    assert parts - stored == {child_uuid(make_uuid("host", 2), "gpu")}


async def test_a_periodic_report_reads_no_record_of_the_ledger() -> None:
    """The first report to a gateway and those after it cost no read and no write."""
    desk, ledger = await open_tables()
    await desk.hosts.register([report_of(1, GPU)])
    await desk.follower.catch_up()
    gateway, commits = desk.gateway(), ledger.commits
    for _ in range(3):
        await gateway.report(report_of(1, GPU))
    assert ledger.reads == []
    assert ledger.commits == commits


async def test_an_unchanged_host_writes_nothing() -> None:
    """An agent that connects again causes no version, whichever process it connects to."""
    desk, ledger = await open_tables()
    await desk.hosts.register([report_of(1, GPU)])
    commits, version = ledger.commits, await ledger.version()
    await desk.clock.sleep(100)
    await desk.gateway().register([report_of(1, GPU)])
    assert (ledger.commits, await ledger.version()) == (commits, version)
    service = desk.replica.hosts.services.get("host-1")
    assert service is not None
    assert service.last_seen_s == desk.clock.now_s()
    await desk.hosts.register([report_of(1, replace(GPU, inventories={VCPU: Inventory(8)}))])
    assert await ledger.version() == version + 1
    part = await ledger.get(Provider, child_uuid(make_uuid("host", 1), "gpu"))
    assert part is not None
    assert part.inventories == {VCPU: Inventory(8)}


async def test_a_host_that_was_removed_is_added_again() -> None:
    """The tables catch up before a report is compared with them."""
    desk, ledger = await open_tables()
    await desk.hosts.register([report_of(1)])
    other = Desk(ledger)
    await other.follower.start()
    await other.hosts.remove("host-1")
    await desk.hosts.register([report_of(1)])
    assert [one.name for one in await ledger.all(Host)] == ["host-1"]


async def test_an_aggregate_that_changes_meanwhile_is_joined() -> None:
    """The ratio of an aggregate applies to a host that is registered while the ratio is set."""
    desk, ledger = await open_tables()
    waiting: list[Aggregate] = [
        replace(
            make_aggregate(1), hosts=frozenset({"host-1"}), metadata={"cpu_allocation_ratio": "3"}
        )
    ]

    async def set_it(units: Sequence[Unit]) -> None:
        del units
        while waiting:
            await ledger.write(Put(waiting.pop()))

    ledger.before_commit = set_it
    await desk.hosts.register([report_of(1)])
    stored = await ledger.get(Provider, make_uuid("host", 1))
    assert stored is not None
    assert stored.inventories[VCPU].allocation_ratio == 3.0
    assert stored.aggregates == (make_aggregate(1).uuid,)


async def test_the_uuid_of_another_host_is_refused() -> None:
    """A report cannot take another host over by its UUID."""
    desk, _ = await open_tables()
    await desk.hosts.register([report_of(1)])
    host, provider = make_host(2), make_provider(2)
    uuid = make_uuid("host", 1)
    taken = HostReport(replace(host, uuid=uuid), replace(provider, uuid=uuid))
    with pytest.raises(ConflictError, match="belongs to another host"):
        await desk.hosts.register([taken])


async def test_a_name_of_another_provider_is_told_apart() -> None:
    """A provider whose name a client of the Placement API has taken gets its uuid appended."""
    desk, ledger = await open_tables()
    name = make_provider(1).name
    await ledger.write(Put(Provider(make_uuid("other", 1), name)))
    await desk.hosts.register([report_of(1)])
    stored = await ledger.get(Provider, make_uuid("host", 1))
    assert stored is not None
    assert stored.name == f"{name} ({stored.uuid})"
