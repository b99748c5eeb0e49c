"""Host notices: the faults that agents find and repair on their hosts, recorded in the ledger.

Notices are stored in the record of the host's service, because only its agent can detect the
problems, and an audit of the ledger must report them without calling any agent
(docs/adr/0022-agents-audit-themselves.md).
"""

from dataclasses import dataclass, field, replace
from typing import Final

from berth.domain.compute.host import NO_AUDIT, NOTICES_MAX, HostAudit, HostNotice, Service
from berth.domain.errors import ConflictError, UnavailableError
from berth.domain.ledger.discrepancy import DiscrepancyCode
from berth.domain.ledger.write import Put, Unit
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.measures import AGENT_FINDINGS
from berth.ports.telemetry import Metrics, Telemetry
from berth.services.providers.guarded_saves import save_guarded, service_guard
from berth.services.replica.replica import Replica

FINDINGS_MAX: Final = 1_000
"""Maximum number of findings of one host that are kept in memory."""
# The codes that become labels of metrics. Hosts could report any others, so a label for each would
# create an unbounded number of series.
_CODES: Final = frozenset({*DiscrepancyCode, "guest_ended", "guest_removed", "guest_given_up"})
_OTHER: Final = "other"


@dataclass(slots=True)
class _Notices:
    """The notices of one host; all times are Unix seconds.

    Attributes:
        found: the findings, by code and instance uuid.
        seen_s: the times at which the findings were last seen.
        mended: the latest repairs, newest first.
        begun_s: the start of the last pass.
    """

    found: dict[tuple[str, str], HostNotice] = field(
        default_factory=dict[tuple[str, str], HostNotice]
    )
    seen_s: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    mended: list[HostNotice] = field(default_factory=list[HostNotice])
    begun_s: float = 0.0

    @property
    def audit(self) -> HostAudit:
        """The part that is saved in the ledger."""
        found = sorted(self.found.values(), key=lambda note: (-note.at_s, note.code, note.key))
        return HostAudit(tuple(found[:NOTICES_MAX]), len(found), tuple(self.mended))


class HostNotices:
    """Keeps the notices of hosts, and saves them to the ledger.

    Args:
        ledger: stores the notices.
        replica: contains the notices of earlier processes.
        clock: dates the notices.
        telemetry: receives each notice once.
        metrics: counts each notice once.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        replica: Replica,
        clock: Clock,
        telemetry: Telemetry,
        metrics: Metrics,
    ) -> None:
        self._ledger = ledger
        self._replica = replica
        self._clock = clock
        self._telemetry = telemetry
        self._metrics = metrics
        self._kept: dict[str, _Notices] = {}

    def begin(self, host: str) -> None:
        """Begin a pass over a host, and drop findings not seen since the previous pass began."""
        notices = self._find(host)
        if notices is None:
            return
        for key in [key for key, at_s in notices.seen_s.items() if at_s < notices.begun_s]:
            del notices.found[key], notices.seen_s[key]
        notices.begun_s = self._clock.now_s()

    def record_finding(self, host: str, code: str, uuid: str, text: str) -> None:
        """Record a finding that is left to the operator, with the time when it was first seen.

        A host that reports more than `FINDINGS_MAX` findings keeps the oldest of them.
        """
        notices = self._get_or_create(host)
        now_s, key = self._clock.now_s(), (code, uuid)
        if key not in notices.found:
            if len(notices.found) >= FINDINGS_MAX:
                return
            notices.found[key] = HostNotice(code, uuid, text, now_s)
            self._report(host, notices.found[key], "found")
        notices.seen_s[key] = now_s

    def record_repair(self, host: str, code: str, uuid: str, text: str) -> None:
        """Record a repair, and drop the finding that it resolves."""
        notices = self._get_or_create(host)
        note = HostNotice(code, uuid, text, self._clock.now_s())
        notices.mended = [note, *notices.mended][:NOTICES_MAX]
        notices.found.pop((code, uuid), None)
        notices.seen_s.pop((code, uuid), None)
        self._report(host, note, "repaired")

    async def save(self, host: str) -> None:
        """Save changed notices to the ledger; a failed save is repeated at the next call."""
        notices = self._kept.get(host)
        stored = self._replica.hosts.services.get(host)
        if notices is None or stored is None or stored.audit == notices.audit:
            return
        audit = notices.audit

        # The record is read and saved under a guard, because registrations, counts of failed builds
        # and operators also write it.
        async def read() -> Unit:
            service = await self._ledger.get(Service, host)
            if service is None or service.audit == audit:
                return ()
            return (Put(replace(service, audit=audit)),)

        try:
            await save_guarded(self._ledger, service_guard(host), read)
        except (ConflictError, UnavailableError) as error:
            self._telemetry.failure("host_notices_not_saved", error, host=host)
            return
        if audit == NO_AUDIT:
            del self._kept[host]

    def _find(self, host: str) -> _Notices | None:
        """Return the notices of a host, or None if there are none."""
        notices = self._kept.get(host)
        service = self._replica.hosts.services.get(host)
        if notices is not None or service is None or service.audit == NO_AUDIT:
            return notices
        now_s = self._clock.now_s()
        found = {(one.code, one.key): one for one in service.audit.found}
        notices = _Notices(found, dict.fromkeys(found, now_s), list(service.audit.mended))
        self._kept[host] = notices
        return notices

    def _get_or_create(self, host: str) -> _Notices:
        notices = self._find(host)
        if notices is None:
            notices = self._kept[host] = _Notices(begun_s=self._clock.now_s())
        return notices

    def _report(self, host: str, note: HostNotice, outcome: str) -> None:
        code = note.code if note.code in _CODES else _OTHER
        self._metrics.add(AGENT_FINDINGS, (code, outcome))
        self._telemetry.event(
            f"host_note_{outcome}", host=host, code=note.code, key=note.key, text=note.text
        )
