"""Tests for audits of a ledger that changes meanwhile or has much damage."""

import pytest

from berth.domain.compute.instance import Status
from berth.domain.fast_replace import fast_replace
from berth.domain.inventory.allocation import Allocation, ConsumerAllocations
from berth.domain.ledger.change import Snapshot
from berth.domain.ledger.write import Free, Put, Take
from berth.services.auditing import audit_service
from berth.testing.builders import make_claim, make_request, make_take
from tests.unit.services.auditing.office import FULL, Office, open_office
from tests.unit.services.wiring import order_of


class Busy:
    """Places an instance and deletes another one at each read of the ledger."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.number = 0
        self.reads = 0

    async def happen(self) -> None:
        """Place an instance and delete an older one."""
        self.number += 1
        office = self.office
        request = make_request(self.number)
        await office.desk.placer.place(order_of(request))
        if self.number > 2:
            old = await office.get(make_request(self.number - 2).instance_uuids[0])
            gone = Put(fast_replace(old, status=Status.DELETED, task=None))
            await office.ledger.write(Free(old.uuid), gone)

    def watch(self) -> None:
        """Change the ledger around each read of an audit."""
        ledger = self.office.ledger
        read_snapshot, read_allocations = ledger.snapshot, ledger.allocations

        async def snapshot(now_s: float) -> Snapshot:
            state = await read_snapshot(now_s)
            self.reads += 1
            await self.happen()
            return state

        async def allocations(
            *, consumer_uuid: str | None = None, provider_uuid: str | None = None
        ) -> list[Allocation]:
            found = await read_allocations(consumer_uuid=consumer_uuid, provider_uuid=provider_uuid)
            if consumer_uuid is None:
                await self.happen()
            return found

        ledger.snapshot = snapshot  # type: ignore[method-assign]
        ledger.allocations = allocations  # type: ignore[method-assign]


async def test_a_cloud_that_never_stands_still_gives_no_false_alarm() -> None:
    """An audit of a ledger that keeps changing reports no discrepancies."""
    office = await open_office()
    for number in (101, 102):
        await office.place(number)
    await office.beat()
    busy = Busy(office)
    for _ in range(3):
        await busy.happen()
    busy.watch()
    for _ in range(3):
        report = await office.audit(grace_s=-1.0)
        assert (report.discrepancies, report.lost) == ((), {})
    assert busy.reads == 9


async def test_a_host_that_never_stands_still_gives_no_false_alarm() -> None:
    """An audit of one host reports no discrepancies while the ledger keeps changing."""
    office = await open_office()
    for number in (101, 102):
        await office.place(number)
    await office.beat()
    busy = Busy(office)
    for _ in range(3):
        await busy.happen()
    holders = office.ledger.provider_consumers

    async def then_more(provider_uuid: str) -> list[ConsumerAllocations]:
        found = await holders(provider_uuid)
        await busy.happen()
        await office.desk.follower.catch_up()
        return found

    office.ledger.provider_consumers = then_more  # type: ignore[method-assign]
    busy.watch()
    for _ in range(5):
        for host in ("host-1", "host-2"):
            report = await office.audit(grace_s=-1.0, host=host)
            assert (report.discrepancies, report.lost) == ((), {})
    assert busy.number > 20


async def test_damage_is_found_in_a_cloud_that_never_stands_still() -> None:
    """An audit finds exactly the damage in a ledger that keeps changing."""
    office = await open_office()
    vm = await office.place(101)
    await office.ledger.write(Free(vm.uuid))
    await office.beat()
    busy = Busy(office)
    busy.watch()
    report = await office.audit(grace_s=-1.0, mends=True)
    assert [one.key for one in report.discrepancies if one.is_repaired] == [vm.uuid]
    assert len(report.discrepancies) == 1


async def test_there_is_an_end_to_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report with too many discrepancies is cut and says so."""
    monkeypatch.setattr(audit_service, "DISCREPANCIES_MAX", 2)
    office = await open_office()
    for number in (1, 2, 3):
        vm = await office.place(number)
        await office.write_instance(vm, status=Status.DELETED)
    report = await office.audit(mends=True)
    assert (len(report.discrepancies), report.is_cut) == (2, True)
    report = await office.audit(mends=True)
    assert (len(report.discrepancies), report.is_cut) == (1, False)
    vm = await office.place(4)
    for number in (5, 6):
        await office.ledger.write(make_take(number))
    await office.ledger.write(Free(vm.uuid), Take(make_claim(7, amounts=FULL)))
    assert (await office.audit()).is_cut
