"""Reports of a run: counts by group, the verdict with exceptions, and its output."""

import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

EXCEPTIONS = Path(__file__).with_name("exceptions.toml")
BEFORE = "before the first test: "
_LINES = 12
GROUPS = ("core", "rbac and policy", "cors")


class ExceptionListError(Exception):
    """An entry in the list of exceptions is invalid."""


@dataclass(frozen=True, slots=True)
class TestReport:
    """The outcome of a test (`passed`, `failed` or `skipped`), and the failed assertion."""

    __test__ = False

    name: str
    outcome: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class FileReport:
    """The reports of all tests of one file, in order."""

    file: str
    fixture: str
    group: str
    tests: tuple[TestReport, ...]

    @classmethod
    def of(cls, answer: dict[str, Any]) -> Self:
        """Return the report in the answer of a worker."""
        return cls(**{**answer, "tests": tuple(TestReport(**one) for one in answer["tests"])})


@dataclass(frozen=True, slots=True)
class Exemption:
    """A test that need not pass, or a whole file if `test` is empty, with the reason."""

    file: str
    test: str
    reason: str

    def covers(self, file: str, test: str) -> bool:
        """Tell whether the exemption covers this test."""
        return self.file == file and self.test in {"", test}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of a whole run.

    Attributes:
        failures: the file and test of each failure without an exception.
        excused: the failures with an exception.
        idle: exceptions that excused nothing although their file ran, so they must be removed.
    """

    failures: tuple[tuple[FileReport, TestReport], ...]
    excused: tuple[tuple[FileReport, TestReport, Exemption], ...]
    idle: tuple[Exemption, ...]

    @property
    def is_good(self) -> bool:
        """Tell whether every failure is excused and no exception is idle."""
        return not self.failures and not self.idle


def load_exemptions(path: Path = EXCEPTIONS) -> tuple[Exemption, ...]:
    """Read the list of exceptions.

    Raises:
        ExceptionListError: an entry has no file or reason, or an unknown key.
    """
    with path.open("rb") as file:
        entries = tomllib.load(file).get("exception", [])
    exemptions = []
    for entry in entries:
        if set(entry) - {"file", "test", "reason"} or not entry.get("file"):
            raise ExceptionListError(f"{path.name}: an exception has file, test, reason: {entry}")
        if not entry.get("reason", "").strip():
            raise ExceptionListError(f"{path.name}: why is {entry['file']} an exception?")
        exemptions.append(Exemption(entry["file"], entry.get("test", ""), entry["reason"]))
    return tuple(exemptions)


def judge(reports: Sequence[FileReport], exemptions: Sequence[Exemption] = ()) -> Verdict:
    """Return the verdict, which separates failures from excused ones.

    A skipped test counts as a failure.
    """
    failures, excused, used = [], [], set()
    for report in reports:
        for test in report.tests:
            if test.outcome == "passed":
                continue
            for exemption in exemptions:
                if exemption.covers(report.file, test.name):
                    excused.append((report, test, exemption))
                    used.add(exemption)
                    break
            else:
                failures.append((report, test))
    ran = {report.file for report in reports}
    idle = tuple(one for one in exemptions if one.file in ran and one not in used)
    return Verdict(tuple(failures), tuple(excused), idle)


def counts(reports: Iterable[FileReport]) -> dict[str, dict[str, int]]:
    """Return the number of files, tests and passed tests of each group and in total."""
    rows = {name: {"files": 0, "tests": 0, "passed": 0} for name in (*GROUPS, "all")}
    for report in reports:
        for row in (rows[report.group], rows["all"]):
            row["files"] += 1
            row["tests"] += len(report.tests)
            row["passed"] += sum(test.outcome == "passed" for test in report.tests)
    return rows


def table(reports: Iterable[FileReport]) -> str:
    """Return the counts as a table of text."""
    lines = [f"{'group':<16}{'files':>6}{'tests':>7}{'passed':>8}{'failed':>8}"]
    for name, row in counts(reports).items():
        failed = row["tests"] - row["passed"]
        lines.append(f"{name:<16}{row['files']:>6}{row['tests']:>7}{row['passed']:>8}{failed:>8}")
    return "\n".join(lines)


def story(verdict: Verdict) -> str:
    """Return lines about failures with their assertions, excused failures and idle exceptions."""
    lines, told = [], ""
    for report, test in verdict.failures:
        lines.append(f"FAILED {report.file}: {test.name}")
        # An error before the first test is printed only once per file.
        if test.message.startswith(BEFORE) and test.message == told:
            continue
        told = test.message
        lines += [f"    {line}" for line in (told or test.outcome).splitlines()[:_LINES]]
    lines += [
        f"excused {report.file}: {test.name} ({exemption.reason})"
        for report, test, exemption in verdict.excused
    ]
    lines += [
        f"IDLE exception {one.file}: {one.test or 'the whole file'} passes now; take it out"
        for one in verdict.idle
    ]
    return "\n".join(lines)


def write_json(path: Path, server: str, reports: Sequence[FileReport], verdict: Verdict) -> None:
    """Write a run's verdict, counts and the outcome of every test to a JSON file."""
    document = {
        "server": server,
        "is_good": verdict.is_good,
        "groups": counts(reports),
        "failures": [{"file": report.file, **asdict(test)} for report, test in verdict.failures],
        "excused": [
            {"file": report.file, "test": test.name, "reason": exemption.reason}
            for report, test, exemption in verdict.excused
        ],
        "idle_exceptions": [asdict(one) for one in verdict.idle],
        "files": [asdict(report) for report in reports],
    }
    path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
