"""The command that `make conformance-placement` runs."""

import argparse
import sys
from pathlib import Path

from tests.conformance.placement.mutants import MUTANTS
from tests.conformance.placement.reporting import (
    FileReport,
    judge,
    load_exemptions,
    story,
    table,
    write_json,
)
from tests.conformance.placement.running import JOBS_MAX, RunError, run_files, suite_files
from tests.conformance.placement.servers import SERVERS, Choice


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.placement",
        description="Run the suite of OpenStack Placement against a fresh server for each file.",
    )
    parser.add_argument("--server", choices=SERVERS, default="berth", help="which server to ask")
    parser.add_argument("--files", nargs="+", default=[], metavar="NAME", help="only these files")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome there")
    parser.add_argument(
        "--ledger", default="memory:", metavar="URL", help="of Berth; {folder} in it"
    )
    parser.add_argument("--mutant", choices=sorted(MUTANTS), default="", help="break the real one")
    parser.add_argument("--jobs", type=int, choices=range(1, JOBS_MAX + 1), default=JOBS_MAX)
    return parser.parse_args(words)


def _shown(report: FileReport) -> FileReport:
    passed = sum(test.outcome == "passed" for test in report.tests)
    sys.stdout.write(f"{report.file:<44}{passed:>4} of {len(report.tests)}\n")
    sys.stdout.flush()
    return report


def main(words: list[str]) -> int:
    """Run the suite, print the verdict, and return the exit code.

    It is 0 if the verdict is good, 1 if not, 2 if the suite could not run, 130 if interrupted.
    """
    arguments = _arguments(words)
    choice = Choice(arguments.server, arguments.mutant, arguments.ledger)
    names = [name for word in arguments.files for name in word.split(",")]
    try:
        paths = suite_files(names)
        reports = [_shown(report) for report in run_files(paths, choice, arguments.jobs)]
    except KeyboardInterrupt:
        return 130
    except RunError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    verdict = judge(reports, load_exemptions() if arguments.server == "berth" else ())
    sys.stdout.write("\n".join(("", *filter(None, (story(verdict), table(reports))), "")))
    if arguments.json is not None:
        write_json(arguments.json, arguments.server, reports, verdict)
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
