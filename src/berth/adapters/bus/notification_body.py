"""Notifications as they are written for readers outside of Berth."""

import msgspec

from berth.ports.bus import Priority


class NotificationBody(msgspec.Struct, frozen=True):
    """What stands in the body of a message, as JSON.

    `timestamp` is in UTC; `request_id` and `traceparent` are those of what caused it, if any.
    """

    message_id: str
    event_type: str
    priority: Priority
    publisher_id: str
    timestamp: str
    request_id: str | None
    traceparent: str | None
    payload: object
