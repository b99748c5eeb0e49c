"""Attestation of hosts: the results of an attestation service, stored where rules read them.

Decisions do no I/O, so the results are fetched in advance into the records of the compute services,
each with its expiry. They are renewed when half of their lifetime is left. While the attestation
service is unreachable they expire, and their hosts are then no longer trusted.
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

# One request to the attestation service names at most this many nodes.
ASKED_AT_ONCE = 100

# All hosts are checked this many times within the lifetime of an attestation. With renewal at half
# of it, two checks in a row may fail before anything expires.
_ROUNDS = 6


class AttestationService:
    """Keeps the attestations of all hosts valid.

    Several schedulers may run this service on one ledger: the later ones find nothing due.

    Args:
        ledger: stores the results in the records of the services.
        follower: keeps the replica up to date with the ledger.
        replica: provides the hosts and the expiry times of their attestations.
        attester: asks the attestation service.
        clock: provides the time of day.
        telemetry: receives failures of the attestation service.
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
        """Renew attestations before they expire; this never returns."""
        while True:
            await self.renew()
            await self._clock.sleep(self._attester.valid_s / _ROUNDS)

    async def renew(self) -> int:
        """Renew every attestation that expires soon, and return the number of changed services.

        A failure of the attestation service is reported and ends the round.

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
                # The remaining hosts are still due at the next check, so there is no retry now.
                self._telemetry.failure("attestation_failed", error, hosts=len(due) - first)
                break
            changed += await self._save(chunk, found)
        return changed

    def _due(self) -> list[tuple[str, str]]:
        """Return hosts and nodes whose attestations expire soon, the earliest first."""
        hosts = self._replica.hosts
        rows = hosts.alive_rows()
        until_s = hosts.attestations.until_s(rows)
        soon = until_s < self._clock.now_s() + self._attester.valid_s / 2
        # The earliest expiry comes first, in case the attestation service fails before the last
        # host.
        order = np.argsort(until_s[soon], kind="stable")
        found: list[int] = rows[soon][order].tolist()
        return [(hosts.name(row), hosts.node(row)) for row in found]

    async def _save(
        self, asked: Sequence[tuple[str, str]], found: Mapping[str, Attestation]
    ) -> int:
        # The whole service record is written, including its heartbeat, and the attestation service
        # may have taken a long time to respond. The replica must therefore be current.
        await self._follower.catch_up()
        by_host: dict[str, dict[str, Attestation]] = {}
        for name, node in asked:
            if node in found:
                by_host.setdefault(name, {})[node] = found[node]
        units = [
            unit for name, own_nodes in by_host.items() for unit in self._units(name, own_nodes)
        ]
        if not units:
            return 0
        outcomes = await self._ledger.commit(units)
        return sum(not isinstance(outcome, Rejected) for outcome in outcomes)

    def _units(self, name: str, found: Mapping[str, Attestation]) -> list[Unit]:
        """Return the unit that saves the attestations of one host, in a list.

        The list is empty if the attestations are already stored or the host has no service. If the
        service was changed concurrently, the ledger rejects the unit, and the host is due again at
        the next check.
        """
        hosts = self._replica.hosts
        service = hosts.services.get(name)
        if service is None:
            return []
        nodes = {hosts.node(row) for row in hosts.host_names.of_name(name)}
        # Attestations of nodes that the host no longer has are dropped.
        kept = {node: one for node, one in service.attestations.items() if node in nodes}
        attestations = {**kept, **found}
        if attestations == service.attestations:
            return []
        guard = Guard(service_guard(name), hosts.version)
        return [(guard, Put(replace(service, attestations=attestations)))]
