"""An auditor, and a ledger in which damage is made on purpose."""

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
"""What an instance of flavor 1 needs."""
LONG_S = 10_000.0


class Office:
    """Audits one ledger again and again."""

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
        """Audit; services stay up for long unless told otherwise."""
        return await self.auditing.audit(
            AuditAges(**ages), service_down_time_s=down_s, mends=mends, host=host
        )

    async def only(
        self, code: DiscrepancyCode, *, mends: bool = False, down_s: float = LONG_S * 10
    ) -> Discrepancy:
        """Audit, and return the one discrepancy that there is."""
        (found,) = (await self.audit(mends=mends, down_s=down_s)).discrepancies
        assert found.code is code
        return found

    async def place(self, number: int = 1) -> Instance:
        """Place an instance, as it is when it has been built; a while ago."""
        await self.beat()
        order = order_of(make_request(number))
        await self.desk.placer.place(order)
        placed = await self.get(order.instances[0].uuid)
        await self.write_instance(placed, status=Status.ACTIVE, task=None)
        await self.desk.clock.sleep(DOWN_S + 1)
        return await self.get(placed.uuid)

    async def beat(self) -> None:
        """Have the agents of all hosts be alive now."""
        names = tuple(service.host for service in await self.ledger.all(Service))
        await self.ledger.write(Heartbeats(names, self.desk.clock.now_s()))
        await self.desk.follower.catch_up()

    async def get(self, uuid: str) -> Instance:
        """Return an instance as the ledger has it."""
        found = await self.ledger.get(Instance, uuid)
        assert found is not None
        return found

    async def write_instance(self, instance: Instance, **changes: object) -> None:
        """Save an instance with some fields changed."""
        await self.ledger.write(Put(fast_replace(instance, **changes)))


async def open_office(hosts: int = 2, vcpus: int = 16) -> Office:
    """Make a ledger with some hosts, and who audits it."""
    return Office(await open_desk(Fleet(hosts=hosts, vcpus=vcpus)))
