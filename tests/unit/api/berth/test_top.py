"""The load of the fleet."""

from dataclasses import replace

from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Put
from berth.ports.ledger import HeartbeatReport
from berth.services.replica.scheduler_reports import LAG, LOST, PLACED, REFUSED
from berth.testing.builders import make_request
from tests.unit.api.cloud import Stack

PATH = "/berth/v1/top"


async def test_the_load_is_shown(stack: Stack) -> None:
    """Hosts, amounts, and how far the answering process is behind."""
    await stack.server(availability_zone="nova:host-1")
    assert (await stack.ask("GET", PATH)).body["lag"] > 0
    await stack.follower.catch_up()
    shown = (await stack.ask("GET", f"{PATH}?limit=1")).body
    assert shown["lag"] == 0
    assert shown["hosts"] == {"total": 3, "up": 3, "down": 0, "disabled": 0}
    assert shown["resources"]["MEMORY_MB"] == {
        "total": 3 * 65_536,
        "reserved": 3 * 512,
        "capacity": 3 * 65_024,
        "used": 4096,
    }
    (host,) = shown["busiest"]
    assert (host["name"], host["state"], host["instances"]) == ("host-1", "up", 1)
    assert host["resources"]["MEMORY_MB"]["used"] == 4096
    assert shown["queue"] == {"requests": 0, "instances": 0, "oldest_s": None}


async def test_the_queue_is_shown_with_its_oldest_request(stack: Stack) -> None:
    """Requests and their servers count until a scheduler has decided."""
    for number, age_s in ((1, 3.0), (2, 7.5)):
        request = replace(make_request(number), instance_uuids=("a", "b"))
        pending = PendingRequest(request, stack.clock.now_s() - age_s)
        await stack.ledger.commit([(Put(pending),)])
    await stack.follower.catch_up()
    shown = (await stack.ask("GET", PATH)).body
    assert shown["queue"] == {"requests": 2, "instances": 4, "oldest_s": 7.5}


async def test_schedulers_are_shown_with_rates_between_two_reports(stack: Stack) -> None:
    """A scheduler of an earlier version reports no counts; gateways are no schedulers."""
    await stack.liveness.share()

    async def report(gateway: str, **counts: int) -> None:
        number = int(stack.clock.now_s() * 1000)
        await stack.ledger.save_heartbeats(HeartbeatReport(gateway, number, {}, counts))

    for placed, refused, lost in ((10, 1, 0), (60, 1, 5)):
        await stack.clock.sleep(5.0)
        counts = {LAG: 3, PLACED: placed, REFUSED: refused, LOST: lost}
        await report("scheduler:one", **counts)
        await report("scheduler:two")
        await report("api:three")
        await stack.liveness.share()
    first, second = (await stack.ask("GET", PATH)).body["schedulers"]
    assert (first["id"], first["part"], first["lag"]) == ("one", "scheduler", 3)
    assert (first["placed"], first["refused"], first["lost"]) == (60, 1, 5)
    rates = (first["placed_per_s"], first["refused_per_s"], first["lost_per_s"])
    assert rates == (10.0, 0.0, 1.0)
    assert (second["id"], second["lag"], second["placed_per_s"]) == ("two", None, None)


async def test_wrong_questions_are_refused(stack: Stack) -> None:
    """An unknown order or zone names what is wrong, and tenants may not ask."""
    wrong = await stack.ask("GET", f"{PATH}?sort=x")
    assert wrong.status == 400
    assert "use one of load, name" in wrong.body["badRequest"]["message"]
    nowhere = await stack.ask("GET", f"{PATH}?availability_zone=x")
    assert nowhere.status == 400
    assert (await stack.ask("GET", f"{PATH}?limit=1001")).status == 400
    assert (await stack.ask("GET", PATH, token="alice")).status == 403
