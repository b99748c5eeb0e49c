"""Tests for the registration of hosts and the changes of operators."""

import asyncio
from dataclasses import replace

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host, Service
from berth.domain.compute.host_identity import HostIdentity, HostKey
from berth.domain.errors import ConflictError, NotFoundError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import VCPU, Inventory
from berth.domain.ledger.write import Put, Unit
from berth.ports.virt import HostReport
from berth.testing.builders import (
    make_aggregate,
    make_host,
    make_instance,
    make_provider,
    make_service,
    make_take,
    make_uuid,
)
from tests.unit.services.wiring import Desk, Fleet, open_desk


def report_of(number: int) -> HostReport:
    """Return the report of the agent of `host-N`."""
    return HostReport(make_host(number), make_provider(number))


async def service_of(desk: Desk, number: int = 1) -> Service:
    """Return the service of `host-N` from the ledger."""
    service = await desk.ledger.get(Service, f"host-{number}")
    assert service is not None
    return service


@pytest.mark.parametrize("count", [1, 40, 450])
async def test_new_hosts_are_added_with_their_services(count: int) -> None:
    """Registered hosts have an inventory and an enabled service that is up."""
    desk = await open_desk(Fleet(hosts=0))
    await desk.hosts.register([report_of(n) for n in range(1, count + 1)])
    views = await desk.hosts.all()
    assert [view.host.name for view in views] == sorted(f"host-{n}" for n in range(1, count + 1))
    for view in views:
        assert view.inventories[VCPU].total == 16
        assert view.service is not None
        assert view.service.is_up(desk.clock.now_s(), 60.0)
    assert len({view.service.service_id for view in views if view.service}) == count


async def test_registering_again_keeps_what_an_operator_has_set() -> None:
    """A new registration keeps the operator's settings of the service."""
    desk = await open_desk(Fleet(hosts=0))
    await desk.hosts.register([report_of(1)])
    before = await desk.hosts.set_service("host-1", disabled=True, disabled_reason="broken")
    await desk.clock.sleep(30)
    bigger = replace(make_provider(1), inventories={VCPU: Inventory(64)})
    await desk.hosts.register([HostReport(make_host(1), bigger)])
    after = await service_of(desk)
    assert after == replace(before, last_seen_s=desk.clock.now_s())
    assert (await desk.hosts.get("host-1")).inventories[VCPU].total == 64


async def test_registering_again_keeps_what_is_used() -> None:
    """A new registration keeps the usage."""
    desk = await open_desk(Fleet(hosts=1))
    await desk.ledger.write(make_take(1))
    await desk.hosts.register([report_of(1)])
    assert (await desk.hosts.get("host-1")).used == {VCPU: 1}


async def test_two_nodes_of_one_host_share_a_service() -> None:
    """Several nodes of one service host share a service."""
    desk = await open_desk(Fleet(hosts=0))
    nodes = [replace(make_host(n), name="host", node=f"node-{n}") for n in (1, 2)]
    await desk.hosts.register(
        [
            HostReport(node, replace(make_provider(n), name=node.node))
            for n, node in enumerate(nodes, 1)
        ]
    )
    assert [service.host for service in await desk.hosts.services()] == ["host"]
    assert [view.host.node for view in await desk.hosts.all()] == ["node-1", "node-2"]
    assert (await desk.hosts.get("host")).host.node == "node-1"


async def test_an_operator_who_is_faster_is_not_overruled() -> None:
    """A service that is written during the registration is kept."""
    desk = await open_desk(Fleet(hosts=0))
    made = replace(make_service(1), disabled=True)

    async def disable(units: object) -> None:
        desk.ledger.before_commit = None
        await desk.ledger.write(Put(made))

    desk.ledger.before_commit = disable
    await desk.hosts.register([report_of(1)])
    assert (await service_of(desk)).disabled
    assert await desk.ledger.get(Host, make_uuid("host", 1)) is not None


async def test_two_changes_at_once_are_both_kept() -> None:
    """Two simultaneous changes of a service are both kept."""
    desk = await open_desk()
    await asyncio.gather(
        desk.hosts.set_service("host-1", disabled=True, disabled_reason="broken"),
        desk.hosts.set_service("host-1", forced_down=True),
    )
    service = await service_of(desk)
    assert (service.disabled, service.forced_down) == (True, True)


async def test_a_service_is_enabled_and_disabled() -> None:
    """A service is disabled with a reason and enabled; other fields stay."""
    desk = await open_desk()
    await desk.hosts.set_service("host-1", disabled=True, disabled_reason="broken")
    down = await desk.hosts.set_service("host-1", forced_down=True)
    assert (down.disabled, down.disabled_reason, down.forced_down) == (True, "broken", True)
    up = await desk.hosts.set_service("host-1", disabled=False)
    assert (up.disabled, up.disabled_reason, up.forced_down) == (False, None, True)
    with pytest.raises(NotFoundError):
        await desk.hosts.set_service("nobody", disabled=True)


async def test_an_idle_host_is_removed_with_all_that_is_its() -> None:
    """Removing an idle host removes its service and provider and its place in aggregates."""
    desk = await open_desk()
    await desk.ledger.write(Put(make_aggregate(1)))
    await desk.hosts.remove("host-1")
    for noun, key in (
        (Service, "host-1"),
        (Host, make_uuid("host", 1)),
        (Provider, make_uuid("host", 1)),
    ):
        assert await desk.ledger.get(noun, key) is None
    aggregate = await desk.ledger.get(Aggregate, "1")
    assert aggregate is not None
    assert aggregate.hosts == frozenset()
    assert [view.host.name for view in await desk.hosts.all()] == ["host-2"]


async def test_a_host_in_use_is_not_removed() -> None:
    """A host with instances is not removed, even if one arrives at the last moment."""
    desk = await open_desk()
    unit: Unit = (make_take(1), Put(make_instance(1, host="host-1")))
    await desk.ledger.write(*unit)
    with pytest.raises(ConflictError, match="still has instances"):
        await desk.hosts.remove("host-1")

    async def claim(units: object) -> None:
        desk.ledger.before_commit = None
        await desk.ledger.write(make_take(2, on=2), Put(make_instance(2, host="host-2")))

    desk.ledger.before_commit = claim
    with pytest.raises(ConflictError):
        await desk.hosts.remove("host-2")
    assert len(await desk.hosts.all()) == 2


async def test_a_host_that_is_not_there_is_not_found() -> None:
    """Reading or removing an unknown host raises NotFoundError."""
    desk = await open_desk()
    for call in (desk.hosts.get, desk.hosts.remove):
        with pytest.raises(NotFoundError, match="nobody"):
            await call("nobody")


async def test_a_host_is_found_by_uuid_and_by_name() -> None:
    """A host is found by uuid and by name, with its usage."""
    desk = await open_desk()
    await desk.ledger.write(make_take(1), Put(make_instance(1, host="host-1")))
    by_name, by_uuid = await desk.hosts.get("host-1"), await desk.hosts.get(make_uuid("host", 1))
    assert by_name == by_uuid
    assert (by_name.num_instances, by_name.used) == (1, {VCPU: 1})


async def test_what_the_fake_driver_reports_can_be_registered() -> None:
    """The fake driver's report can be registered."""
    desk = await open_desk(Fleet(hosts=0))
    fake = FakeHost("fake", {VCPU: 4}, ratios={VCPU: 2.0}, traits=frozenset({"CUSTOM_X"}))
    await desk.hosts.register([await FakeDriver(fake, desk.clock).report()])
    view = await desk.hosts.get("fake")
    assert (view.inventories[VCPU].capacity, view.traits) == (8, frozenset({"CUSTOM_X"}))


async def test_metrics_are_those_of_the_last_report() -> None:
    """The metrics of a host are those of its last report."""
    desk = await open_desk(Fleet(hosts=0))
    for metrics in ({"cpu.percent": 40.0, "watts": 210.5}, {"cpu.percent": 41.0}):
        fake = FakeHost("fake", {VCPU: 4}, host_ip="10.0.0.7", metrics=metrics)
        await desk.hosts.register([await FakeDriver(fake, desk.clock).report()])
        host = (await desk.hosts.get("fake")).host
        assert (host.metrics, host.host_ip) == (metrics, "10.0.0.7")


async def test_a_removed_host_stays_removed() -> None:
    """The removal revokes the keys and the token of a host, until it is enrolled again."""
    desk = await open_desk(Fleet(hosts=1))
    key = HostKey("key", 1.0)
    before = HostIdentity("host-1", keys=(key,), token_digest="d", created_at_s=1.0, rotates=True)
    await desk.ledger.write(Put(before))
    await desk.hosts.remove("host-1")
    after = await desk.ledger.get(HostIdentity, "host-1")
    assert after == HostIdentity("host-1", created_at_s=1.0, revoked_at_s=desk.clock.now_s())
