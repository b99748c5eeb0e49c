"""Maintenance of the hosts of a town: requests of operators, and the schedulers' loops."""

from dataclasses import replace

from berth.domain.compute.instance import Instance
from berth.domain.compute.instance_action import Caller
from berth.domain.compute.maintenance import Drain, Maintenance, MoveState, ServerMove
from berth.services.decisions.joint_decisions import JointDecisions
from berth.services.maintenance.drain_controller import DrainController
from berth.services.maintenance.drain_round import DrainParts
from berth.services.maintenance.maintenances import DrainOrder, Maintenances
from berth.testing.builders import make_flavor, make_request
from tests.unit.lifecycle.town import DOWN_S, Town
from tests.unit.services.wiring import running

OPERATOR = Caller("req-operator", "admins", "operator", is_admin=True)
HOST = "host-1"


class Upkeep:
    """The maintenance of a town.

    Attributes:
        maintenances: the requests of operators.
        controllers: the loops of the schedulers, by name.
    """

    def __init__(self, town: Town, *names: str) -> None:
        self.town = town
        desk = town.desk
        joint = JointDecisions(desk.decision_service, desk.replica)
        self.maintenances = Maintenances(
            ledger=town.ledger,
            follower=desk.follower,
            replica=desk.replica,
            joint=joint,
            clock=desk.clock,
            service_down_time_s=lambda: DOWN_S,
        )
        self.controllers = {
            name: DrainController(
                DrainParts(
                    name,
                    town.ledger,
                    desk.follower,
                    desk.replica,
                    joint,
                    town.operations,
                    desk.clock,
                    lambda: DOWN_S,
                ),
                desk.told,
            )
            for name in names or ("scheduler-1",)
        }

    async def drain(self, order: DrainOrder | None = None) -> Maintenance:
        """Request a drain of host-1."""
        return await self.maintenances.drain(HOST, order or DrainOrder(), OPERATOR)

    async def work(self, seconds: float = 120.0) -> None:
        """Let schedulers, agents and the maintenance work for a while."""
        async with running(*(one.run for one in self.controllers.values())):
            await self.town.work(seconds)

    async def done(self) -> Drain:
        """Return the drain of host-1 as recorded in the ledger."""
        drain = (await self.maintenances.get(HOST)).drain
        assert drain is not None
        return drain

    async def move(self, instance: Instance) -> ServerMove:
        """Return the entry of a server in the drain of host-1."""
        drain = await self.done()
        return next(one for one in drain.moves if one.instance_uuid == instance.uuid)

    async def states(self) -> list[MoveState]:
        """Return the states of the servers of the drain of host-1."""
        return [move.state for move in (await self.done()).moves]


async def create_on(
    town: Town, number: int, host: str = HOST, *, group: str | None = None, vcpus: int = 1
) -> Instance:
    """Return a new instance on a host."""
    flavor = make_flavor(vcpus=vcpus)
    request = replace(make_request(number), force_hosts=(host,), group_uuid=group, flavor=flavor)
    vm = await town.create(request)
    assert vm.host == host
    return vm
