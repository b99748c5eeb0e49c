"""The loop in which a scheduler carries out the maintenance of hosts.

Every scheduler runs it. Only one at a time works on a host; when it dies, another one continues
from the state in the ledger (docs/adr/0041-maintenance-of-hosts.md).
"""

from typing import Final

from berth.domain.compute.maintenance import Drain, DrainState, Maintenance, MoveState
from berth.domain.errors import BerthError, ConflictError, UnavailableError
from berth.ports.telemetry import Telemetry
from berth.services.maintenance.drain_round import DrainParts, DrainRound

# The seconds between two rounds, with and without a drain in progress.
_PAUSE_S: Final = 1.0
_IDLE_S: Final = 3.0


class DrainController:
    """Carries out the maintenance of hosts.

    Args:
        parts: the services that it uses.
        telemetry: receives failures, and the ends of drains.
    """

    def __init__(self, parts: DrainParts, telemetry: Telemetry) -> None:
        self._parts = parts
        self._telemetry = telemetry

    async def run(self) -> None:
        """Work on every maintenance in turn; this never returns."""
        while True:
            is_busy = False
            try:
                is_busy = await self.round()
            except BerthError as error:
                self._telemetry.failure("maintenance_failed", error)
            await self._parts.clock.sleep(_PAUSE_S if is_busy else _IDLE_S)

    async def round(self) -> bool:
        """Work once on every maintenance; return whether a drain of this scheduler goes on.

        A failure on one host does not stop the work on the others.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        found = await self._parts.ledger.all(Maintenance)
        is_busy = False
        for record in found:
            try:
                is_busy |= await self._work(record.host)
            except UnavailableError:
                raise
            except Exception as error:  # noqa: BLE001 - a rule that is a plugin may raise anything
                self._telemetry.failure("maintenance_failed", error, host=record.host)
        return is_busy

    async def _work(self, host: str) -> bool:
        """Work on one host, unless another scheduler does; return whether its drain goes on."""
        parts = self._parts
        seen = await parts.ledger.version()
        record = await parts.ledger.get(Maintenance, host)
        if record is None or record.is_taken_from(parts.name, parts.clock.now_s()):
            return False
        this = DrainRound(parts, record, seen)
        try:
            goes_on = await this.work()
        except ConflictError as error:
            self._telemetry.event("maintenance_superseded", host=host, reason=str(error))
            return True
        self._tell_end(host, record.drain, this.drain)
        return goes_on

    def _tell_end(self, host: str, before: Drain | None, after: Drain | None) -> None:
        if before is None or after is None or before.state is after.state:
            return
        if after.state is not DrainState.RUNNING:
            moved = after.in_state(MoveState.MOVED)
            self._telemetry.event(
                "drain_ended",
                host=host,
                state=after.state.value,
                moved=moved,
                left=len(after.moves) - moved,
            )
