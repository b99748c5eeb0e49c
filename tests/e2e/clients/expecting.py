"""The rows of the tables: a command, and a check of its output."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.e2e.clients.programs import Done

_WAIT_S = 30.0
_AGAIN_S = 0.2
_JSON = " -f json"

Expectation = Callable[[Done], None]
Call = Callable[[str], Done]


@dataclass(frozen=True)
class Command:
    """One row of a table.

    Attributes:
        line: the command line; `openstack` may be left out.
        expects: checks what the program printed.
        is_json: whether the client prints JSON.
        is_usual: whether the command runs in other modes too, or only in `identity`.
        settles: whether the expected output may appear only after a while.
        needs_tokens: whether the command needs a catalog or the file of users, so it runs only in
            the mode `identity`.
    """

    line: str
    expects: Expectation
    is_json: bool = False
    is_usual: bool = False
    settles: bool = False
    needs_tokens: bool = False

    @property
    def typed(self) -> str:
        """The complete command line."""
        line = self.line if self.line.startswith("nova ") else f"openstack {self.line}"
        return line + _JSON if self.is_json else line

    def judge(self, call: Call) -> None:
        """Run the command and check its output, repeatedly if it may settle.

        Raises:
            AssertionError: the output is not the expected one.
        """
        deadline_s = time.monotonic() + _WAIT_S
        while True:
            done = call(self.typed)
            try:
                self.expects(done)
            except AssertionError as error:
                if self.settles and time.monotonic() < deadline_s:
                    time.sleep(_AGAIN_S)
                    continue
                raise AssertionError(f"{error}\n{done}") from error
            return


def usual(command: Command) -> Command:
    """Return the command as one that runs in every mode."""
    return replace(command, is_usual=True)


def settling(command: Command) -> Command:
    """Return the command as one whose expected output may appear only after a while."""
    return replace(command, settles=True)


def with_tokens(command: Command) -> Command:
    """Return the command as one that runs only in the mode `identity`."""
    return replace(command, needs_tokens=True)


def shows(line: str, **fields: object) -> Command:
    """Expect an object with these fields, as `shows_fields` does."""
    return shows_fields(line, fields)


def shows_fields(line: str, fields: Mapping[str, object]) -> Command:
    """Expect an object with these fields; a value `~...` is a regular expression."""

    def expect(done: Done) -> None:
        _check(done.json, fields)

    return Command(line, expect, is_json=True)


def lists(line: str, column: str, *values: object) -> Command:
    """Expect a list whose column has exactly these values, in any order."""

    def expect(done: Done) -> None:
        found = [row[column] for row in done.json]
        assert sorted(map(str, found)) == sorted(map(str, values)), f"{column}: {found}"

    return Command(line, expect, is_json=True)


def lists_one(line: str, column: str, *values: object) -> Command:
    """Expect a list of one row whose column has one of these values."""

    def expect(done: Done) -> None:
        found = [row[column] for row in done.json]
        assert len(found) == 1, f"{column}: {found}"
        assert str(found[0]) in map(str, values), f"{column}: {found}"

    return Command(line, expect, is_json=True)


def lists_row(line: str, row: Mapping[str, object]) -> Command:
    """Expect a list with a row that has these fields."""

    def expect(done: Done) -> None:
        rows: Sequence[Any] = done.json
        assert any(_fits(one, row) for one in rows), f"no row with {dict(row)}"

    return Command(line, expect, is_json=True)


def says(line: str, *patterns: str) -> Command:
    """Expect success and output that matches these patterns; no output without patterns."""

    def expect(done: Done) -> None:
        assert done.code == 0, "it failed"
        assert patterns or not done.out.strip(), "it printed something"
        for pattern in patterns:
            assert re.search(pattern, done.out), f"{pattern} is not there"

    return Command(line, expect)


def refused(line: str, *patterns: str) -> Command:
    """Expect failure and an error message that matches these patterns."""

    def expect(done: Done) -> None:
        assert done.code != 0, "it succeeded"
        for pattern in patterns:
            assert re.search(pattern, done.err, re.DOTALL), f"{pattern} is not there"

    return Command(line, expect)


def _check(found: Mapping[str, Any], fields: Mapping[str, object]) -> None:
    for name, value in fields.items():
        assert name in found, f"there is no {name}: {sorted(found)}"
        assert _is(found[name], value), f"{name} is {found[name]!r}, not {value!r}"


def _fits(found: Mapping[str, Any], fields: Mapping[str, object]) -> bool:
    return all(name in found and _is(found[name], value) for name, value in fields.items())


def _is(found: object, value: object) -> bool:
    if isinstance(value, str) and value.startswith("~"):
        return re.search(value[1:], str(found)) is not None
    return found == value
