"""`berth host set`, `berth host write-off` and the repairs of agents, with a simulated cloud."""

from dataclasses import replace

import msgspec
import pytest

from berth.domain.compute.host import HostNotice
from berth.domain.ledger.discrepancy import AuditReport, AuditScope
from tests.unit.cli.cloud import Cloud
from tests.unit.cli.conftest import Run

PATH = "/berth/v1/hosts/h1"
MOVE = {
    "uuid": "m-1",
    "id": 7,
    "instance_uuid": "i-1",
    "kind": "evacuation",
    "stage": "left_behind",
    "held": {"VCPU": 2},
}
PLAN: dict[str, object] = {
    "host": "h1",
    "is_done": False,
    "moves": [MOVE],
    "freed": {"VCPU": 2},
    "instances": ["i-2"],
    "waiting": [MOVE | {"id": 8, "stage": "leaving"}],
}


def test_ratios_are_set(run: Run, cloud: Cloud) -> None:
    """The ratio is sent, and the ratio in force is printed, which may be another."""
    inventory = {"allocation_ratio": 4.0, "allocation_ratio_origin": "aggregate gold"}
    answer = {"name": "h1", "inventories": {"VCPU": inventory}}
    cloud.fixed["PUT", f"{PATH}/ratios"] = (200, answer)
    ended = run("host", "set", "h1", "--ratio", "VCPU=8")
    assert (ended.code, cloud.body()) == (0, {"ratios": {"VCPU": 8.0}})
    assert "VCPU ratio of h1 is 4, aggregate gold" in ended.out


@pytest.mark.parametrize("text", ["VCPU", "=4", "VCPU=many"])
def test_a_ratio_has_a_class_and_a_number(run: Run, text: str) -> None:
    """An invalid or missing ratio ends with 2."""
    ended = run("host", "set", "h1", "--ratio", text)
    assert ended.code == 2
    assert "CLASS=RATIO" in ended.err
    assert run("host", "set", "h1").code == 2


def test_a_write_off_is_told_before_it_is_done(run: Run, cloud: Cloud) -> None:
    """Without --yes, the plan of the write-off is printed and nothing is changed."""
    cloud.fixed["GET", f"{PATH}/write-off"] = (200, PLAN)
    ended = run("host", "write-off", "h1")
    assert ended.code == 0
    for said in (
        "evacuation 7 of i-1, left_behind: VCPU=2",
        "1 moves would end; freed on h1: VCPU=2",
        "1 servers remain on h1",
        "evacuation 8 of i-1 remains leaving",
        "berth host write-off h1 --yes",
    ):
        assert said in ended.out
    assert cloud.last.method == "GET"


def test_a_write_off_is_done_with_yes(run: Run, cloud: Cloud) -> None:
    """With --yes, the write-off is done and its result is printed."""
    cloud.fixed["POST", f"{PATH}/write-off"] = (200, PLAN | {"is_done": True})
    ended = run("host", "write-off", "h1", "--yes")
    assert ended.code == 0
    assert "1 moves ended; freed on h1: VCPU=2" in ended.out
    assert "--yes" not in ended.out


def test_a_write_off_that_is_refused_ends_with_6(run: Run, cloud: Cloud) -> None:
    """A refused write-off ends with 6 and prints the service's advice."""
    body = {"conflictingRequest": {"code": 409, "message": "say so with force-down"}}
    cloud.fixed["GET", f"{PATH}/write-off"] = (409, body)
    ended = run("host", "write-off", "h1")
    assert ended.code == 6
    assert "force-down" in ended.err


def test_what_agents_have_mended_is_no_fault(run: Run, cloud: Cloud) -> None:
    """Repairs by agents are printed with their time, and the audit ends with 0."""
    note = HostNotice("orphaned_allocation", "i-1", "instance i-1 was deleted; freed VCPU 1", 0.0)
    report = replace(
        AuditReport(9, 1.0, AuditScope(3, 3, 2, 0, 2, 0), (), {}), mended_by_agents={"h1": (note,)}
    )
    cloud.fixed["GET", "/berth/v1/audit"] = (200, msgspec.to_builtins(report))
    ended = run("audit", "--host", "h1")
    assert ended.code == 0
    assert "h1: recently repaired" in ended.out
    assert "1970-01-01T00:00:00+00:00 orphaned_allocation: instance i-1" in ended.out
    assert dict(cloud.last.url.params) == {"host": "h1"}
