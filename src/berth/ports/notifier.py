"""Notifications: what Berth tells whoever wants to know, and does not depend on."""

from enum import StrEnum
from typing import Protocol


class Priority(StrEnum):
    """How much a notification matters to whoever reads it."""

    INFO = "INFO"
    ERROR = "ERROR"


class Notifier(Protocol):
    """Takes notifications and tells them in its own time."""

    def notify(
        self, event_type: str, payload: object, *, key: str, priority: Priority = Priority.INFO
    ) -> None:
        """Have something told that happened. It never waits and never fails.

        Args:
            event_type: what happened, in words with dots between (`instance.create.end`).
            payload: a document that the codec knows.
            key: what it is about and which time it happened; whoever tells of the same gives
                the same key, so that readers know the second from the first.
            priority: how much it matters.
        """
        ...
