"""The gateway of the control plane, which serves the agents of hosts; see `HostGateway`.

Every method trusts the name of the host that it is given: the adapter that receives calls from
other machines has authenticated it. Reports are checked here and in the services that record them.
"""

from collections.abc import Sequence
from typing import Final

from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.compute.step import Conclusion, LeftoverVerdict, Standing, StepOutcome
from berth.ports.clock import Clock
from berth.ports.gateway import HostNote
from berth.ports.ledger import InstanceQuery, Ledger
from berth.ports.virt import HostReport, Power
from berth.services.fleet.hosts import Hosts
from berth.services.gateway.guest_states import GuestStates
from berth.services.gateway.host_notices import HostNotices
from berth.services.gateway.leftovers import Leftovers
from berth.services.gateway.outcomes import Outcomes
from berth.services.gateway.self_audit import SelfAudit
from berth.services.replica.liveness import Liveness

_ALL: Final = 2**31 - 1


class Gateway:
    """Serves the agents of hosts from the ledger.

    Args:
        ledger: the ledger.
        clock: provides the times in records.
        hosts: registers hosts.
        liveness: receives the heartbeats.
        outcomes: records the outcomes of steps.
        audits: audits a host whenever its agent reports it.
        notices: records the faults that agents find and repair.
    """

    def __init__(  # noqa: PLR0913 - the parts that serve agents
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        hosts: Hosts,
        liveness: Liveness,
        outcomes: Outcomes,
        audits: SelfAudit,
        notices: HostNotices,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._hosts = hosts
        self._liveness = liveness
        self._outcomes = outcomes
        self._audits = audits
        self._notices = notices
        self._guests = GuestStates(ledger, clock)
        self._leftovers = Leftovers(ledger, clock)

    async def register(self, reports: Sequence[HostReport]) -> None:
        """See `HostGateway.register`."""
        await self._hosts.register(reports)
        # Registering an unchanged host writes nothing, so the start of its agent is noted here.
        await self.heartbeat([report.host.name for report in reports])

    async def heartbeat(self, hosts: Sequence[str]) -> None:
        """See `HostGateway.heartbeat`. All processes know of the heartbeats within seconds."""
        for host in hosts:
            self._liveness.note(host)

    async def report(self, report: HostReport) -> None:
        """See `HostGateway.report`. Also saves the decayed counts of the host's failed builds."""
        await self._outcomes.failed_builds(report.host.name).fade(report.host.name)
        await self._audits.audit(report)

    async def instances(self, host: str) -> Sequence[Instance]:
        """See `HostGateway.instances`."""
        return await self._ledger.instances(InstanceQuery(host=host, limit=_ALL))

    async def standing(self, host: str, instance_uuid: str) -> Standing:
        """See `HostGateway.standing`."""
        return await self._outcomes.standing(host, instance_uuid)

    async def move(self, host: str, migration_uuid: str) -> Migration | None:
        """See `HostGateway.move`."""
        migration = await self._ledger.get(Migration, migration_uuid)
        if migration is None or host not in {migration.source.host, migration.destination.host}:
            return None
        return migration

    async def conclude(self, host: str, outcome: StepOutcome) -> Conclusion:
        """See `HostGateway.conclude`."""
        return await self._outcomes.conclude(host, outcome)

    async def leftover_move(self, host: str, migration_uuid: str) -> Migration | None:
        """See `HostGateway.leftover_move`."""
        return await self._guests.leftover(host, migration_uuid)

    async def report_cleared(self, host: str, migration_uuid: str) -> None:
        """See `HostGateway.report_cleared`."""
        await self._guests.report_cleared(host, migration_uuid)

    async def report_power(
        self, host: str, instance_uuid: str, revision: int, power: Power | None
    ) -> str | None:
        """See `HostGateway.report_power`."""
        return await self._guests.report_power(host, instance_uuid, revision, power)

    async def report_crashes(
        self, host: str, instance_uuid: str, revision: int, *, restarts: int, window_s: float
    ) -> bool:
        """See `HostGateway.report_crashes`."""
        return await self._guests.report_crashes(
            host, instance_uuid, revision, restarts=restarts, window_s=window_s
        )

    async def judge_leftover(
        self, host: str, instance_uuid: str, *, address: str
    ) -> LeftoverVerdict:
        """See `HostGateway.judge_leftover`."""
        return await self._leftovers.judge(host, instance_uuid, address=address)

    async def report_image_cleared(
        self,
        host: str,  # noqa: ARG002 - the image may have been made by another host
        image_id: str,
    ) -> None:
        """See `HostGateway.report_image_cleared`."""
        await self._leftovers.clear_image(image_id)

    async def save_notes(
        self, host: str, notes: Sequence[HostNote], *, begins_pass: bool = False
    ) -> None:
        """See `HostGateway.save_notes`."""
        if begins_pass:
            self._notices.begin(host)
        for note in notes:
            notices = self._notices
            record = notices.record_repair if note.is_repaired else notices.record_finding
            record(host, note.code, note.key, note.text)
        await self._notices.save(host)
