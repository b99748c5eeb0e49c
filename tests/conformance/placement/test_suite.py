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

# One file for each kind of fixture: none, providers, holders, roles, a policy file, and CORS.
FEW = ["basic-http", "same-subtree-deep", "ensure-consumer", "aggregate-policy", "cors"]
# One file for each fixture; `make conformance-placement SERVER=real` runs all files.
ONE_OF_EACH = [
    *FEW,
    "unicode",
    "allocation-candidates",
    "allocation-candidates-bug-1792503",
    "allocations-mappings",
    "allocation-candidates-member-of",
    "resource-provider-any-traits",
    "allocation-candidates-any-traits-groups",
    "aggregate-legacy-rbac",
    "aggregate-secure-rbac",
]
# The server that answers 404 is asked a file of each group: core, roles, and CORS.
ASKED_IN_VAIN = ["resource-provider", "traits", "aggregate-secure-rbac", "cors"]
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
    """The real Placement passes some files, or one of each fixture if it is under test.

    The runner is therefore right.
    """
    is_whole = "real" in servers.under_test()
    reports = run(ONE_OF_EACH if is_whole else FEW, Choice("real"))
    assert story(judge(reports)) == ""
    assert len({report.fixture for report in reports}) == (13 if is_whole else 5)


def test_a_server_of_nothing_fails() -> None:
    """A server that answers every request with 404 passes hardly any test of any group."""
    counted = counts(run(ASKED_IN_VAIN, Choice("none")))
    assert counted.keys() == {"core", "rbac and policy", "cors", "all"}
    assert counted["all"]["passed"] < counted["all"]["tests"] / 10


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
    assert {name: row["tests"] for name, row in counts(reports).items()} == {
        "core": 857,
        "rbac and policy": 455,
        "cors": 4,
        "all": 1316,
    }


@pytest.mark.skipif("berth" not in servers.under_test(), reason="Berth is not to be asked")
def test_berth_passes_with_a_ledger_on_disk() -> None:
    """Berth on a SQLite ledger passes the files that read and write most of the ledger."""
    reports = run(ON_DISK, Choice("berth", ledger="sqlite:///{folder}/ledger.sqlite3"))
    verdict = judge(reports, load_exemptions())
    assert verdict.is_good, story(verdict)
