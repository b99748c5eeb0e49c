"""Host reports: the ledger follows an agent's reports and is written only when they differ."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.domain.compute.host import Host
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.write import ReplaceProvider, Unit
from berth.ports.virt import ChildReport, HostReport
from berth.services.fleet.allocation_ratios import AllocationRatios, RatioOverrides, RatioSettings
from berth.services.fleet.hosts import Hosts
from berth.services.gateway.host_reports import HostReports
from tests.unit.services.wiring import CountedIds, Desk, Fleet, open_desk

KEY = "cpu_allocation_ratio"
HOST = "host-1"


class Office:
    """The agent of one host, which can be restarted with other settings."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.driver = FakeDriver(FakeHost(HOST), desk.clock)
        self.inherits = True
        self.restart()

    def restart(self, **settings: dict[str, float]) -> None:
        """Start the process again with these settings of ratios."""
        desk = self.desk
        ratios = AllocationRatios(
            ledger=desk.ledger, replica=desk.replica, settings=RatioSettings(**settings)
        )
        hosts = Hosts(
            ledger=desk.ledger,
            follower=desk.follower,
            replica=desk.replica,
            ratios=ratios,
            clock=desk.clock,
            ids=CountedIds(),
        )
        self.hosts, self.reporting = hosts, HostReports(hosts, desk.replica, ratios)

    async def made(self) -> HostReport:
        """Return the driver's report, with or without ratios of its own."""
        report = await self.driver.report()
        if not self.inherits:
            return report
        none = dict.fromkeys(report.provider.inventories, 0.0)
        return replace(report, host=replace(report.host, allocation_ratios=none))

    async def register(self) -> None:
        """Report the host as an agent does when it starts."""
        await self.hosts.register([await self.made()])
        await self.desk.follower.catch_up()

    async def look(self) -> list[str]:
        """Report the host as an agent does periodically, and return the names of changed hosts."""
        found = await self.reporting.report([await self.made()])
        await self.desk.follower.catch_up()
        return found

    async def ratio(self, name: str = VCPU) -> tuple[float, str]:
        """Return the ratio in force and its origin, and check that ledger and table agree."""
        view = await self.desk.hosts.get(HOST)
        provider = await self.provider()
        found = self.desk.hosts.ratio_of(view, name)
        assert provider.inventories[name].allocation_ratio == found.value
        assert view.inventories[name].allocation_ratio == found.value
        return found.value, found.origin

    async def provider(self) -> Provider:
        """Return the host's root provider from the ledger."""
        found = await self.desk.ledger.get(Provider, (await self.driver.report()).host.uuid)
        assert found is not None
        return found

    async def put_inventory(self, name: str, inventory: Inventory) -> None:
        """Write an inventory as a client of the Placement API does."""
        old = await self.provider()
        new = replace(old, inventories={**old.inventories, name: inventory})
        await self.desk.ledger.write(ReplaceProvider(new))
        await self.desk.follower.catch_up()

    async def set_ratio(self, value: float, name: str = VCPU) -> None:
        """Write a ratio as a client of the Placement API does."""
        old = (await self.provider()).inventories[name]
        await self.put_inventory(name, replace(old, allocation_ratio=value))

    async def set(self, **ratios: float) -> None:
        """Set ratios as an operator does."""
        desk = self.desk
        await RatioOverrides(desk.ledger, desk.follower, desk.replica).set(HOST, ratios)


@pytest.fixture
async def office() -> Office:
    """Return the agent of a registered host whose initial CPU ratio is 4."""
    office = Office(await open_desk(Fleet(hosts=0)))
    office.restart(initial={VCPU: 4.0})
    await office.register()
    return office


async def test_a_report_of_nothing_new_writes_nothing(office: Office) -> None:
    """Repeated equal reports write nothing, even after a restart."""
    units: list[Unit] = []

    async def watch(committed: Sequence[Unit]) -> None:
        units.extend(committed)

    office.desk.ledger.before_commit = watch
    for _ in range(3):
        assert await office.look() == []
    office.restart(initial={VCPU: 9.0})
    assert await office.look() == []
    assert units == []


async def test_a_set_ratio_is_forced_at_each_report(office: Office) -> None:
    """A ratio in the agent's settings replaces any other at each report (nova-behaviour.md 3)."""
    office.restart(own={VCPU: 6.0}, initial={VCPU: 4.0})
    assert await office.look() == [HOST]
    assert await office.ratio() == (6.0, "the agent's settings")
    await office.set_ratio(9.0)
    assert await office.look() == [HOST]
    assert await office.ratio() == (6.0, "the agent's settings")
    await office.set(VCPU=3.0)
    assert await office.ratio() == (6.0, "the agent's settings")
    assert await office.look() == []


async def test_unsetting_it_leaves_what_holds_without_it(office: Office) -> None:
    """Without the setting, the operator's ratio holds, or else the initial one."""
    office.restart(own={VCPU: 6.0})
    await office.look()
    office.restart()
    assert await office.look() == [HOST]
    assert await office.ratio() == (4.0, "initial, at registration")
    office.restart(own={VCPU: 6.0})
    await office.look()
    await office.set(VCPU=3.0)
    office.restart()
    await office.look()
    assert await office.ratio() == (3.0, "set by an operator")


async def test_an_initial_ratio_is_for_the_first_time_alone(office: Office) -> None:
    """A changed initial ratio has no effect on a registered host."""
    office.restart(initial={VCPU: 9.0})
    assert await office.look() == []
    await office.register()
    assert await office.ratio() == (4.0, "initial, at registration")


async def test_a_ratio_from_the_placement_api_is_an_operators(office: Office) -> None:
    """Without a setting, a ratio written by a client becomes the operator's, as in Nova."""
    await office.set_ratio(2.5)
    assert await office.look() == [HOST]
    assert await office.ratio() == (2.5, "set by an operator")
    assert await office.look() == []
    await office.register()
    assert await office.ratio() == (2.5, "set by an operator")


@pytest.mark.parametrize("ratio", [-1.0, 0.0, 1e9])
async def test_a_ratio_that_is_none_is_put_back(office: Office, ratio: float) -> None:
    """A ratio of 0 or outside the allowed range is replaced by the one in force."""
    await office.set_ratio(ratio)
    await office.look()
    assert await office.ratio() == (4.0, "initial, at registration")


async def test_aggregates_come_before_all_of_it(office: Office) -> None:
    """The lowest ratio of the aggregates is in force and replaces other values."""
    await office.desk.aggregates.create("gold", {KEY: "8"})
    await office.desk.aggregates.create("batch", {KEY: "5"})
    for number in (1, 2):
        await office.desk.aggregates.add_host(number, HOST)
    await office.set_ratio(2.0)
    assert await office.look() == [HOST]
    assert await office.ratio() == (5.0, "minimum of aggregates batch, gold")
    for number in (1, 2):
        await office.desk.aggregates.remove_host(number, HOST)
    assert await office.ratio() == (4.0, "initial, at registration")


async def test_what_an_operator_sets_counts_at_once_and_can_be_unset(office: Office) -> None:
    """An operator's ratio takes effect immediately, and 0 unsets it, for each class separately."""
    await office.set(VCPU=3.0, MEMORY_MB=1.5)
    assert await office.ratio() == (3.0, "set by an operator")
    assert await office.ratio(MEMORY_MB) == (1.5, "set by an operator")
    await office.set(VCPU=0.0)
    assert await office.ratio() == (4.0, "initial, at registration")
    assert await office.ratio(MEMORY_MB) == (1.5, "set by an operator")
    host = await office.desk.ledger.get(Host, (await office.provider()).uuid)
    assert host is not None
    assert host.operator_ratios == {MEMORY_MB: 1.5}


async def test_an_operator_can_only_set_what_makes_sense(office: Office) -> None:
    """Unknown hosts, missing classes and invalid ratios are refused."""
    with pytest.raises(InvalidInputError, match="has no inventory of this class"):
        await office.set(CUSTOM_GPU=2.0)
    with pytest.raises(InvalidInputError, match="must be between 0 and"):
        await office.set(VCPU=-1.0)
    desk = office.desk
    with pytest.raises(NotFoundError):
        await RatioOverrides(desk.ledger, desk.follower, desk.replica).set("nobody", {VCPU: 1.0})


async def test_a_ratio_that_is_set_while_the_host_is_registered_stays(office: Office) -> None:
    """A registration that races with an operator's ratio keeps the ratio."""
    meanwhile = [3.0]

    async def set_it(units: Sequence[Unit]) -> None:
        del units
        if meanwhile:
            await office.set(VCPU=meanwhile.pop())

    office.desk.ledger.before_commit = set_it
    office.driver = FakeDriver(FakeHost(HOST, host_ip="192.0.2.9"), office.desk.clock)
    await office.register()
    assert not meanwhile
    assert await office.ratio() == (3.0, "set by an operator")


async def test_reserved_amounts_and_totals_follow_the_report(office: Office) -> None:
    """Reported totals and reservations replace others; classes that are not reported stay."""
    office.driver = FakeDriver(FakeHost(HOST, {VCPU: 8}), office.desk.clock)
    assert await office.look() == [HOST]
    old = (await office.provider()).inventories[VCPU]
    assert old.total == 8
    await office.put_inventory(VCPU, replace(old, reserved=5))
    assert await office.look() == [HOST]
    assert (await office.provider()).inventories[VCPU].reserved == old.reserved
    await office.put_inventory("CUSTOM_LICENSE", Inventory(7, allocation_ratio=2.0))
    assert await office.look() == []
    assert (await office.provider()).inventories["CUSTOM_LICENSE"].total == 7


async def test_parts_and_traits_that_change_are_reported(office: Office) -> None:
    """A changed trait or child provider is written once."""
    report = await office.made()
    assert await office.reporting.report([report]) == []
    trait = replace(report.provider, traits=frozenset({"CUSTOM_FAST"}))
    part = ChildReport("GPU 1", {"CUSTOM_GPU_MILLI": Inventory(1000)})
    for other in (replace(report, provider=trait), replace(report, children=(part,)), report):
        assert await office.reporting.report([other]) == [HOST]
        await office.desk.follower.catch_up()
        assert await office.reporting.report([other]) == []


async def test_a_host_that_was_removed_does_not_come_back_by_itself(office: Office) -> None:
    """A removed host returns only when its agent registers it again."""
    await office.desk.hosts.remove(HOST)
    await office.desk.follower.catch_up()
    assert await office.look() == []
    await office.register()
    assert await office.ratio() == (4.0, "initial, at registration")


async def test_a_hosts_own_ratio_is_below_an_operators(office: Office) -> None:
    """A ratio in the driver's report is in force unless an operator sets one."""
    office.inherits = False
    office.driver = FakeDriver(FakeHost(HOST, ratios={VCPU: 2.0}), office.desk.clock)
    await office.look()
    assert await office.ratio() == (2.0, "the host's own")
    await office.set(VCPU=7.0)
    assert await office.look() == []
    assert await office.ratio() == (7.0, "set by an operator")
    assert await office.ratio(DISK_GB) == (1.0, "the host's own")
