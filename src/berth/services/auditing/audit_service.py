"""The audit service, which derives suspicions from a snapshot, rechecks each, and makes repairs."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from berth.domain.compute.host import HostNotice, Service
from berth.domain.errors import NotFoundError
from berth.domain.inventory.allocation import ConsumerAllocations
from berth.domain.ledger.discrepancy import (
    AuditAges,
    AuditReport,
    AuditScope,
    Discrepancy,
    DiscrepancyCode,
    Repair,
)
from berth.domain.ledger.record import Kind
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.telemetry import Telemetry
from berth.services.auditing.audit_snapshot import AuditSnapshot, age_text, read_audit_snapshot
from berth.services.auditing.capacity import recheck_provider, sums_of, suspect_provider
from berth.services.auditing.consumers import recheck_consumer, unknown_consumers
from berth.services.auditing.groups import members_of, recheck_group, suspect_group
from berth.services.auditing.host_snapshot import read_host_snapshot
from berth.services.auditing.instances import (
    recheck_instance,
    recheck_request,
    suspect_instance,
    suspect_request,
    suspect_shelved,
)
from berth.services.auditing.moves import recheck_move, suspect_move
from berth.services.auditing.repairs import repair
from berth.services.replica.replica import Replica

# One report has at most this many discrepancies in the ledger, and as many from agents.
DISCREPANCIES_MAX: Final = 10_000
# One report lists at most this many foreign consumers.
OTHERS_MAX: Final = 1_000
_AT_ONCE: Final = 256

_Look = Callable[[Ledger, AuditSnapshot, Discrepancy], Awaitable[Discrepancy | None]]

_LOOKS: Final[Mapping[Kind, _Look]] = {
    Kind.INSTANCE: recheck_instance,
    Kind.MIGRATION: recheck_move,
    Kind.PENDING_REQUEST: recheck_request,
    Kind.SERVER_GROUP: recheck_group,
    Kind.PROVIDER: recheck_provider,
}
_ADVICE: Final[Mapping[DiscrepancyCode, str]] = {
    DiscrepancyCode.ORPHAN_GUEST: (
        "check on {host} what the guest is; Berth leaves it alone and does not count its resources"
    ),
    DiscrepancyCode.ORPHAN_FILES: (
        "check the folder on {host}; move it away, or delete it if it is not needed"
    ),
    DiscrepancyCode.ORPHAN_DISKS: (
        "check the folder of stored disks; delete it if it is not needed"
    ),
}


def _anything(_: Discrepancy) -> bool:
    return True


class AuditService:
    """Audits a ledger.

    Args:
        ledger: the ledger to audit.
        replica: the replica of that ledger, in which an audit of one host finds its providers.
        clock: provides the time to which ages are relative.
        telemetry: receives the outcomes of repairs.
        first_seen_s: the Unix times at which unknown consumers were first seen, by uuid. The ledger
            does not record the age of their allocations, so the caller keeps this dictionary
            between audits.
        may_mend: returns whether a repairable discrepancy may be repaired.
        default_zone: returns the availability zone of hosts to which no aggregate assigns one.
    """

    def __init__(  # noqa: PLR0913 - the collaborators and rules of an audit
        self,
        *,
        ledger: Ledger,
        replica: Replica,
        clock: Clock,
        telemetry: Telemetry,
        first_seen_s: dict[str, float],
        may_mend: Callable[[Discrepancy], bool] = _anything,
        default_zone: Callable[[], str] = lambda: "nova",
    ) -> None:
        self._default_zone = default_zone
        self._ledger = ledger
        self._replica = replica
        self._may_mend = may_mend
        self._clock = clock
        self._telemetry = telemetry
        self._first_seen_s = first_seen_s

    async def audit(
        self,
        ages: AuditAges,
        *,
        service_down_time_s: float,
        mends: bool = False,
        host: str | None = None,
    ) -> AuditReport:
        """Return the report of an audit of the whole ledger, or of one host.

        Args:
            ages: the ages below which inconsistencies are not reported.
            service_down_time_s: seconds without a heartbeat after which a service is down.
            mends: whether to make the safe repairs.
            host: the only host to audit; server groups and pending requests are then left out.

        Raises:
            NotFoundError: there is no such host.
            UnavailableError: the ledger cannot be reached. Repairs that were made stay.
        """
        now_s = self._clock.now_s()
        snapshot = await self._read(ages, now_s, service_down_time_s, host)
        found, others, is_cut = await self._holders(snapshot)
        if host is None:
            self._forget_gone_consumers(found)
        for suspicion in await _suspicions(snapshot):
            if len(found) >= DISCREPANCIES_MAX:
                is_cut = True
                break
            discrepancy = await _LOOKS[suspicion.kind](self._ledger, snapshot, suspicion)
            if discrepancy is not None:
                found.append(discrepancy)
        # Notices of agents are part of the service records, so there is nothing to recheck.
        found += islice(agent_discrepancies(snapshot, host), DISCREPANCIES_MAX)
        if mends:
            found = await self._repair_all(snapshot, found)
        return AuditReport(
            version=snapshot.version,
            audited_at_s=now_s,
            audited=_audited(snapshot),
            discrepancies=tuple(found),
            lost=_lost(found),
            others=tuple(others[:OTHERS_MAX]),
            others_total=len(others),
            is_cut=is_cut,
            mended_by_agents=agent_repairs(snapshot, host),
        )

    async def _read(
        self, ages: AuditAges, now_s: float, down_time_s: float, host: str | None
    ) -> AuditSnapshot:
        if host is None:
            return await read_audit_snapshot(
                self._ledger,
                self._replica,
                ages,
                now_s=now_s,
                service_down_time_s=down_time_s,
                default_zone=self._default_zone(),
            )
        # Only the trees in the replica tell which providers belong to a host.
        if not self._replica.hosts.host_names.of_name(host):
            raise NotFoundError("host", host)
        return await read_host_snapshot(
            self._ledger,
            self._replica,
            host,
            ages,
            now_s=now_s,
            service_down_time_s=down_time_s,
            default_zone=self._default_zone(),
        )

    def _forget_gone_consumers(self, found: Iterable[Discrepancy]) -> None:
        """Forget unknown consumers that no longer hold anything."""
        # A consumer that comes back must not count as old.
        there = {one.key for one in found}
        for uuid in self._first_seen_s.keys() - there:
            del self._first_seen_s[uuid]

    async def _holders(
        self, snapshot: AuditSnapshot
    ) -> tuple[list[Discrepancy], list[ConsumerAllocations], bool]:
        """Return orphans, foreign consumers, and whether the list of orphans was cut off."""
        found: list[Discrepancy] = []
        others: list[ConsumerAllocations] = []
        # Orphaned allocations cost capacity, so even a report that is cut off must include them.
        for uuid in unknown_consumers(snapshot):
            if len(found) >= DISCREPANCIES_MAX:
                return found, others, True
            outcome = await recheck_consumer(self._ledger, snapshot, uuid)
            if isinstance(outcome, ConsumerAllocations):
                others.append(outcome)
            elif outcome is not None and outcome.since_s is None:
                # The ledger does not record the age of these allocations, so they are dated by when
                # this process first saw them.
                seen_s = self._first_seen_s.setdefault(uuid, snapshot.now_s)
                found.append(_dated(snapshot, outcome, seen_s))
            elif outcome is not None:
                found.append(outcome)
        return found, others, False

    async def _repair_all(
        self, snapshot: AuditSnapshot, found: Iterable[Discrepancy]
    ) -> list[Discrepancy]:
        """Repair what may be repaired, and return all discrepancies with the outcomes."""
        # Allocations are freed first, because the claims may need the capacity.
        order = {Repair.FREE: 0, Repair.CLAIM: 1, None: 2}
        mended: list[Discrepancy] = []
        for one in sorted(found, key=lambda one: order[one.mend]):
            # Each repair is a unit of its own, so a rejected one does not hold back the others.
            done = await repair(self._ledger, snapshot, one) if self._may_mend(one) else one
            mended.append(done)
            if done.outcome is not None:
                self._telemetry.event(
                    "discrepancy_repaired" if done.is_repaired else "discrepancy_not_repaired",
                    code=done.code,
                    key=done.key,
                    outcome=done.outcome.text,
                )
        return mended


def _dated(snapshot: AuditSnapshot, orphan: Discrepancy, seen_s: float) -> Discrepancy:
    """Return an orphan with the time when it was first seen; a recent one is not repaired yet."""
    # A claim that is committed between the reads looks like an orphan at first.
    if snapshot.is_older(seen_s, snapshot.ages.grace_s):
        return replace(orphan, since_s=seen_s)
    advice = (
        f"its age is not recorded; this process first saw it {age_text(snapshot, seen_s)} ago, and "
        f"`berth audit --fix` frees it {snapshot.ages.grace_s:g} s after that"
    )
    return replace(orphan, advice=advice, mend=None)


async def _suspicions(snapshot: AuditSnapshot) -> list[Discrepancy]:
    """Return all suspicions that follow from a snapshot."""
    found: list[Discrepancy] = []
    for number, some in enumerate(_each(snapshot)):
        found += some
        if number % _AT_ONCE == 0:
            # The audit of a large ledger must not block the other tasks of the process.
            await asyncio.sleep(0)
    return found


def _each(snapshot: AuditSnapshot) -> Iterator[Iterator[Discrepancy]]:
    """Yield each record's suspicions, the most harmful kinds first."""
    sums = sums_of(snapshot)
    members = members_of(snapshot)
    return chain(
        (
            suspect_provider(snapshot, one, sums.get(uuid, {}))
            for uuid, one in snapshot.providers.items()
        ),
        (suspect_instance(snapshot, one) for one in snapshot.instances.values()),
        # A shelved instance with a task is on its way to a host.
        (suspect_shelved(snapshot, one) for one in snapshot.shelved.values() if one.task is None),
        (suspect_move(snapshot, one) for one in snapshot.migrations.values()),
        (suspect_request(snapshot, one) for one in snapshot.requests.values()),
        (suspect_group(snapshot.groups[uuid], those) for uuid, those in members.items()),
    )


def _audited(snapshot: AuditSnapshot) -> AuditScope:
    return AuditScope(
        hosts=len(snapshot.hosts),
        providers=len(snapshot.providers),
        instances=len(snapshot.instances),
        migrations=len(snapshot.migrations),
        consumers=len(snapshot.held),
        pending_requests=len(snapshot.requests),
    )


def _lost(found: Iterable[Discrepancy]) -> dict[str, int]:
    """Return the lost amounts by class, without those of repaired discrepancies."""
    total: dict[str, int] = {}
    for one in found:
        if one.is_repaired:
            continue
        for name, amount in one.lost.items():
            total[name] = total.get(name, 0) + amount
    return total


def agent_discrepancies(snapshot: AuditSnapshot, host: str | None) -> Iterator[Discrepancy]:
    """Yield the discrepancies that agents have found and leave to operators.

    With `host`, only those on that host are yielded.
    """
    for service in _of(snapshot, host):
        for note in service.audit.found:
            try:
                code = DiscrepancyCode(note.code)
            except ValueError:
                continue  # a newer version has written this code
            if code in _ADVICE:
                yield Discrepancy(
                    code=code,
                    kind=Kind.INSTANCE,
                    key=note.key,
                    text=f"{service.host}: {note.text}",
                    advice=_ADVICE[code].format(host=service.host),
                    host=service.host,
                    since_s=note.at_s,
                )


def agent_repairs(snapshot: AuditSnapshot, host: str | None) -> dict[str, tuple[HostNotice, ...]]:
    """Return the recent repairs by agents, newest first, by host; with `host`, only those on it."""
    return {one.host: one.audit.mended for one in _of(snapshot, host) if one.audit.mended}


def _of(snapshot: AuditSnapshot, host: str | None) -> Iterator[Service]:
    for name in sorted(snapshot.services):
        if host in {None, name}:
            yield snapshot.services[name]
