"""Lists of servers, filtered by status."""

import pytest

from berth.domain.compute.instance import Status, Task
from berth.domain.compute.lifecycle import status_shown
from tests.unit.api.compute.lifecycle.staffed import OWNER, Staffed

SHOWN = [
    (Status.ACTIVE, Task.RESIZE_MIGRATING, "RESIZE"),
    (Status.SHUTOFF, Task.RESIZE_PREP, "RESIZE"),
    (Status.RESIZED, None, "VERIFY_RESIZE"),
    (Status.RESIZED, Task.RESIZE_MIGRATED, "VERIFY_RESIZE"),
    (Status.RESIZED, Task.RESIZE_REVERTING, "REVERT_RESIZE"),
    (Status.ACTIVE, Task.MIGRATING, "MIGRATING"),
    (Status.PAUSED, Task.MIGRATING, "MIGRATING"),
    (Status.ACTIVE, Task.REBOOTING, "REBOOT"),
    (Status.ACTIVE, Task.REBOOTING_HARD, "HARD_REBOOT"),
    (Status.PAUSED, Task.REBOOTING_HARD, "PAUSED"),
    (Status.ERROR, Task.REBUILDING, "REBUILD"),
    (Status.SHUTOFF, Task.REBUILDING, "REBUILD"),
    (Status.ACTIVE, Task.POWERING_OFF, "ACTIVE"),
    (Status.SHELVED, Task.UNSHELVING, "SHELVED"),
    (Status.SHELVED_OFFLOADED, None, "SHELVED_OFFLOADED"),
    (Status.RESCUED, None, "RESCUE"),
    (Status.SOFT_DELETED, None, "SOFT_DELETED"),
    (Status.SOFT_DELETED, Task.RESTORING, "SOFT_DELETED"),
    (Status.ACTIVE, Task.RESCUING, "ACTIVE"),
]


@pytest.mark.parametrize(("status", "task", "shown"), SHOWN)
async def test_what_is_shown_is_what_is_found(
    cloud: Staffed, status: Status, task: Task | None, shown: str
) -> None:
    """A server is found by its shown status, in either case, and by no other."""
    uuid, other = await cloud.built(), await cloud.server(token=OWNER)
    await cloud.force(uuid, status=status, task=task)
    assert status_shown(status, task) == shown
    for word in (shown, shown.lower()):
        answer = await cloud.ask("GET", f"/v2.1/servers?status={word}", token=OWNER)
        assert [one["id"] for one in answer.body["servers"]] == [uuid]
    answer = await cloud.ask("GET", f"/v2.1/servers?status={shown}&status=BUILD", token=OWNER)
    assert {one["id"] for one in answer.body["servers"]} == {uuid, other}
    answer = await cloud.ask("GET", "/v2.1/servers?status=PASSWORD", token=OWNER)
    assert answer.body["servers"] == []
