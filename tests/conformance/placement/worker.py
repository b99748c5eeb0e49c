"""Runs a gabbi file for each line of standard input, and answers with a line of JSON.

It runs in `.venv-placement`, which has gabbi and the files, and imports nothing of Berth but
`berth.lab.loopback`, which needs the standard library alone. A process runs one file at a time, as
the tests look names up in the environment. When its standard input ends, so does it, after the
file that it is at.
"""

import json
import os
import signal
import sys
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from gabbi import httpclient, suitemaker, utils  # type: ignore[import-not-found] # .venv-placement
from gabbi.handlers import RESPONSE_HANDLERS  # type: ignore[import-not-found]

from tests.conformance.placement.fixtures import FixtureError, environment, group_of, scene_of
from tests.conformance.placement.furnishing import Client, FurnishingError, furnish
from tests.conformance.placement.reporting import BEFORE
from tests.conformance.placement.servers import Choice, StartError, serving
from tests.conformance.placement.transport import plain_client
from tests.forks import PLACEMENT, Forks

_MESSAGE_CHARACTERS = 4000
_SILENCES_MAX = 3

Outcome = dict[str, str]


class Outcomes(unittest.TestResult):
    """Stores the outcome of each test; the names of its methods are unittest's.

    The rest of a file is skipped after `_SILENCES_MAX` tests without an answer in a row.
    """

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, tuple[str, str]] = {}
        self._silences = 0

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Store a test that passed."""
        self._silences = 0
        self.of[test.id()] = ("passed", "")

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: ANN401, N802
        """Store a test whose assertion failed."""
        self._silences = 0
        self.of[test.id()] = ("failed", str(err[1]))

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: ANN401, N802
        """Store a test that got no answer or could not be sent."""
        self.of[test.id()] = ("failed", f"{err[0].__name__}: {err[1]}")
        self._silences += 1
        if self._silences == _SILENCES_MAX:
            self.stop()

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        """Store a test that its file skips."""
        self.of[test.id()] = ("skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: ANN401, N802
        """Store a test that failed as its file expects."""
        self.of[test.id()] = ("passed", "expected to fail")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Store a test that passed although its file expects it to fail."""
        self.of[test.id()] = ("failed", "was expected to fail")


@cache
def rules() -> list[str]:
    """Return the names of all policy rules except the one that defines an admin."""
    from placement import policies  # type: ignore[import-not-found] # noqa: PLC0415 - slow

    return [rule.name for rule in policies.list_rules() if rule.name != "admin_api"]


@cache
def forks() -> Forks:
    """Return the process that starts Berth servers; it ends with this process."""
    return Forks(PLACEMENT)


@contextmanager
def _in_environment(names: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(names)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _plain_http() -> Iterator[None]:
    """Make gabbi use one client, which keeps its connections."""
    made = httpclient.get_http
    with plain_client() as client:

        def plain(**_: object) -> Any:  # noqa: ANN401 - gabbi has no types
            http = httpclient.Http.__new__(httpclient.Http)
            http.extensions, http.client = {}, client
            return http

        httpclient.get_http = plain
        try:
            yield
        finally:
            httpclient.get_http = made


def run(path: Path, choice: Choice) -> dict[str, Any]:
    """Run one file against a fresh server and return the outcome of each test."""
    document = utils.load_yaml(yaml_file=str(path))
    (fixture,) = document["fixtures"]
    names = [one["name"] for one in document["tests"]]
    try:
        scene = scene_of(fixture)
        open_to = rules() if scene.settings.opens_policy else ()
        berths = forks() if choice.server == "berth" else None
        with serving(choice, scene.settings, open_to, forks=berths) as port:
            furnish(Client(port), scene)
            with _in_environment(environment(scene)), _plain_http():
                outcomes = _ask(document, path, port)
    except (FixtureError, FurnishingError, StartError) as error:
        outcomes = [("failed", f"{BEFORE}{error}")] * len(names)
    return {
        "file": path.stem,
        "fixture": fixture,
        "group": group_of(fixture),
        "tests": [
            {"name": name, "outcome": outcome, "message": message[:_MESSAGE_CHARACTERS]}
            for name, (outcome, message) in zip(_distinct(names), outcomes, strict=True)
        ],
    }


def _ask(document: dict[str, Any], path: Path, port: int) -> list[tuple[str, str]]:
    suite = suitemaker.test_suite_from_dict(
        unittest.defaultTestLoader,
        path.stem,
        document,
        str(path.parent),
        "127.0.0.1",
        port,
        fixture_module=None,
        intercept=None,
        handlers=[handler() for handler in RESPONSE_HANDLERS],
    )
    result = Outcomes()
    outcomes = []
    # Tests run one by one, because tests with the same name have the same id.
    for test in suite:
        result.of.clear()
        if not result.shouldStop:
            test.run(result)
        outcomes.append(
            next(iter(result.of.values()), ("failed", "not asked: the server does not answer"))
        )
    return outcomes


def _distinct(names: list[str]) -> list[str]:
    """Return the names with a number added to repeated ones."""
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return distinct


def main() -> None:
    """Answer each line until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Other output must not mix with the answers.
    os.dup2(2, 1)
    # Exiting normally on SIGTERM also stops the server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for line in sys.stdin:
        asked = json.loads(line)
        answer = run(Path(asked["path"]), Choice(**asked["choice"]))
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
