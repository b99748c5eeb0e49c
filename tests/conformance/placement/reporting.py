"""What became of the tests: counted by group, judged with the exceptions, told and written."""

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
    """An entry of the list of exceptions is not as it must be."""


@dataclass(frozen=True, slots=True)
class TestReport:
    """One test of a file: `passed`, `failed` or `skipped`, and the assertion that failed."""

    __test__ = False

    name: str
    outcome: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class FileReport:
    """All tests of one file, in their order."""

    file: str
    fixture: str
    group: str
    tests: tuple[TestReport, ...]

    @classmethod
    def of(cls, answer: dict[str, Any]) -> Self:
        """Read the answer of a worker."""
        return cls(**{**answer, "tests": tuple(TestReport(**one) for one in answer["tests"])})


@dataclass(frozen=True, slots=True)
class Exemption:
    """A test that need not pass, or with an empty `test` a whole file, and why."""

    file: str
    test: str
    reason: str

    def covers(self, file: str, test: str) -> bool:
        """Tell whether it is about this test."""
        return self.file == file and self.test in {"", test}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of a whole run.

    Attributes:
        failures: file and test of what failed and is in no exception.
        excused: what failed and is.
        idle: exceptions that excused nothing although their file ran: they must go.
    """

    failures: tuple[tuple[FileReport, TestReport], ...]
    excused: tuple[tuple[FileReport, TestReport, Exemption], ...]
    idle: tuple[Exemption, ...]

    @property
    def is_good(self) -> bool:
        """Tell whether all passed that had to, and no exception is idle."""
        return not self.failures and not self.idle


def load_exemptions(path: Path = EXCEPTIONS) -> tuple[Exemption, ...]:
    """Read the list of exceptions.

    Raises:
        ExceptionListError: an entry has no reason, or a key that nobody knows.
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
    """Tell failures that count from those that are excused.

    A skipped test has not passed either: it counts as a failure.
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
    """Count files, tests and passed tests of each group, and of all."""
    rows = {name: {"files": 0, "tests": 0, "passed": 0} for name in (*GROUPS, "all")}
    for report in reports:
        for row in (rows[report.group], rows["all"]):
            row["files"] += 1
            row["tests"] += len(report.tests)
            row["passed"] += sum(test.outcome == "passed" for test in report.tests)
    return rows


def table(reports: Iterable[FileReport]) -> str:
    """Write the counts as lines of text."""
    lines = [f"{'group':<16}{'files':>6}{'tests':>7}{'passed':>8}{'failed':>8}"]
    for name, row in counts(reports).items():
        failed = row["tests"] - row["passed"]
        lines.append(f"{name:<16}{row['files']:>6}{row['tests']:>7}{row['passed']:>8}{failed:>8}")
    return "\n".join(lines)


def story(verdict: Verdict) -> str:
    """Tell the failures with their assertions, then what is excused, then what is idle."""
    lines, told = [], ""
    for report, test in verdict.failures:
        lines.append(f"FAILED {report.file}: {test.name}")
        # What happened before the first test is told with the first test alone.
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
    """Write all that is known of a run, every test with its outcome."""
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
