"""The audit log of a process: its telemetry, its recorder and its watcher of HTTP requests."""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from berth.adapters.system import LogTelemetry, SystemClock
from berth.api.change_audit import ChangeAudit
from berth.app.run import Loop
from berth.config.settings import Settings
from berth.domain.ledger.audit_trail import AuditEntry
from berth.ports.ledger import Ledger
from berth.services.telemetry.audit_recorder import AuditRecorder

_DAY_S: Final = 86_400.0
_MS_PER_S: Final = 1000
_VALUE_MAX: Final = 1_000
# The events that tell of changes which no request makes: of settings, policy, users and keys.
_AUDITED: Final = frozenset(
    {
        "auth_file_read",
        "bus_keys_read",
        "control_keys_read",
        "control_keys_saved",
        "key_file_read",
        "policy_changed",
        "process_started",
        "zone_keys_read",
        "zone_parents_read",
        "zone_passwords_resealed",
    }
)


class AuditedTelemetry(LogTelemetry):
    """The log of a process, whose events about changes also enter the audit log.

    Args:
        part: the part of Berth that the process runs.
        clock: the clock of the process.

    Attributes:
        process: the name of the process in entries.
        note: takes the entries; until the recorder replaces it, they are kept in `early`.
    """

    def __init__(self, part: str, clock: SystemClock) -> None:
        super().__init__(part)
        self.process = f"{part}@{socket.gethostname()}"
        self._clock = clock
        self.early: list[AuditEntry] = []
        self.note: Callable[[AuditEntry], None] = self.early.append

    def event(self, name: str, **fields: object) -> None:
        """See `Telemetry.event`."""
        super().event(name, **fields)
        if name in _AUDITED:
            self.note(self._entry(name, fields))

    def _entry(self, name: str, fields: dict[str, object]) -> AuditEntry:
        details: dict[str, str] = {}
        for key, value in fields.items():
            # The settings of a process are one field each, so that they can be read.
            if isinstance(value, dict):
                settings = cast("dict[str, object]", value)
                details |= {inner: str(one)[:_VALUE_MAX] for inner, one in settings.items()}
            else:
                details[key] = str(value)[:_VALUE_MAX]
        at_ms = int(self._clock.now_s() * _MS_PER_S)
        return AuditEntry(at_ms, name, process=self.process, details=details)


def _ignore(_: AuditEntry) -> None:
    """Drop an entry of a process that keeps no audit log."""


@dataclass(frozen=True, slots=True)
class AuditTrail:
    """The audit log of a process, or nothing if it is off.

    Attributes:
        recorder: appends entries to the chain; None if the audit log is off.
        watchers: tell the recorder of HTTP requests.
    """

    recorder: AuditRecorder | None = None
    watchers: tuple[ChangeAudit, ...] = ()

    @property
    def loops(self) -> list[Loop]:
        """The background loops of the audit log."""
        if self.recorder is None:
            return []
        return [("audit log", self.recorder.run), ("audit log upkeep", self.recorder.maintain)]

    async def finish(self) -> None:
        """Append the remaining entries, before the ledger is closed."""
        if self.recorder is not None:
            await self.recorder.finish()


def open_audit_log(
    settings: Settings, ledger: Ledger, telemetry: AuditedTelemetry, clock: SystemClock
) -> AuditTrail:
    """Return the audit log of a process, which begins with the entries made before.

    Agents change nothing on their own, so an agent that uses the ledger keeps no audit log.
    """
    if not settings.audit.log or telemetry.process.startswith("agent@"):
        telemetry.note = _ignore
        return AuditTrail()
    recorder = AuditRecorder(
        ledger,
        clock,
        telemetry,
        process=telemetry.process,
        keep_s=settings.audit.log_keep_days * _DAY_S,
    )
    for entry in telemetry.early:
        recorder.note(entry)
    telemetry.note = recorder.note
    return AuditTrail(recorder, (ChangeAudit(recorder.note, clock, telemetry.process),))
