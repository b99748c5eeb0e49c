"""The verdict on a run of the suite, and its output."""

import json
from pathlib import Path

import pytest

from tests.conformance.placement.reporting import (
    BEFORE,
    ExceptionListError,
    Exemption,
    FileReport,
    TestReport,
    counts,
    judge,
    load_exemptions,
    story,
    table,
    write_json,
)

GOOD = TestReport("answers", "passed")
BAD = TestReport("refuses", "failed", "'200' not found in ['409']")
LEFT_OUT = TestReport("waits", "skipped", "not today")
EXCUSE = Exemption("aggregate", "refuses", "another database")


def report(*tests: TestReport, file: str = "aggregate", group: str = "core") -> FileReport:
    """Return the report of one file with these tests."""
    return FileReport(file, "APIFixture", group, tests)


def test_all_that_passed_is_good() -> None:
    """The verdict on a run without failures and exceptions is good."""
    assert judge([report(GOOD)]).is_good


@pytest.mark.parametrize("test", [BAD, LEFT_OUT])
def test_a_failure_counts_and_so_does_a_skipped_test(test: TestReport) -> None:
    """A failed or a skipped test is a failure of the run."""
    verdict = judge([report(GOOD, test)])
    assert not verdict.is_good
    assert [one.name for _, one in verdict.failures] == [test.name]


@pytest.mark.parametrize("excuse", [EXCUSE, Exemption("aggregate", "", "all of it")])
def test_an_exception_excuses_a_test_or_a_whole_file(excuse: Exemption) -> None:
    """An excused failure is listed with its reason, and the verdict is good."""
    verdict = judge([report(GOOD, BAD)], [excuse])
    assert verdict.is_good
    assert story(verdict) == f"excused aggregate: refuses ({excuse.reason})"


def test_an_exception_that_excuses_nothing_must_go() -> None:
    """An exception that excuses nothing is idle if its file ran, and makes the verdict bad."""
    verdict = judge([report(GOOD)], [EXCUSE])
    assert verdict.idle == (EXCUSE,)
    assert not verdict.is_good
    assert "IDLE exception aggregate: refuses" in story(verdict)
    assert judge([report(GOOD, file="traits")], [EXCUSE]).is_good


def test_a_failure_is_told_with_file_test_and_assertion() -> None:
    """The output for a failure has its file, test and assertion."""
    told = story(judge([report(BAD)]))
    assert told.splitlines() == [
        "FAILED aggregate: refuses",
        "    '200' not found in ['409']",
    ]


def test_a_server_that_did_not_start_is_told_once_a_file() -> None:
    """An error before the first test is printed once for all tests of a file."""
    tests = [TestReport(name, "failed", f"{BEFORE}no port") for name in "abc"]
    told = story(judge([report(*tests)]))
    assert told.count("no port") == 1
    assert told.count("FAILED") == 3


def test_counts_are_kept_by_group() -> None:
    """The table has a row for each group, and one for all."""
    reports = [report(GOOD, BAD), report(GOOD, file="cors", group="cors")]
    assert counts(reports)["core"] == {"files": 1, "tests": 2, "passed": 1}
    assert counts(reports)["all"] == {"files": 2, "tests": 3, "passed": 2}
    assert table(reports).splitlines()[-1].split() == ["all", "2", "3", "2", "1"]


def test_the_json_has_every_test(tmp_path: Path) -> None:
    """The JSON file has the verdict, excused failures and the outcome of each test."""
    reports = [report(GOOD, BAD)]
    write_json(tmp_path / "run.json", "real", reports, judge(reports, [EXCUSE]))
    written = json.loads((tmp_path / "run.json").read_text("utf-8"))
    assert written["is_good"] is True
    assert written["excused"] == [
        {"file": "aggregate", "test": "refuses", "reason": "another database"}
    ]
    assert [one["outcome"] for one in written["files"][0]["tests"]] == ["passed", "failed"]


def test_the_list_of_exceptions_can_be_read() -> None:
    """The one in the checkout is well-formed, and each entry has its reason."""
    assert all(one.reason for one in load_exemptions())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[exception]]\nfile = "a"\n', "why is a an exception"),
        ('[[exception]]\nfile = "a"\nreason = " "\n', "why is a an exception"),
        ('[[exception]]\ntest = "t"\nreason = "r"\n', "an exception has file"),
        ('[[exception]]\nfile = "a"\nreason = "r"\nuntil = "x"\n', "an exception has file"),
    ],
)
def test_an_exception_without_a_reason_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """An entry without a file or a reason, or with an unknown key, is refused."""
    path = tmp_path / "exceptions.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(ExceptionListError, match=said):
        load_exemptions(path)
