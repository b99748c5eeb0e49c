"""`berth audit`: its output and its exit codes."""

import json
from dataclasses import replace

import msgspec
import pytest

from berth.domain.ledger.discrepancy import (
    AuditReport,
    AuditScope,
    Discrepancy,
    DiscrepancyCode,
    Repair,
    RepairOutcome,
)
from berth.domain.ledger.record import Kind
from tests.unit.cli.cloud import Cloud
from tests.unit.cli.conftest import Run

PATH = "/berth/v1/audit"
ORPHAN = Discrepancy(
    code=DiscrepancyCode.ORPHANED_ALLOCATION,
    kind=Kind.INSTANCE,
    key="i-1",
    text="instance i-1 was deleted 2 days ago and still holds VCPU 2",
    advice="`berth audit --fix` frees it",
    host="h1",
    lost={"VCPU": 2},
    mend=Repair.FREE,
)
CLEAN = AuditReport(9, 1.0, AuditScope(3, 3, 2, 0, 2, 0), (), {})
FOUND = replace(CLEAN, discrepancies=(ORPHAN,), lost={"VCPU": 2}, others_total=4)
MENDED = replace(
    CLEAN, discrepancies=(replace(ORPHAN, outcome=RepairOutcome("freed VCPU 2 in version 10", 10)),)
)
HALF = replace(MENDED, discrepancies=(*MENDED.discrepancies, ORPHAN), is_cut=True)


def test_a_clean_audit_ends_with_0(run: Run, cloud: Cloud) -> None:
    """A clean audit prints the scope of the audit and ends with 0."""
    cloud.fixed["GET", PATH] = (200, msgspec.to_builtins(CLEAN))
    ended = run("audit")
    assert ended.code == 0
    assert "3 hosts, 3 providers, 2 instances, 0 migrations, 2 consumers" in ended.out
    assert "no discrepancies" in ended.out


def test_what_is_found_is_told_with_what_it_costs(run: Run, cloud: Cloud) -> None:
    """Without --fix, discrepancies and lost amounts are printed, and the ages are sent."""
    cloud.fixed["GET", PATH] = (200, msgspec.to_builtins(FOUND))
    ended = run("audit", "--grace", 5, "--task-age", 6, "--request-age", 7)
    assert ended.code == 3
    for said in (
        "orphaned_allocation: instance i-1 was deleted 2 days ago",
        "host: h1",
        "to do: `berth audit --fix` frees it",
        "1 found, `berth audit --fix` would try to repair 1; total lost: VCPU=2",
        "4 consumers were created through the Placement API",
    ):
        assert said in ended.out
    assert dict(cloud.last.url.params) == {"grace_s": "5.0", "task_s": "6.0", "request_s": "7.0"}


@pytest.mark.parametrize(("report", "code"), [(CLEAN, 0), (MENDED, 4), (HALF, 3), (FOUND, 3)])
def test_a_fix_ends_with_4_when_all_is_mended(
    run: Run, cloud: Cloud, report: AuditReport, code: int
) -> None:
    """The command ends with 4 if everything was repaired, and with 3 if something remains."""
    cloud.fixed["POST", PATH] = (200, msgspec.to_builtins(report))
    ended = run("audit", "--fix")
    assert ended.code == code
    if report is MENDED:
        assert "fix: freed VCPU 2 in version 10" in ended.out
        assert "1 found, 1 repaired" in ended.out
    if report.is_cut:
        assert "there are more" in ended.out


def test_programs_get_the_report(run: Run, cloud: Cloud) -> None:
    """With --json, the report is printed as received, with the same exit code."""
    cloud.fixed["GET", PATH] = (200, msgspec.to_builtins(FOUND))
    ended = run("audit", "--json")
    assert ended.code == 3
    assert msgspec.convert(json.loads(ended.out), AuditReport) == FOUND


def test_errors_end_as_with_any_command(run: Run, cloud: Cloud) -> None:
    """A refusal of the API ends with 1, and an invalid option with 2."""
    body = {"forbidden": {"code": 403, "message": "Only administrators may use this operation."}}
    cloud.fixed["GET", PATH] = (403, body)
    assert run("audit").code == 1
    assert run("audit", "--grace", -1).code == 2
