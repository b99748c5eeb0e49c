"""Tests for notifications about instances, hosts and placements."""

from dataclasses import replace
from functools import cache
from typing import cast

import jsonschema
import msgspec
import pytest

from berth.adapters.bus.message_codec import NotificationBody
from berth.cli.commands.schemas import notification_schema
from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Fault, Instance, Status, Task
from berth.domain.compute.instance_action import Action
from berth.domain.compute.server_image import with_image_in_progress
from berth.domain.errors import ConflictError
from berth.domain.ledger.change import Change, Event, RecordRemoved, Snapshot
from berth.domain.ledger.record import Kind
from berth.ports.bus import Priority
from berth.services.requests.orders import PlaceOrder
from berth.services.telemetry.notification_payloads import (
    InstanceData,
    Payload,
    RefusedData,
    SelectedData,
)
from berth.services.telemetry.notifications import ChangeNotifications, NotifyingPlacer
from berth.testing.builders import make_flavor, make_host, make_instance, make_request, make_service
from berth.testing.virtual_time import run_virtually
from tests.unit.services.notices import Notice, Notices
from tests.unit.services.wiring import Fleet, open_desk, order_of

BUILDING = replace(make_instance(host="host-1"), status=Status.BUILD, task=Task.SPAWNING)
ACTIVE = replace(BUILDING, status=Status.ACTIVE, task=None)
FAILED = replace(BUILDING, status=Status.ERROR, task=None, fault=Fault(500, "no", 0.0))
DELETING = replace(ACTIVE, task=Task.DELETING)
DELETED = replace(ACTIVE, status=Status.DELETED, task=None)
SOFT_DELETING = replace(ACTIVE, task=Task.SOFT_DELETING)
SOFT_DELETED = replace(ACTIVE, status=Status.SOFT_DELETED)


def following(*events: Event, snapshot: Snapshot | None = None) -> Notices:
    """Return the notifications of a subscriber after a snapshot and events."""
    notices = Notices()
    subscriber = ChangeNotifications(notices)
    subscriber.load(snapshot or Snapshot(version=10, now_s=0.0))
    for version, event in enumerate(events, start=11):
        subscriber.apply([Change(version, event)])
    for notice in notices.kept:
        check(notice)
    return notices


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([make_instance()], ["create.start"]),
        ([make_instance(), BUILDING, ACTIVE], ["create.start", "create.end"]),
        ([BUILDING, replace(BUILDING, name="new"), ACTIVE], ["create.start", "create.end"]),
        ([BUILDING, FAILED], ["create.start", "create.error"]),
        ([FAILED], ["create.start", "create.error"]),
        (
            [BUILDING, FAILED, DELETED],
            ["create.start", "create.error", "delete.start", "delete.end"],
        ),
        ([ACTIVE, DELETING, DELETING, DELETED], ["delete.start", "delete.end"]),
        ([ACTIVE, DELETED], ["delete.start", "delete.end"]),
        ([ACTIVE, SOFT_DELETING, SOFT_DELETED], ["soft_delete.start", "soft_delete.end"]),
        ([ACTIVE, SOFT_DELETED, SOFT_DELETED], ["soft_delete.start", "soft_delete.end"]),
        (
            [ACTIVE, SOFT_DELETED, DELETED],
            ["soft_delete.start", "soft_delete.end", "delete.start", "delete.end"],
        ),
    ],
)
def test_the_life_of_an_instance_is_told(told: list[Instance], expected: list[str]) -> None:
    """Each step in the life of an instance is notified once."""
    assert following(*told).events == [f"instance.{what}" for what in expected]


def imaging(name: str) -> Instance:
    """Return an instance of which an image is being made."""
    action = Action(ACTIVE.uuid, "req-1", name, "p", "u", 0.0)
    task = Task.IMAGE_SNAPSHOT if name == "createImage" else Task.IMAGE_BACKUP
    return replace(
        ACTIVE, task=task, action=action, extra=with_image_in_progress(ACTIVE, "image-1")
    )


@pytest.mark.parametrize("name", ["createImage", "createBackup"])
def test_images_and_backups_are_notified_under_the_name_of_nova(name: str) -> None:
    """The start has the id of the image; a failed image leaves the status, but is an error."""
    broken = replace(ACTIVE, fault=Fault(500, "no", 0.0))
    notices = following(ACTIVE, imaging(name), ACTIVE, imaging(name), broken)
    ends = ("start", "end", "start", "error")
    assert notices.events == [f"instance.snapshot.{end}" for end in ends]
    data = [cast("Payload[InstanceData]", one.payload).data for one in notices.kept]
    assert [one.snapshot_image_id for one in data] == [
        "image-1",
        None,
        "image-1",
        None,
    ]


def test_an_earlier_fault_is_none_of_an_image() -> None:
    """A server that has had a fault can have images, which do not fail for it."""
    broken = replace(ACTIVE, fault=Fault(500, "no", 0.0))
    again = replace(imaging("createImage"), fault=broken.fault)
    assert following(broken, again, broken).events[-1] == "instance.snapshot.end"


def test_what_was_there_before_is_no_news() -> None:
    """The state in the first snapshot is not notified."""
    snapshot = Snapshot(
        version=10,
        now_s=0.0,
        hosts=(make_host(),),
        services=(replace(make_service(), disabled=True),),
        instances=(BUILDING,),
    )
    disabled = replace(make_service(), disabled=True, last_seen_s=5.0)
    notices = following(BUILDING, make_host(), disabled, ACTIVE, snapshot=snapshot)
    assert notices.events == ["instance.create.end"]


def test_hosts_are_told_when_they_change() -> None:
    """Hosts are notified when they are created, changed or removed."""
    host = make_host()
    changed = replace(host, hypervisor_version=2)
    gone = RecordRemoved(Kind.HOST, host.uuid)
    notices = following(host, host, changed, gone, gone, make_flavor(), make_service())
    assert notices.events == ["host.create", "host.update", "host.delete"]


def test_an_operators_change_of_a_service_is_told() -> None:
    """An operator's change of a service is notified."""
    off = replace(make_service(), disabled=True)
    notices = following(make_service(), off, off, make_service(), replace(off, forced_down=True))
    assert notices.events == ["host.service.update"] * 3


def test_after_a_gap_the_difference_is_told() -> None:
    """After a gap the differences between the snapshots are notified."""
    notices = Notices()
    subscriber = ChangeNotifications(notices)
    subscriber.load(
        Snapshot(version=1, now_s=0.0, hosts=(make_host(1), make_host(2)), instances=(BUILDING,))
    )
    subscriber.load(
        Snapshot(version=9, now_s=0.0, hosts=(make_host(2), make_host(3)), instances=(ACTIVE,))
    )
    assert sorted(notices.events) == ["host.create", "host.delete", "instance.create.end"]


def test_two_who_follow_the_same_feed_give_the_same_keys() -> None:
    """Two subscribers of the same feed produce equal keys."""
    one, two = following(BUILDING, ACTIVE), following(BUILDING, ACTIVE)
    assert one.kept == two.kept
    assert len({notice.key for notice in one.kept}) == 2


_EVENT = "scheduler.select_destinations"


class Breaking:
    """A placer that fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def place(self, order: PlaceOrder) -> Decision:
        """Raise the error."""
        raise self._error


@cache
def validator() -> jsonschema.Draft202012Validator:
    """Return a validator for the published schema, which must itself be valid."""
    jsonschema.Draft202012Validator.check_schema(notification_schema())
    return jsonschema.Draft202012Validator(notification_schema())


def check(notice: Notice) -> None:
    """Validate a notification against the published schema."""
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
    validator().validate(msgspec.json.decode(msgspec.json.encode(body)))


def test_start_and_end_of_a_placement_are_told() -> None:
    """A placement is notified at its start and end, with the chosen hosts."""

    async def main() -> None:
        desk, notices = await open_desk(), Notices()
        placer = NotifyingPlacer(desk.placer, notices)
        decision = await placer.place(order_of(make_request()))
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
    """A refusal is notified as an error with its reason."""

    async def main() -> None:
        desk, notices = await open_desk(Fleet(hosts=0)), Notices()
        decision = await NotifyingPlacer(desk.placer, notices).place(order_of(make_request()))
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
    """A failure is notified and raised, without the text of unexpected errors."""

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
