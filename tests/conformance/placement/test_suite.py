"""The runner, checked on the real Placement, on a server that answers 404, and on mutants."""

import pytest

from tests.conformance.placement import servers
from tests.conformance.placement.mutants import MUTANTS
from tests.conformance.placement.reporting import FileReport, counts, judge, load_exemptions, story
from tests.conformance.placement.running import run_files, suite_files
from tests.conformance.placement.servers import MISSING, PYTHON, Choice

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHON.exists(), reason=MISSING),
]

# One file for each fixture; `make conformance-placement SERVER=real` runs them all.
ONE_OF_EACH = [
    "unicode",
    "basic-http",
    "ensure-consumer",
    "allocation-candidates",
    "allocation-candidates-bug-1792503",
    "allocations-mappings",
    "same-subtree-deep",
    "allocation-candidates-member-of",
    "resource-provider-any-traits",
    "allocation-candidates-any-traits-groups",
    "aggregate-legacy-rbac",
    "aggregate-secure-rbac",
    "aggregate-policy",
    "cors",
]
ON_DISK = ["usage", "allocations", "reshaper", "traits", "granular", "consumer-types-1.38"]
FOUND_BY = {
    "generation-stays": "with-allocations",
    "conflict-is-400": "reshaper",
    "no-vary": "microversion",
    "no-error-code": "resource-provider",
    "one-candidate": "allocation-candidates-mappings-numa",
    "forbidden-is-404": "aggregate-secure-rbac",
    "any-origin": "cors",
}


def run(names: list[str], choice: Choice) -> list[FileReport]:
    """Run files of the suite."""
    return list(run_files(suite_files(names), choice))


def test_the_real_placement_passes() -> None:
    """The real Placement passes a file of each fixture, so the runner is right."""
    reports = run(ONE_OF_EACH, Choice("real"))
    assert story(judge(reports)) == ""
    assert len({report.fixture for report in reports}) == 13


def test_a_server_of_nothing_fails() -> None:
    """A server that answers every request with 404 passes fewer than 30 of 1,316 tests."""
    reports = run([], Choice("none"))
    counted = counts(reports)
    assert {name: row["tests"] for name, row in counted.items()} == {
        "core": 857,
        "rbac and policy": 455,
        "cors": 4,
        "all": 1316,
    }
    assert counted["all"]["passed"] < 30


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_behaviour_is_found(mutant: str) -> None:
    """A file detects the mutant: some of its tests fail and others still pass."""
    (report,) = run([FOUND_BY[mutant]], Choice("real", mutant))
    outcomes = {test.outcome for test in report.tests}
    assert outcomes == {"passed", "failed"}, report


@pytest.mark.skipif("berth" not in servers.under_test(), reason="Berth is not to be asked")
def test_berth_passes() -> None:
    """Berth passes all 1,316 tests except those in the list of exceptions."""
    reports = run([], Choice("berth"))
    verdict = judge(reports, load_exemptions())
    assert verdict.is_good, story(verdict)
    assert counts(reports)["all"]["tests"] == 1316


@pytest.mark.skipif("berth" not in servers.under_test(), reason="Berth is not to be asked")
def test_berth_passes_with_a_ledger_on_disk() -> None:
    """Berth on a SQLite ledger passes the files that read and write most of the ledger."""
    reports = run(ON_DISK, Choice("berth", ledger="sqlite:///{folder}/ledger.sqlite3"))
    verdict = judge(reports, load_exemptions())
    assert verdict.is_good, story(verdict)
