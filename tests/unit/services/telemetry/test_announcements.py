"""Announcing: what a scheduler tells about its work."""

import jsonschema
import msgspec
import pytest

from berth.adapters.bus.message_codec import NotificationBody
from berth.cli.commands.schemas import notification_schema
from berth.domain.compute.decision import Decision
from berth.domain.errors import ConflictError
from berth.ports.bus import Priority
from berth.services.requests.commands import PlaceOrder
from berth.services.telemetry.change_notifications import NotifyingPlacer
from berth.services.telemetry.notification_payloads import Payload, RefusedData, SelectedData
from berth.testing.builders import make_request
from berth.testing.virtual_time import run_virtually
from tests.unit.services.notices import Notice, Notices
from tests.unit.services.wiring import Fleet, open_desk, order_of

_EVENT = "scheduler.select_destinations"


class Breaking:
    """Placing that fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def place(self, order: PlaceOrder) -> Decision:
        """Fail."""
        raise self._error


def check(notice: Notice) -> None:
    """Hold a notification against the published schema."""
    body = NotificationBody(
        message_id="m",
        event_type=notice.event_type,
        priority=notice.priority,
        publisher_id="p",
        timestamp="t",
        request_id=None,
        traceparent=None,
        payload=notice.payload,
    )
    jsonschema.validate(msgspec.json.decode(msgspec.json.encode(body)), notification_schema())


def test_start_and_end_of_a_placement_are_told() -> None:
    """With the hosts that were chosen; what is told is what was committed."""

    async def main() -> None:
        desk, notices = await open_desk(), Notices()
        placing = NotifyingPlacer(desk.placing, notices)
        decision = await placing.place(order_of(make_request()))
        assert notices.events == [f"{_EVENT}.start", f"{_EVENT}.end"]
        assert {notice.key for notice in notices.kept} == {decision.request_id}
        payload = notices.kept[1].payload
        assert isinstance(payload, Payload)
        assert isinstance(payload.data, SelectedData)
        chosen = [one.host for one in payload.data.destinations]
        assert chosen == [one.host for one in decision.placements]
        assert await desk.ledger.get(Decision, decision.request_id) == decision
        for notice in notices.kept:
            check(notice)

    run_virtually(main)


def test_a_refusal_is_told_as_an_error() -> None:
    """With its reason."""

    async def main() -> None:
        desk, notices = await open_desk(Fleet(hosts=0)), Notices()
        decision = await NotifyingPlacer(desk.placing, notices).place(order_of(make_request()))
        assert notices.events == [f"{_EVENT}.start", f"{_EVENT}.error"]
        last = notices.kept[1]
        assert last.priority is Priority.ERROR
        assert isinstance(last.payload, Payload)
        assert isinstance(last.payload.data, RefusedData)
        assert decision.refusal is not None
        assert last.payload.data.message == decision.refusal.message
        check(last)

    run_virtually(main)


@pytest.mark.parametrize(
    ("error", "words"),
    [(ConflictError("it changed"), "it changed"), (ZeroDivisionError("secret"), "unexpected")],
)
def test_a_failure_is_told_and_raised(error: Exception, words: str) -> None:
    """What went wrong unexpectedly is not for the ears of readers."""

    async def main() -> None:
        notices = Notices()
        with pytest.raises(type(error)):
            await NotifyingPlacer(Breaking(error), notices).place(order_of(make_request()))
        assert notices.events == [f"{_EVENT}.start", f"{_EVENT}.error"]
        told = notices.kept[1].payload
        assert isinstance(told, Payload)
        assert words in told.data.message
        assert "secret" not in f"{told}"

    run_virtually(main)
