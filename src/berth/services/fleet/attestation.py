"""Attesting: what an attestation service says of the hosts, written where rules read it.

Decisions do no I/O, so the levels are there before somebody asks: in the records of the compute
services, each with the time when it ends. They are renewed when half of that time is left. When
the attestation service is away they run out, and their hosts are trusted no more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from berth.domain.compute.host import Attestation
from berth.domain.errors import UnavailableError
from berth.domain.ledger.write import Guard, Put, Rejected, Unit
from berth.ports.attestation import Attester
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.telemetry import Telemetry
from berth.services.providers.guarded_saves import service_guard
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica

ASKED_AT_ONCE = 100
"""Nodes in one question to the attestation service."""

_ROUNDS = 6
"""Looks at all hosts while an attestation counts."""


class AttestationService:
    """Keeps the attestations of all hosts fresh. Several schedulers may do so on one ledger.

    Whoever comes later finds that nothing is due.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        follower: Follower,
        replica: Replica,
        attester: Attester,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._replica = replica
        self._attester = attester
        self._clock = clock
        self._telemetry = telemetry

    async def run(self) -> None:
        """Renew for ever."""
        while True:
            await self.renew()
            await self._clock.sleep(self._attester.valid_s / _ROUNDS)

    async def renew(self) -> int:
        """Ask about every host whose attestation ends soon; return how many services changed.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        changed = 0
        await self._follower.catch_up()
        due = self._due()
        for first in range(0, len(due), ASKED_AT_ONCE):
            chunk = due[first : first + ASKED_AT_ONCE]
            try:
                found = await self._attester.attest([node for _, node in chunk])
            except UnavailableError as error:
                self._telemetry.failure("attestation_failed", error, hosts=len(due) - first)
                break
            changed += await self._save(chunk, found)
        return changed

    def _due(self) -> list[tuple[str, str]]:
        """Return hosts and nodes whose attestation ends soon, those that end first at the front."""
        hosts = self._replica.hosts
        rows = hosts.alive_rows()
        until_s = hosts.attestations.until_s(rows)
        soon = until_s < self._clock.now_s() + self._attester.valid_s / 2
        order = np.argsort(until_s[soon], kind="stable")
        found: list[int] = rows[soon][order].tolist()
        return [(hosts.name(row), hosts.node(row)) for row in found]

    async def _save(
        self, asked: Sequence[tuple[str, str]], found: Mapping[str, Attestation]
    ) -> int:
        # A service is put back whole, with its heartbeat: the answer may have taken long.
        await self._follower.catch_up()
        by_host: dict[str, dict[str, Attestation]] = {}
        for name, node in asked:
            if node in found:
                by_host.setdefault(name, {})[node] = found[node]
        units = [unit for name, mine in by_host.items() for unit in self._units(name, mine)]
        if not units:
            return 0
        outcomes = await self._ledger.commit(units)
        return sum(not isinstance(outcome, Rejected) for outcome in outcomes)

    def _units(self, name: str, found: Mapping[str, Attestation]) -> list[Unit]:
        """Return what saves the attestations of one host, nothing when they are there already.

        When somebody else has changed the service the unit is refused, and due again next time.
        """
        hosts = self._replica.hosts
        service = hosts.service(name)
        if service is None:
            return []
        nodes = {hosts.node(row) for row in hosts.rows_of_name(name)}
        kept = {node: one for node, one in service.attestations.items() if node in nodes}
        attestations = {**kept, **found}
        if attestations == service.attestations:
            return []
        guard = Guard(service_guard(name), hosts.version)
        return [(guard, Put(replace(service, attestations=attestations)))]
