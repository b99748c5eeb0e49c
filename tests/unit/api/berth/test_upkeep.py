"""Host operations for administrators: ratios, write-offs and audits of one host."""

from dataclasses import replace

import pytest

from berth.domain.compute.host import Service
from berth.domain.compute.migration import Migration, Stage
from berth.domain.ledger.write import Committed, Put, Take, TransferAllocations
from berth.testing.builders import make_claim, make_migration, make_moving_consumer, make_uuid
from tests.unit.api.cloud import Stack

PATH = "/berth/v1/hosts/host-0"


async def test_a_ratio_is_set_and_unset_while_the_host_runs(stack: Stack) -> None:
    """The answer is the changed host, with the origin of the ratio."""
    before = (await stack.ask("GET", PATH)).body["inventories"]["VCPU"]
    answer = await stack.ask("PUT", f"{PATH}/ratios", {"ratios": {"VCPU": 3.0}})
    shown = answer.body["inventories"]["VCPU"]
    assert (answer.status, shown["allocation_ratio"]) == (200, 3.0)
    assert shown["allocation_ratio_origin"] == "set by an operator"
    assert shown["capacity"] == 3 * (before["total"] - before["reserved"])
    answer = await stack.ask("PUT", f"{PATH}/ratios", {"ratios": {"VCPU": 0}})
    assert answer.body["inventories"]["VCPU"] == before


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/berth/v1/hosts/none", {"ratios": {"VCPU": 1}}, 404),
        (PATH, {"ratios": {"CUSTOM_GPU": 1}}, 400),
        (PATH, {"ratios": {"VCPU": -1}}, 400),
        (PATH, {"ratios": {"VCPU": 1e12}}, 400),
        (PATH, {"ratios": {}}, 400),
        (PATH, {}, 400),
    ],
)
async def test_ratios_that_make_no_sense_are_refused(
    stack: Stack, path: str, body: dict[str, object], status: int
) -> None:
    """An invalid ratio, class or host is refused, and nothing is written."""
    version = await stack.ledger.version()
    assert (await stack.ask("PUT", f"{path}/ratios", body)).status == status
    assert await stack.ledger.version() == version


async def left_behind(stack: Stack) -> Migration:
    """Return a move that was left behind on host-0, whose service is forced down."""
    host = (await stack.ask("GET", PATH)).body
    left = replace(make_migration(of=3), stage=Stage.LEFT_BEHIND)
    left = replace(left, source=replace(left.source, host="host-0", node="host-0"))
    claim = make_claim(3)
    (allocation,) = claim.allocations
    claim = replace(claim, allocations=(replace(allocation, provider_uuid=host["uuid"]),))
    service = await stack.ledger.get(Service, "host-0")
    assert service is not None
    moving = TransferAllocations(make_uuid("instance", 3), make_moving_consumer())
    (done,) = await stack.ledger.commit(
        [(Take(claim), moving, Put(left), Put(replace(service, forced_down=True)))]
    )
    assert isinstance(done, Committed)
    return left


async def test_a_lost_host_is_written_off(stack: Stack) -> None:
    """GET returns the plan and changes nothing; POST frees the move's resources once."""
    left = await left_behind(stack)
    await stack.clock.sleep(3600)
    for method, is_done in (("GET", False), ("GET", False), ("POST", True)):
        answer = await stack.ask(method, f"{PATH}/write-off")
        assert (answer.status, answer.body["is_done"]) == (200, is_done)
        (move,) = answer.body["moves"]
        assert (move["uuid"], move["held"]) == (left.uuid, {"VCPU": 1})
        assert answer.body["freed"] == {"VCPU": 1}
    assert await stack.ledger.allocations(consumer_uuid=left.uuid) == []
    assert (await stack.ask("POST", f"{PATH}/write-off")).body["moves"] == []


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_host_that_is_not_forced_down_is_not_written_off(stack: Stack, method: str) -> None:
    """A host that is not forced down is answered with 409, and an unknown one with 404."""
    answer = await stack.ask(method, f"{PATH}/write-off")
    assert answer.status == 409
    assert "berth service force-down host-0" in answer.body["conflictingRequest"]["message"]
    assert (await stack.ask(method, "/berth/v1/hosts/none/write-off")).status == 404


async def test_one_host_can_be_audited(stack: Stack) -> None:
    """With `host`, only the discrepancies of that host are reported."""
    left = await left_behind(stack)
    await stack.clock.sleep(3600)
    (found,) = (await stack.ask("GET", "/berth/v1/audit?host=host-0")).body["discrepancies"]
    assert (found["code"], found["key"]) == ("move_left_behind", left.uuid)
    report = (await stack.ask("GET", "/berth/v1/audit?host=host-1")).body
    assert (report["discrepancies"], report["audited"]["hosts"]) == ([], 1)
    assert (await stack.ask("GET", "/berth/v1/audit?host=none")).status == 404
