"""Reporting: a host is as its agent reports it, again and again, and mostly nobody has to write."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.host_reports import HostReports
from berth.domain.compute.host import Host
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.write import ReplaceProvider, Unit
from berth.ports.virt import ChildReport, HostReport
from berth.services.fleet.allocation_ratios import AllocationRatios, RatioOverrides, RatioSettings
from berth.services.fleet.hosts import Hosts
from tests.unit.services.wiring import CountedIds, Desk, Fleet, open_desk

KEY = "cpu_allocation_ratio"
HOST = "host-1"


class Office:
    """The agent of one host, which may be restarted with other settings."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.driver = FakeDriver(FakeHost(HOST), desk.clock)
        self.inherits = True
        self.restart()

    def restart(self, **settings: dict[str, float]) -> None:
        """Start the process anew with settings of ratios."""
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
        """Return what the driver reports; ratios are none of the machine's."""
        report = await self.driver.report()
        if not self.inherits:
            return report
        none = dict.fromkeys(report.provider.inventories, 0.0)
        return replace(report, host=replace(report.host, allocation_ratios=none))

    async def register(self) -> None:
        """Report as an agent does when it starts."""
        await self.hosts.register([await self.made()])
        await self.desk.follower.catch_up()

    async def look(self) -> list[str]:
        """Report as an agent does again and again."""
        found = await self.reporting.report([await self.made()])
        await self.desk.follower.catch_up()
        return found

    async def ratio(self, name: str = VCPU) -> tuple[float, str]:
        """Return the ratio in force, the same in ledger and table, and its origin."""
        view = await self.desk.hosts.get(HOST)
        provider = await self.provider()
        found = self.desk.hosts.ratio_of(view, name)
        assert provider.inventories[name].allocation_ratio == found.value
        assert view.inventories[name].allocation_ratio == found.value
        return found.value, found.origin

    async def provider(self) -> Provider:
        """Return the host's own provider as the ledger has it."""
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
    """Return the agent of a host that is registered, with 4 as its initial ratio of CPUs."""
    office = Office(await open_desk(Fleet(hosts=0)))
    office.restart(initial={VCPU: 4.0})
    await office.register()
    return office


async def test_a_report_of_nothing_new_writes_nothing(office: Office) -> None:
    """However often it is made, and by whichever process."""
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
    """Whoever has written another one (nova-behaviour.md 3: set is forced on every periodic)."""
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
    """What an operator has set, or else what the host was first registered with."""
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
    """Later settings of it change nothing, at a report or at a registration."""
    office.restart(initial={VCPU: 9.0})
    assert await office.look() == []
    await office.register()
    assert await office.ratio() == (4.0, "initial, at registration")


async def test_a_ratio_from_the_placement_api_is_an_operators(office: Office) -> None:
    """Unset settings leave what is there, as in Nova; the next report takes it over."""
    await office.set_ratio(2.5)
    assert await office.look() == [HOST]
    assert await office.ratio() == (2.5, "set by an operator")
    assert await office.look() == []
    await office.register()
    assert await office.ratio() == (2.5, "set by an operator")


@pytest.mark.parametrize("ratio", [-1.0, 0.0, 1e9])
async def test_a_ratio_that_is_none_is_put_back(office: Office, ratio: float) -> None:
    """0 says "inherit", and more than there may be is no ratio."""
    await office.set_ratio(ratio)
    await office.look()
    assert await office.ratio() == (4.0, "initial, at registration")


async def test_aggregates_come_before_all_of_it(office: Office) -> None:
    """The lowest of them is in the inventory; what is written there is put back, and kept out."""
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
    """Beside the ratios of other classes; capacity changes in the same unit."""
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
    """A host that is there, a class that it has, a ratio that may be."""
    with pytest.raises(InvalidInputError, match="has no such inventory"):
        await office.set(CUSTOM_GPU=2.0)
    with pytest.raises(InvalidInputError, match="must be between 0 and"):
        await office.set(VCPU=-1.0)
    desk = office.desk
    with pytest.raises(NotFoundError):
        await RatioOverrides(desk.ledger, desk.follower, desk.replica).set("nobody", {VCPU: 1.0})


async def test_a_ratio_that_is_set_while_the_host_is_registered_stays(office: Office) -> None:
    """Neither sees the other, so the slower one looks again."""
    meanwhile = [3.0]

    async def set_it(units: Sequence[Unit]) -> None:
        del units
        if meanwhile:
            await office.set(VCPU=meanwhile.pop())

    office.desk.ledger.before_commit = set_it
    await office.register()
    assert await office.ratio() == (3.0, "set by an operator")


async def test_reserved_amounts_and_totals_follow_the_report(office: Office) -> None:
    """A driver reserves more for each guest, or a disk is added; others' writes are put back."""
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
    """They are compared with what this process has reported before."""
    report = await office.made()
    assert await office.reporting.report([report]) == []
    trait = replace(report.provider, traits=frozenset({"CUSTOM_FAST"}))
    part = ChildReport("GPU 1", {"CUSTOM_GPU_MILLI": Inventory(1000)})
    for other in (replace(report, provider=trait), replace(report, children=(part,)), report):
        assert await office.reporting.report([other]) == [HOST]
        await office.desk.follower.catch_up()
        assert await office.reporting.report([other]) == []


async def test_a_host_that_was_removed_does_not_come_back_by_itself(office: Office) -> None:
    """Its agent has to be started again."""
    await office.desk.hosts.remove(HOST)
    await office.desk.follower.catch_up()
    assert await office.look() == []
    await office.register()
    assert await office.ratio() == (4.0, "initial, at registration")


async def test_a_hosts_own_ratio_is_below_an_operators(office: Office) -> None:
    """What a driver or a fleet's file says of the machine."""
    office.inherits = False
    office.driver = FakeDriver(FakeHost(HOST, ratios={VCPU: 2.0}), office.desk.clock)
    await office.look()
    assert await office.ratio() == (2.0, "the host's own")
    await office.set(VCPU=7.0)
    assert await office.look() == []
    assert await office.ratio() == (7.0, "set by an operator")
    assert await office.ratio(DISK_GB) == (1.0, "the host's own")
