"""A notifier whose notifications tests can read."""

from dataclasses import dataclass, field

from berth.ports.bus import Priority


@dataclass(frozen=True, slots=True)
class Notice:
    """A notification."""

    event_type: str
    payload: object
    key: str
    priority: Priority


@dataclass(slots=True)
class Notices:
    """Keeps notifications; see the port `Notifier`."""

    kept: list[Notice] = field(default_factory=list[Notice])

    def notify(
        self, event_type: str, payload: object, *, key: str, priority: Priority = Priority.INFO
    ) -> None:
        """Keep the notification."""
        self.kept.append(Notice(event_type, payload, key, priority))

    @property
    def events(self) -> list[str]:
        """The event types in order."""
        return [notice.event_type for notice in self.kept]

    def take(self) -> list[str]:
        """Return the event types in order and forget the notifications."""
        events = self.events
        self.kept.clear()
        return events
