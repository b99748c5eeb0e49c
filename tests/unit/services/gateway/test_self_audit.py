"""Self-audits: agents repair what is safe, report the rest, and read the ledger rarely."""

from dataclasses import replace

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.domain.compute.host import NOTICES_MAX, Host, Service
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Migration, Stage
from berth.domain.ledger.discrepancy import DiscrepancyCode
from berth.domain.ledger.write import Free, Put, Reallocate, Take, TransferAllocations
from berth.ports.measures import AGENT_FINDINGS, HOST_AUDITS
from berth.ports.telemetry import Measure
from berth.ports.virt import HostReport
from berth.services.fleet.allocation_ratios import AllocationRatios
from berth.services.gateway.host_notices import HostNotices
from berth.services.gateway.host_reports import HostReports
from berth.services.gateway.self_audit import SelfAudit
from berth.testing.builders import (
    make_claim,
    make_migration,
    make_moving_consumer,
    make_share,
    make_uuid,
)
from tests.unit.services.auditing.office import FULL, LONG_S, Office, open_office

ORPHANED = DiscrepancyCode.ORPHANED_ALLOCATION


class Counted:
    """Metrics that a test can read."""

    def __init__(self) -> None:
        self.found: dict[tuple[Measure, tuple[str, ...]], float] = {}

    def add(self, measure: Measure, labels: tuple[str, ...] = (), amount: float = 1.0) -> None:
        """Add an amount to a counter."""
        self.found[measure, labels] = self.found.get((measure, labels), 0) + amount

    def observe(self, measure: Measure, value: float, labels: tuple[str, ...] = ()) -> None:
        """Do nothing."""

    def of(self, code: str, outcome: str) -> float:
        """Return the number of findings with this code and outcome."""
        return self.found.get((AGENT_FINDINGS, (code, outcome)), 0)

    @property
    def looks(self) -> float:
        """The number of times the ledger was read."""
        return self.found.get((HOST_AUDITS, ()), 0)


class Agents:
    """The agents of all hosts of an office."""

    def __init__(self, office: Office) -> None:
        self.office, self.desk = office, office.desk
        self.restart()

    def restart(self) -> None:
        """Start the process again."""
        desk = self.desk
        self.counted = Counted()
        self.notices = HostNotices(
            ledger=desk.ledger,
            replica=desk.replica,
            clock=desk.clock,
            telemetry=desk.told,
            metrics=self.counted,
        )
        self.auditing = SelfAudit(
            ledger=desk.ledger,
            replica=desk.replica,
            reports=HostReports(
                desk.hosts, desk.replica, AllocationRatios(ledger=desk.ledger, replica=desk.replica)
            ),
            notices=self.notices,
            clock=desk.clock,
            telemetry=desk.told,
            metrics=self.counted,
            service_down_time_s=lambda: LONG_S * 10,
        )

    async def look(self, times: int = 1, every_s: float = 60.0) -> None:
        """Audit all hosts repeatedly."""
        for _ in range(times):
            await self.desk.clock.sleep(every_s)
            await self.desk.follower.catch_up()
            for row in self.desk.replica.hosts.alive_rows():
                host = self.desk.replica.hosts.host(int(row))
                await self.auditing.audit(await Told(host, self).report())
        await self.desk.follower.catch_up()

    async def service(self, name: str = "host-1") -> Service:
        """Return a service from the ledger."""
        found = await self.desk.ledger.get(Service, name)
        assert found is not None
        return found


class Told(FakeDriver):
    """A driver that reports a host as it is in the replica."""

    def __init__(self, host: Host, agents: Agents) -> None:
        super().__init__(FakeHost(host.name), agents.desk.clock)
        self.host, self.hosts = host, agents.desk.replica.hosts

    async def report(self) -> HostReport:
        """Return a report that matches the replica."""
        row = self.hosts.row_of(self.host.uuid)
        assert row is not None
        made = await super().report()
        provider = replace(
            made.provider,
            uuid=self.host.uuid,
            inventories=self.hosts.inventories(row),
            traits=frozenset(),
        )
        return HostReport(self.host, provider)


@pytest.fixture
async def agents() -> Agents:
    """Return the agents of two hosts."""
    agents = Agents(await open_office())
    await agents.office.beat()
    return agents


async def deleted(agents: Agents) -> Instance:
    """Return an instance that was deleted but still holds its room."""
    vm = await agents.office.place()
    await agents.office.write_instance(vm, status=Status.DELETED, task=None)
    return await agents.office.get(vm.uuid)


async def test_what_a_deleted_instance_holds_is_freed(agents: Agents) -> None:
    """After the grace period, the room is freed, counted, reported and shown by the next audit."""
    vm = await deleted(agents)
    vm = replace(vm, updated_at_s=agents.desk.clock.now_s())
    await agents.desk.ledger.write(Put(vm))
    await agents.look(every_s=30)
    assert len(await agents.desk.ledger.allocations()) == 1
    await agents.look(3)
    assert await agents.desk.ledger.allocations() == []
    assert agents.counted.of(ORPHANED, "repaired") == 1
    assert "discrepancy_repaired" in agents.desk.told.events
    report = await agents.office.audit()
    assert report.discrepancies == ()
    (note,) = report.mended_by_agents[vm.host or ""]
    assert (note.code, note.key) == (ORPHANED, vm.uuid)
    assert "freed" in note.text


async def test_what_an_ended_move_holds_is_freed(agents: Agents) -> None:
    """The room of a completed move is freed and the repair is recorded."""
    ledger = agents.desk.ledger
    over = replace(make_migration(of=3), stage=Stage.COMPLETED)
    await ledger.write(
        Take(make_claim(3, on=2, amounts=FULL)),
        TransferAllocations(make_uuid("instance", 3), make_moving_consumer()),
        Put(over),
    )
    await agents.look(4)
    assert await ledger.allocations() == []
    assert (await agents.service("host-2")).audit.mended[0].key == over.uuid


async def test_what_nobody_knows_is_left_and_told_once(agents: Agents) -> None:
    """An unknown consumer's allocations are left alone and reported once."""
    ledger = agents.desk.ledger
    await ledger.write(Take(make_claim(4, amounts=FULL)))
    await ledger.write(Reallocate((make_share(1, on_2=2),)))
    await agents.look(20)
    assert len(await ledger.allocations()) == 2
    assert agents.counted.of(ORPHANED, "found") == 1
    assert agents.counted.of(ORPHANED, "repaired") == 0
    assert agents.desk.told.events.count("discrepancy_found") == 1


async def test_what_is_missing_is_left_to_people(agents: Agents) -> None:
    """A missing allocation is reported and not claimed again."""
    vm = await agents.office.place()
    await agents.desk.ledger.write(Free(vm.uuid))
    await agents.look(5)
    assert await agents.desk.ledger.allocations() == []
    assert agents.counted.of(DiscrepancyCode.MISSING_ALLOCATION, "found") == 1


async def test_what_is_being_worked_on_is_left_alone(agents: Agents) -> None:
    """An instance that is being deleted frees its room itself."""
    vm = await agents.office.place()
    await agents.office.write_instance(vm, task=Task.DELETING)
    await agents.look(5)
    assert len(await agents.desk.ledger.allocations()) == 1
    assert not agents.counted.of(ORPHANED, "repaired")


async def test_a_host_in_order_is_looked_at_twice_and_then_no_more(agents: Agents) -> None:
    """A host without discrepancies is read again only after it changes."""
    vm = await agents.office.place()
    await agents.look(30)
    assert agents.counted.looks == 2
    await agents.office.write_instance(vm, status=Status.DELETED)
    await agents.desk.ledger.write(Free(vm.uuid))
    await agents.office.place(2)
    await agents.look(30)
    assert agents.counted.looks <= 6
    reads = 0

    async def count(_: object) -> None:
        nonlocal reads
        reads += 1

    agents.desk.ledger.before_commit = count
    await agents.look(5)
    assert reads == 0


async def test_something_wrong_is_looked_at_until_it_is_right(agents: Agents) -> None:
    """A discrepancy is read at each audit until it is repaired, and is counted once."""
    vm = await agents.office.place()
    await agents.desk.ledger.write(Free(vm.uuid))
    await agents.look(40)
    assert agents.counted.looks > 30
    await agents.office.place(2)
    await agents.look(5)
    assert agents.counted.of(DiscrepancyCode.MISSING_ALLOCATION, "found") == 1
    await agents.office.audit(mends=True)
    await agents.look(20)
    before = agents.counted.looks
    await agents.look(20)
    assert agents.counted.looks == before


async def test_few_notes_are_kept_of_one_host(agents: Agents) -> None:
    """Only the newest notices of a host are kept, also over a restart of the agent."""
    for number in range(NOTICES_MAX + 5):
        agents.notices.record_repair(
            "host-1", "guest_removed", make_uuid("instance", number), "gone"
        )
    await agents.notices.save("host-1")
    await agents.desk.follower.catch_up()
    agents.restart()
    agents.notices.record_repair("host-1", "guest_removed", make_uuid("instance", 99), "gone")
    await agents.notices.save("host-1")
    mended = (await agents.service()).audit.mended
    assert len(mended) == NOTICES_MAX
    assert mended[0].key == make_uuid("instance", 99)
    assert mended[1].key == make_uuid("instance", NOTICES_MAX + 4)


async def test_what_is_seen_no_more_is_forgotten(agents: Agents) -> None:
    """A finding keeps its time over a restart, and is dropped after two audits without it."""
    uuid, notes = make_uuid("instance", 1), agents.notices
    notes.begin("host-1")
    notes.record_finding("host-1", "orphan_guest", uuid, "a guest is here")
    await notes.save("host-1")
    await agents.desk.follower.catch_up()
    first = (await agents.service()).audit.found
    (told,) = (await agents.office.audit()).discrepancies
    assert (told.code, told.key, told.host) == ("orphan_guest", uuid, "host-1")
    await agents.desk.clock.sleep(600)
    agents.restart()
    notes = agents.notices
    notes.begin("host-1")
    notes.record_finding("host-1", "orphan_guest", uuid, "a guest is here")
    await notes.save("host-1")
    assert (await agents.service()).audit.found == first
    for _ in range(2):
        await agents.desk.clock.sleep(600)
        notes.begin("host-1")
        await notes.save("host-1")
    assert (await agents.service()).audit.found == ()
    await agents.desk.follower.catch_up()
    assert (await agents.office.audit()).discrepancies == ()


async def test_a_note_overwrites_nothing_that_an_operator_has_said(agents: Agents) -> None:
    """Saving a notice keeps a simultaneous change of the service by an operator."""
    agents.notices.record_repair("host-1", "guest_removed", make_uuid("instance", 1), "gone")

    async def disable(_: object) -> None:
        agents.desk.ledger.before_commit = None
        await agents.desk.hosts.set_service("host-1", disabled=True, disabled_reason="repair")

    agents.desk.ledger.before_commit = disable
    await agents.notices.save("host-1")
    service = await agents.service()
    assert (service.disabled_reason, len(service.audit.mended)) == ("repair", 1)


async def test_a_move_that_is_left_behind_is_told_and_not_touched(agents: Agents) -> None:
    """A move that was left behind keeps its room, since its guest may still run."""
    ledger = agents.desk.ledger
    left = replace(make_migration(of=3), stage=Stage.LEFT_BEHIND)
    host = left.source.host
    number = int(host.removeprefix("host-"))
    await ledger.write(
        Take(make_claim(3, on=number, amounts=FULL)),
        TransferAllocations(make_uuid("instance", 3), make_moving_consumer()),
        Put(left),
    )
    await agents.look(20)
    assert len(await ledger.allocations()) == 1
    assert agents.counted.of(DiscrepancyCode.MOVE_LEFT_BEHIND, "found") == 1
    assert (await ledger.get(Migration, left.uuid)) == left


async def test_many_hosts_share_the_audits_after_a_start(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One read of the whole ledger each serves the hosts in order; others are read themselves."""
    monkeypatch.setattr("berth.services.gateway.self_audit._SHARED_MIN", 2)
    first = await agents.office.place(1)
    await agents.office.place(2)
    await agents.desk.ledger.write(Free(first.uuid))
    reads = 0
    snapshot = agents.desk.ledger.snapshot

    async def count(now_s: float) -> object:
        nonlocal reads
        reads += 1
        return await snapshot(now_s)

    monkeypatch.setattr(agents.desk.ledger, "snapshot", count)
    await agents.look(2)
    assert (reads, agents.counted.looks) == (0, 0)
    await agents.look(2)
    assert reads == 1
    assert agents.counted.of(DiscrepancyCode.MISSING_ALLOCATION, "found") == 1
    looks = agents.counted.looks
    assert 0 < looks <= 2
    await agents.office.place(3)
    await agents.look(20)
    assert reads == 1
