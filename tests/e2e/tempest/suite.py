"""Runs Tempest's tests of servers, users and scenarios in one process; `.venv-tempest` runs this.

Usage: python -m tests.e2e.tempest.suite TEMPEST_CONF RESULTS [TEST...]

Runs all tests except those named. Writes a JSON object with the result of each test: its status
(`pass`, `fail` or `skip`), the reason for the latter two, and its duration in seconds. Tempest's
own runner, stestr, starts one more process for each worker, and its results omit the tests of
classes that cannot be set up.
"""

import json
import os
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGES = (
    "tempest.api.compute",
    "tempest.api.identity",
    "tempest.scenario",
    "tempest.serial_tests.api.compute",
    "tempest.serial_tests.scenario",
)
_REASON_MAX = 1_000


class Results(unittest.TestResult):
    """Collects the result of each test.

    Attributes:
        found: status, reason and duration in seconds by the name of the test or, if a class cannot
            be set up, by that of the class.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, tuple[str, str, float]] = {}
        self._started_s = 0.0

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - the name in unittest
        """Note the time."""
        super().startTest(test)
        self._started_s = time.monotonic()

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Note that a test passed."""
        self._note(test, "pass", "")

    def addError(  # noqa: N802
        self,
        test: unittest.TestCase,
        err: Any = None,  # noqa: ANN401 - the type in unittest
        details: Any = None,  # noqa: ANN401
    ) -> None:
        """Note that a test failed, with the last line of its traceback."""
        if details is not None:
            texts = [one.as_text() for name, one in details.items() if "traceback" in name]
            text = "\n".join(texts)
        else:
            text = f"{type(err[1]).__name__}: {err[1]}"
        self._note(test, "fail", text[-_REASON_MAX:])

    addFailure = addError  # noqa: N815

    def addSkip(  # noqa: N802
        self,
        test: unittest.TestCase,
        reason: str | None = None,
        details: Any = None,  # noqa: ANN401
    ) -> None:
        """Note that a test was skipped."""
        self._note(test, "skip", reason if details is None else details["reason"].as_text())

    def _note(self, test: Any, status: str, reason: str | None) -> None:  # noqa: ANN401
        name = name_of(test.id())
        # A test that fails and whose clean-up fails, too, is reported twice.
        if self.found.get(name, ("pass",))[0] == "pass":
            took_s = time.monotonic() - self._started_s
            self.found[name] = (status, (reason or "").strip(), round(took_s, 2))


def name_of(test_id: str) -> str:
    """Return the name of a test without tags, or that of the class in `setUpClass (CLASS)`."""
    return test_id.partition("(")[2].rstrip(")") if "(" in test_id else test_id.partition("[")[0]


def configure(path: Path) -> None:
    """Let Tempest read a configuration, and poll more often than once a second."""
    os.environ["TEMPEST_CONFIG_DIR"], os.environ["TEMPEST_CONFIG"] = str(path.parent), path.name
    from oslo_config import types  # type: ignore[import-not-found] # noqa: PLC0415
    from tempest import config  # type: ignore[import-not-found] # noqa: PLC0415

    # The option is a whole number of seconds, and servers of simulated hosts are ready in less.
    for option in config.ComputeGroup:
        if option.name == "build_interval":
            option.type = types.Float()


def tests_of(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Yield the tests of a suite, with the classes prepared for a cloud without networks.

    Tempest skips classes whose servers would get a network of their own, if there is no Neutron,
    and creates projects for others, although these need only accounts.
    """
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from tests_of(one)
        else:
            kind: Any = type(one)
            kind.create_default_network = kind.force_tenant_isolation = False
            yield one


def main(conf: Path, results: Path, excluded: frozenset[str]) -> None:
    """Run all tests except the excluded ones, and write their results."""
    configure(conf)
    import tempest  # noqa: PLC0415

    top = Path(tempest.__file__).parent.parent
    found = Results()
    suite = unittest.TestSuite()
    for package in PACKAGES:
        folder = top.joinpath(*package.split("."))
        loaded = unittest.TestLoader().discover(str(folder), top_level_dir=str(top))
        suite.addTests(one for one in tests_of(loaded) if name_of(one.id()) not in excluded)
    names = [name_of(test.id()) for test in tests_of(suite)]
    suite.run(found)
    outcomes = {}
    for name in names:
        # Tests of a class that cannot be set up have its result.
        noted = found.found.get(name) or found.found.get(name.rpartition(".")[0])
        outcomes[name] = noted or ("fail", "no result", 0.0)
    results.write_text(json.dumps(outcomes, indent=1), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), frozenset(sys.argv[3:]))
