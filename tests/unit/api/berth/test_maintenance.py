"""The API for the maintenance of hosts."""

from dataclasses import replace

import pytest

from berth.domain.compute.host import Service
from berth.domain.compute.maintenance import Maintenance
from berth.domain.ledger.write import Put
from tests.unit.api.cloud import Stack

HOST = "/berth/v1/hosts/host-0"


async def test_a_drain_is_requested_shown_and_stopped(stack: Stack) -> None:
    """The service is disabled for the stated reason, and the drain waits for a scheduler."""
    deadline_s = stack.clock.now_s() + 3_600.0
    body = {"migrate": "cold", "parallel": 3, "deadline_s": deadline_s, "reason": "new memory"}
    begun = await stack.ask("POST", f"{HOST}/drain", body)
    assert begun.status == 202
    assert begun.body["reason"] == "new memory"
    drain = begun.body["drain"]
    assert (drain["state"], drain["migrate"], drain["parallel"]) == ("running", "cold", 3)
    assert drain["deadline_s"] == deadline_s
    assert (await stack.ask("GET", f"{HOST}/maintenance")).body == begun.body
    listed = (await stack.ask("GET", "/berth/v1/maintenances")).body["maintenances"]
    assert listed == [begun.body]
    service = await stack.ledger.get(Service, "host-0")
    assert service is not None
    assert (service.disabled, service.disabled_reason) == (True, "new memory")
    record = await stack.ledger.get(Maintenance, "host-0")
    assert record is not None
    assert record.drain is not None
    assert record.drain.user_id == "admin"
    stopped = await stack.ask("DELETE", f"{HOST}/drain")
    assert (stopped.status, stopped.body["drain"]["state"]) == (200, "stopped")


async def test_the_plan_of_a_drain_changes_nothing(stack: Stack) -> None:
    """It has a destination for each server that fits, and the reason for each other one."""
    running = await stack.server(availability_zone="nova:host-0")
    building = await stack.server(availability_zone="nova:host-0")
    await stack.activate(running)
    version = await stack.ledger.version()
    plan = (await stack.ask("GET", f"{HOST}/drain?migrate=live&moves_locked=true")).body
    assert await stack.ledger.version() == version
    assert (plan["host"], plan["fits"], plan["total"]) == ("host-0", 1, 2)
    by_uuid = {one["instance_uuid"]: one for one in plan["servers"]}
    assert by_uuid[running]["state"] == "planned"
    assert by_uuid[running]["destination"] in {"host-1", "host-2"}
    assert by_uuid[building]["state"] == "waiting"
    assert by_uuid[building]["reason"] == "its task spawning is in progress"


async def test_what_does_not_fit_is_shown_with_its_reason(stack: Stack) -> None:
    """The reason is that of the decision, for operators."""
    uuid = await stack.server(availability_zone="nova:host-0")
    await stack.activate(uuid)
    for other in ("host-1", "host-2"):
        service = await stack.ledger.get(Service, other)
        assert service is not None
        await stack.ledger.commit([(Put(replace(service, disabled=True)),)])
    (shown,) = (await stack.ask("GET", f"{HOST}/drain")).body["servers"]
    assert (shown["state"], shown["method"], shown["destination"]) == ("failed", "live", None)
    assert "ComputeFilter" in shown["reason"]


async def test_a_host_is_kept_disabled_and_resumed(stack: Stack) -> None:
    """A maintenance without a drain has an end; resuming enables the host at once."""
    until_s = stack.clock.now_s() + 60.0
    body = {"until_s": until_s, "reason": "new disk"}
    kept = await stack.ask("PUT", f"{HOST}/maintenance", body)
    assert kept.status == 200
    assert (kept.body["until_s"], kept.body["reason"], kept.body["drain"]) == (
        until_s,
        "new disk",
        None,
    )
    assert (await stack.ask("DELETE", f"{HOST}/maintenance")).status == 204
    assert (await stack.ask("GET", f"{HOST}/maintenance")).status == 404
    service = await stack.ledger.get(Service, "host-0")
    assert service is not None
    assert not service.disabled


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", f"{HOST}/drain", {"migrate": "teleport"}, 400),
        ("POST", f"{HOST}/drain", {"parallel": 0}, 400),
        ("POST", f"{HOST}/drain", {"parallel": 101}, 400),
        ("POST", f"{HOST}/drain", {"deadline_s": 1.0}, 400),
        ("POST", "/berth/v1/hosts/none/drain", {}, 404),
        ("GET", "/berth/v1/hosts/none/drain", None, 404),
        ("GET", f"{HOST}/drain?migrate=teleport", None, 400),
        ("DELETE", f"{HOST}/drain", None, 404),
        ("PUT", f"{HOST}/maintenance", {"until_s": 1.0}, 400),
        ("PUT", f"{HOST}/maintenance", {"until_s": 1e300}, 400),
        ("PUT", "/berth/v1/hosts/none/maintenance", {}, 404),
        ("DELETE", "/berth/v1/hosts/none/maintenance", None, 404),
    ],
)
async def test_requests_that_make_no_sense_are_refused(
    stack: Stack, method: str, path: str, body: dict[str, object] | None, status: int
) -> None:
    """Nothing is written."""
    version = await stack.ledger.version()
    assert (await stack.ask(method, path, body)).status == status
    assert await stack.ledger.version() == version


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/berth/v1/maintenances"),
        ("GET", f"{HOST}/maintenance"),
        ("PUT", f"{HOST}/maintenance"),
        ("DELETE", f"{HOST}/maintenance"),
        ("GET", f"{HOST}/drain"),
        ("POST", f"{HOST}/drain"),
        ("DELETE", f"{HOST}/drain"),
    ],
)
async def test_only_administrators_maintain_hosts(stack: Stack, method: str, path: str) -> None:
    """Tenants get 403, and learn nothing about the host."""
    assert (await stack.ask(method, path, {}, token="alice")).status == 403
