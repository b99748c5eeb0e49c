"""Host notes: what the agents of a process find and mend on their hosts, where all can read it.

They stand in the record of the host's compute service, since only the agent can see most of it and
an audit of the ledger is to tell it all the same.
"""

from dataclasses import dataclass, field, replace

from berth.domain.compute.host import NO_AUDIT, NOTICES_MAX, HostAudit, HostNotice, Service
from berth.domain.errors import ConflictError, UnavailableError
from berth.domain.ledger.write import Put, Unit
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.measures import AGENT_FINDINGS
from berth.ports.telemetry import Metrics, Telemetry
from berth.services.providers.guarded_saves import save_guarded, service_guard
from berth.services.replica.replica import Replica


@dataclass(slots=True)
class _Notes:
    """Of one host; `seen_s` is when each was last seen, and `begun_s` when the last look began."""

    found: dict[tuple[str, str], HostNotice] = field(
        default_factory=dict[tuple[str, str], HostNotice]
    )
    seen_s: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    mended: list[HostNotice] = field(default_factory=list[HostNotice])
    begun_s: float = 0.0

    @property
    def audit(self) -> HostAudit:
        """What is to be saved of it."""
        found = sorted(self.found.values(), key=lambda note: (-note.at_s, note.code, note.key))
        return HostAudit(tuple(found[:NOTICES_MAX]), len(found), tuple(self.mended))


class HostNotices:
    """Keeps the notes of many hosts; those that have none cost nothing.

    Args:
        ledger: where they go.
        replica: of it, with what an earlier process has noted.
        clock: for dates.
        telemetry: told of each, once.
        metrics: where each is counted, once.
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
        self._kept: dict[str, _Notes] = {}

    def begin(self, host: str) -> None:
        """Note that a host is looked at anew: what the last look did not see is gone."""
        notes = self._of(host)
        if notes is None:
            return
        for key in [key for key, at_s in notes.seen_s.items() if at_s < notes.begun_s]:
            del notes.found[key], notes.seen_s[key]
        notes.begun_s = self._clock.now_s()

    def see(self, host: str, code: str, uuid: str, text: str) -> None:
        """Note what is on a host and is left to people; it is dated by when it was first seen."""
        notes = self._made(host)
        now_s, key = self._clock.now_s(), (code, uuid)
        if key not in notes.found:
            notes.found[key] = HostNotice(code, uuid, text, now_s)
            self._tell(host, notes.found[key], "found")
        notes.seen_s[key] = now_s

    def mended(self, host: str, code: str, uuid: str, text: str) -> None:
        """Note what was mended on a host."""
        notes = self._made(host)
        note = HostNotice(code, uuid, text, self._clock.now_s())
        notes.mended = [note, *notes.mended][:NOTICES_MAX]
        notes.found.pop((code, uuid), None)
        notes.seen_s.pop((code, uuid), None)
        self._tell(host, note, "mended")

    async def save(self, host: str) -> None:
        """Write down what has changed; what cannot be written now is at the next time."""
        notes = self._kept.get(host)
        stored = self._replica.hosts.service(host)
        if notes is None or stored is None or stored.audit == notes.audit:
            return
        audit = notes.audit

        async def read() -> Unit:
            service = await self._ledger.get(Service, host)
            if service is None or service.audit == audit:
                return ()
            return (Put(replace(service, audit=audit)),)

        try:
            await save_guarded(self._ledger, service_guard(host), read)
        except (ConflictError, UnavailableError) as error:
            self._telemetry.failure("notes_not_saved", error, host=host)
            return
        if audit == NO_AUDIT:
            del self._kept[host]

    def _of(self, host: str) -> _Notes | None:
        """Return the notes of a host; None when there are none."""
        notes = self._kept.get(host)
        service = self._replica.hosts.service(host)
        if notes is not None or service is None or service.audit == NO_AUDIT:
            return notes
        now_s = self._clock.now_s()
        found = {(one.code, one.key): one for one in service.audit.found}
        notes = _Notes(found, dict.fromkeys(found, now_s), list(service.audit.mended))
        self._kept[host] = notes
        return notes

    def _made(self, host: str) -> _Notes:
        notes = self._of(host)
        if notes is None:
            notes = self._kept[host] = _Notes(begun_s=self._clock.now_s())
        return notes

    def _tell(self, host: str, note: HostNotice, outcome: str) -> None:
        self._metrics.add(AGENT_FINDINGS, (note.code, outcome))
        self._telemetry.event(
            f"host_note_{outcome}", host=host, code=note.code, key=note.key, text=note.text
        )
