"""`berth demo-zones`: its options and its report; end-to-end tests cover what it does."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from berth.cli.demo.replay_view import progress_bar
from berth.cli.demo.zone_demo_view import show_report
from berth.domain.compute.decision import (
    ZONE_AWARE_DRIVER,
    Decision,
    ScoredHost,
    Verdict,
    ZoneCount,
)
from berth.lab.zone_report import (
    ExplainedRequest,
    ListedReservation,
    ListedServer,
    ZoneChoices,
    ZoneReport,
    ZoneShare,
)
from berth.lab.zone_tenant import RequestOutcome, TenantRefusal
from tests.unit.cli.conftest import Run

PLACED = RequestOutcome(
    "req-1", "r-1", "small", 3, is_placed=True, took_s=0.1, zones={"root": 1, "zone-1": 2}
)
REFUSED = RequestOutcome("req-2", "r-2", "vector", 9, is_placed=False, took_s=0.1)
BEST = ScoredHost("zone-1-plain-00", "zone-1-plain-00", 1.25)
LAST = ScoredHost("zone-1-plain-01", "zone-1-plain-01", 1.125)
REPORT = ZoneReport(
    zones=(
        ZoneShare("root", None, 0, 1, 16, 1, 1, 1.2, 1.2, 0),
        ZoneShare("zone-1", "root", 1, 2, 64, 2, 2, 1.25, 1.125, 0),
        ZoneShare("zone-2", "root", 1, 2, 64, 0, 0, None, None, 0),
    ),
    requests=(PLACED,),
    instances=3,
    instances_by_level=(1, 2),
    explained=ExplainedRequest(
        PLACED,
        Decision(
            "req-1",
            Verdict.PLACED,
            "",
            "",
            ZONE_AWARE_DRIVER,
            0,
            0,
            0.0,
            0,
            zones=(ZoneCount("zone-1", 2), ZoneCount("root", 1)),
        ),
        (ZoneChoices("zone-1", 2, BEST, LAST),),
    ),
    refused=TenantRefusal(
        REFUSED, "No valid host was found. The child zones also have too little room."
    ),
    listed=ListedReservation("r-1", 0.05, (ListedServer("uuid-1", "vm-1", "ACTIVE", "zone-1"),)),
    faults=(),
    started_s=1.0,
    placed_s=0.5,
)


@pytest.mark.parametrize("shape", ["", "3,", "0", "3,0", "-1", "x", "40", "2,20", "1.5"])
def test_a_tree_that_cannot_be_is_refused(run: Run, shape: str) -> None:
    """An invalid tree ends with 2 before anything is started."""
    ended = run("demo-zones", "--tree", shape)
    assert ended.code == 2
    assert "--tree" in ended.err


def test_a_report_says_where_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    """The report has zones, weights, the decision, the refusal, the list and the totals."""
    show_report(REPORT)
    out = capsys.readouterr().out
    for text in (
        "3 instances are in 3 zones",
        "level 0: 1, level 1: 2",
        "1.250 to 1.125",
        "root 1, zone-1 2",
        "Request req-1: placed",
        "over the tree of zones",
        "1.2500",
        "zone-1-plain-00",
        "The child zones also have too little room.",
        "uuid-1",
        "3 instances in 0.5 s, 6 per second",
        "each instance is in exactly one zone",
    ):
        assert text in out


def test_a_report_with_faults_does_not_say_that_it_adds_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Faults are listed instead of the statement that all is consistent."""
    show_report(replace(REPORT, faults=("instance x is in a and b",)))
    out = capsys.readouterr().out
    assert "BROKEN: instance x is in a and b" in out
    assert "exactly one zone" not in out


def test_progress_in_leaps_is_told_a_tenth_at_a_time() -> None:
    """Without a terminal, progress is printed at most once per tenth."""
    out = io.StringIO()
    with progress_bar(Console(file=out), 100, doing="placing", of="instances") as progress:
        for done in (4, 8, 15, 18, 42, 43, 99, 100):
            progress(done, done - 1, 1)
    assert out.getvalue().splitlines() == [
        f"{done} of 100 instances: {done - 1} placed, 1 refused" for done in (15, 42, 99, 100)
    ]
