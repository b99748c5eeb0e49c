"""The status of the process."""

from berth import __version__
from tests.unit.api.cloud import Stack


async def test_status_counts(stack: Stack) -> None:
    """Hosts are counted by the state of their service, and instances by their status."""
    await stack.activate(await stack.server())
    await stack.server()
    await stack.flavor("huge", vcpus=64)
    await stack.server(flavorRef="huge")
    body = {"host": "host-2", "binary": "nova-compute"}
    await stack.ask("PUT", "/v2.1/os-services/disable", body)
    status = (await stack.ask("GET", "/berth/v1/status")).body
    assert status["lag"] > 0
    await stack.follower.catch_up()
    stack.clock.seconds += 7.5
    status = (await stack.ask("GET", "/berth/v1/status")).body
    assert status["version"] == __version__
    assert (status["lag"], status["uptime_s"]) == (0, 7.5)
    assert status["ledger_version"] == status["replica_version"] == await stack.ledger.version()
    assert status["hosts"] == {"total": 3, "up": 2, "down": 0, "disabled": 1, "uncertain": 0}
    assert status["instances"] == {"BUILD": 1, "ACTIVE": 1, "ERROR": 1}
    assert status["policy_name"] == "default"
    stack.clock.seconds += 60
    status = (await stack.ask("GET", "/berth/v1/status")).body
    assert status["hosts"] == {"total": 3, "up": 0, "down": 2, "disabled": 1, "uncertain": 0}
    stack.liveness.observe()
    status = (await stack.ask("GET", "/berth/v1/status")).body
    assert status["hosts"]["uncertain"] == 2
