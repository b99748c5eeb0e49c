"""Announcing: notifications about the work of a scheduler, beside the work itself."""

from berth.domain.compute.decision import Decision
from berth.domain.compute.request import Request
from berth.domain.errors import BerthError
from berth.ports.bus import Notifier, Priority
from berth.services.requests.commands import PlaceOrder, Places
from berth.services.telemetry.notification_payloads import (
    Payload,
    RefusedData,
    SelectedData,
    SelectionData,
)

_EVENT = "scheduler.select_destinations"


class AnnouncedPlacing:
    """Places orders as another does, and tells when that begins and how it ended.

    It stands before `Placing` only where notifications are wanted, so they cost nothing elsewhere.
    """

    def __init__(self, placing: Places, notifier: Notifier) -> None:
        self._placing = placing
        self._notifier = notifier

    async def place(self, order: PlaceOrder) -> Decision:
        """See `Placing.place`."""
        request = order.request
        start = Payload("SelectDestinationsStart", SelectionData.of(request))
        self._notifier.notify(f"{_EVENT}.start", start, key=request.request_id)
        try:
            decision = await self._placing.place(order)
        except Exception as error:
            words = str(error) if isinstance(error, BerthError) else "an unexpected failure"
            self._tell_error(request, type(error).__name__, words)
            raise
        if decision.refusal is None:
            end = Payload("SelectDestinationsEnd", SelectedData.of(request, decision))
            self._notifier.notify(f"{_EVENT}.end", end, key=request.request_id)
        else:
            self._tell_error(request, str(decision.refusal.code), decision.refusal.message)
        return decision

    def _tell_error(self, request: Request, code: str, message: str) -> None:
        data = RefusedData(SelectionData.of(request), code, message)
        self._notifier.notify(
            f"{_EVENT}.error",
            Payload("SelectDestinationsError", data),
            key=f"{request.request_id}:{code}",
            priority=Priority.ERROR,
        )
