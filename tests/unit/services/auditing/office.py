"""An auditor and a ledger in which tests cause damage."""

from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance, Status
from berth.domain.fast_replace import fast_replace
from berth.domain.ledger.discrepancy import AuditAges, AuditReport, Discrepancy, DiscrepancyCode
from berth.domain.ledger.write import Heartbeats, Put
from berth.ports.ledger import Ledger
from berth.services.auditing import AuditService
from berth.testing.builders import make_request
from tests.unit.services.wiring import Desk, Fleet, open_desk, order_of

DOWN_S = 60.0
FULL = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
"""The needs of an instance of flavor 1."""
LONG_S = 10_000.0


class Office:
    """An audit service with its ledger, and helpers that change the ledger."""

    def __init__(self, desk: Desk, ledger: Ledger | None = None) -> None:
        self.desk = desk
        self.ledger = desk.ledger
        self.auditing = AuditService(
            ledger=ledger or desk.ledger,
            replica=desk.replica,
            clock=desk.clock,
            telemetry=desk.told,
            first_seen_s={},
        )

    async def audit(
        self,
        *,
        mends: bool = False,
        down_s: float = LONG_S * 10,
        host: str | None = None,
        **ages: float,
    ) -> AuditReport:
        """Return the report of an audit; by default all services count as up."""
        return await self.auditing.audit(
            AuditAges(**ages), service_down_time_s=down_s, mends=mends, host=host
        )

    async def only(
        self, code: DiscrepancyCode, *, mends: bool = False, down_s: float = LONG_S * 10
    ) -> Discrepancy:
        """Return the only discrepancy of an audit and check its code."""
        (found,) = (await self.audit(mends=mends, down_s=down_s)).discrepancies
        assert found.code is code
        return found

    async def place(self, number: int = 1) -> Instance:
        """Place an instance, make it ACTIVE, let some time pass, and return it."""
        await self.beat()
        order = order_of(make_request(number))
        await self.desk.placer.place(order)
        placed = await self.get(order.instances[0].uuid)
        await self.write_instance(placed, status=Status.ACTIVE, task=None)
        await self.desk.clock.sleep(DOWN_S + 1)
        return await self.get(placed.uuid)

    async def beat(self) -> None:
        """Record a heartbeat of all hosts."""
        names = tuple(service.host for service in await self.ledger.all(Service))
        await self.ledger.write(Heartbeats(names, self.desk.clock.now_s()))
        await self.desk.follower.catch_up()

    async def get(self, uuid: str) -> Instance:
        """Return an instance as recorded in the ledger."""
        found = await self.ledger.get(Instance, uuid)
        assert found is not None
        return found

    async def write_instance(self, instance: Instance, **changes: object) -> None:
        """Save an instance with some fields changed."""
        await self.ledger.write(Put(fast_replace(instance, **changes)))


async def open_office(hosts: int = 2, vcpus: int = 16) -> Office:
    """Return an office on a ledger with this many hosts."""
    return Office(await open_desk(Fleet(hosts=hosts, vcpus=vcpus)))
