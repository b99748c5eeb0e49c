"""Self-audit: each report of an agent may start an audit of the ledger's records of its host.

A pass registers the report and then audits the allocations. Reading the ledger for every report
would be expensive, so the audit keeps a signature of the replica's data about each host, and skips
hosts whose signature has not changed. After a change the ledger is read when new discrepancies
would be old enough to be reported, and then in each pass while discrepancies remain.

After the start of a process every host seems to have changed. If there are many, one audit of the
whole ledger shows which of them are in order, and only the others are audited individually.

Only allocations that nothing needs any longer are repaired: those of instances that were deleted or
are on no host, and those of moves that have ended. Everything else is reported to the operator.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from berth.domain.errors import NotFoundError
from berth.domain.ledger.discrepancy import AuditAges, Discrepancy, Repair
from berth.domain.ledger.record import Kind
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.measures import AGENT_FINDINGS, HOST_AUDITS
from berth.ports.telemetry import Metrics, Telemetry
from berth.ports.virt import HostReport
from berth.services.auditing import AuditService
from berth.services.gateway.host_notices import HostNotices
from berth.services.gateway.host_reports import HostReports
from berth.services.replica.replica import Replica

_AGES: Final = AuditAges()
# Audits run this many seconds after a change. Earlier, a discrepancy would be too young to report.
_LOOKS_AFTER_S: Final = (_AGES.grace_s + 1.0, _AGES.task_s + 1.0)
# So many hosts that are new to the process share an audit of the whole ledger. It waits this many
# seconds after the first of them is due, because agents report once a minute.
_SHARED_MIN: Final = 20
_SHARED_DELAY_S: Final = 60.0


@dataclass(slots=True)
class _LastAudit:
    """The state of a host's last audit.

    Attributes:
        signature: the signature of the replica's data.
        since_s: the Unix time at which the signature last changed.
        count: how many of the times in `_LOOKS_AFTER_S` had passed at the last audit after that
            change.
        found: the code and key of each discrepancy that remains.
    """

    signature: int = 0
    since_s: float = 0.0
    count: int = 0
    found: frozenset[tuple[str, str]] = field(default_factory=frozenset[tuple[str, str]])


class _SharedAudit(NamedTuple):
    """The result of an audit of the whole ledger at a Unix time: the hosts with discrepancies.

    `is_complete` is false if there are more discrepancies than an audit reports.
    """

    at_s: float
    suspects: frozenset[str | None]
    is_complete: bool


def is_safe_to_repair(found: Discrepancy) -> bool:
    """Return whether a discrepancy may be repaired without an operator.

    An allocation of an unknown consumer may belong to a create under way (nova-behaviour.md 5.4),
    and a missing allocation may not fit; both are left to the operator.
    """
    return found.mend is Repair.FREE and found.kind in {Kind.INSTANCE, Kind.MIGRATION}


class SelfAudit:
    """Audits hosts when their agents report them.

    Args:
        ledger: the ledger.
        replica: the replica of this process.
        reports: registers changed reports of drivers.
        notices: records the repairs.
        clock: provides the time, for the ages of changes.
        telemetry: receives each discrepancy once.
        metrics: counts audits and discrepancies.
        service_down_time_s: returns the seconds without a heartbeat after which a service is down.
        default_zone: returns the availability zone of hosts to which no aggregate assigns one.
    """

    def __init__(  # noqa: PLR0913 - the collaborators of an audit
        self,
        *,
        ledger: Ledger,
        replica: Replica,
        reports: HostReports,
        notices: HostNotices,
        clock: Clock,
        telemetry: Telemetry,
        metrics: Metrics,
        service_down_time_s: Callable[[], float],
        default_zone: Callable[[], str] = lambda: "nova",
    ) -> None:
        self._replica = replica
        self._reports = reports
        self._notices = notices
        self._clock = clock
        self._telemetry = telemetry
        self._metrics = metrics
        self._down_time_s = service_down_time_s
        self._last_audits: dict[str, _LastAudit] = {}
        # The hosts that have not changed since this process first saw them.
        self._new: set[str] = set()
        self._shared = _SharedAudit(-math.inf, frozenset(), is_complete=False)
        self._sharing = asyncio.Lock()
        self._auditing = AuditService(
            ledger=ledger,
            replica=replica,
            clock=clock,
            telemetry=telemetry,
            first_seen_s={},
            may_mend=is_safe_to_repair,
            default_zone=default_zone,
        )

    async def audit(self, report: HostReport) -> None:
        """Register a changed report, audit the host's allocations, and make the safe repairs.

        Raises:
            InvalidInputError: the report is invalid; see `Hosts.register`.
            ConflictError: the report cannot be registered; see `HostReports.report`.
            UnavailableError: the ledger cannot be reached; the next pass repeats the audit.
        """
        host = report.host.name
        await self._reports.report([report])
        signature, now_s = self._signature(host), self._clock.now_s()
        look = self._last_audits.get(host)
        if look is None or look.signature != signature:
            if look is None and signature:
                self._new.add(host)
            else:
                self._new.discard(host)
            found = frozenset[tuple[str, str]]() if look is None else look.found
            look = self._last_audits[host] = _LastAudit(signature, now_s, found=found)
        age_s = now_s - look.since_s
        next_s = min(_LOOKS_AFTER_S[look.count :], default=math.inf)
        if signature and (look.found or age_s >= next_s):
            is_in_order = not look.found and await self._is_in_order(host, look.since_s + next_s)
            if is_in_order is False:
                look.found = await self._audit_now(host, look.found)
            if is_in_order is not None:
                look.count = sum(after_s <= age_s for after_s in _LOOKS_AFTER_S)
        if look.found or look.count == len(_LOOKS_AFTER_S):
            self._new.discard(host)
        await self._notices.save(host)

    async def _is_in_order(self, host: str, due_s: float) -> bool | None:
        """Return whether a shared audit found no discrepancy on a host; None if it is yet to come.

        Args:
            host: the host.
            due_s: the Unix time from which an audit of the host would find all discrepancies.
        """
        if host not in self._new or len(self._new) < _SHARED_MIN:
            return False
        async with self._sharing:
            if self._shared.at_s < due_s:
                if self._clock.now_s() < due_s + _SHARED_DELAY_S:
                    return None
                self._shared = await self._audit_all()
        return self._shared.is_complete and host not in self._shared.suspects

    async def _audit_all(self) -> _SharedAudit:
        report = await self._auditing.audit(_AGES, service_down_time_s=self._down_time_s())
        wrong = (one.host for one in report.discrepancies if not one.is_reported_by_agent)
        return _SharedAudit(report.audited_at_s, frozenset(wrong), is_complete=not report.is_cut)

    def _signature(self, host: str) -> int:
        """Return a hash of a host's usage, guests and capacity; 0 if it has no usage or guests."""
        table = self._replica.hosts
        parts: list[object] = []
        for row in table.host_names.of_name(host):
            used = table.used(row)
            guests = table.occupants.on_row(row)
            children = [table.trees.used(slot) for slot in table.trees.on_row(row)]
            if used or guests or any(any(one.values()) for one in children):
                below = tuple(tuple(one.items()) for one in children)
                over = tuple(one.capacity for one in table.inventories(row).values())
                parts.append((row, tuple(used.items()), guests, below, over))
        return hash(tuple(parts)) or 1 if parts else 0

    async def _audit_now(
        self, host: str, before: frozenset[tuple[str, str]]
    ) -> frozenset[tuple[str, str]]:
        """Audit a host in the ledger, and return the discrepancies that remain."""
        self._metrics.add(HOST_AUDITS)
        try:
            report = await self._auditing.audit(
                _AGES, service_down_time_s=self._down_time_s(), mends=True, host=host
            )
        except NotFoundError:
            return frozenset()
        wrong = set[tuple[str, str]]()
        for one in report.discrepancies:
            if one.host not in {host, None} or one.is_reported_by_agent:
                continue  # the audit of its own host reports it, or a host notice does
            if one.is_repaired and one.outcome is not None:
                text = f"{one.text}; {one.outcome.text}"
                self._notices.record_repair(host, one.code, one.key, text)
                continue
            wrong.add((one.code, one.key))
            if (one.code, one.key) not in before:
                self._report_discrepancy(host, one)
        return frozenset(wrong)

    def _report_discrepancy(self, host: str, one: Discrepancy) -> None:
        self._metrics.add(AGENT_FINDINGS, (one.code, "found"))
        self._telemetry.event(
            "discrepancy_found", host=host, code=one.code, key=one.key, text=one.text
        )
