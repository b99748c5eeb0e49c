"""The commands of the tables, run by the real programs with tokens and with passwords."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.clients.clouds import SETTINGS, running
from tests.e2e.clients.expecting import Command
from tests.e2e.clients.programs import Done, Programs
from tests.e2e.clients.tables import actions, fleet, names, servers

COMMANDS = (*names.COMMANDS, *fleet.COMMANDS, *servers.COMMANDS, *actions.COMMANDS)
COMMANDS_MIN = 60
WHOLE_MODE = "identity"
_ALL = "BERTH_CLIENTS_ALL" in os.environ

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def name_of(command: Command) -> str:
    """Return the words that name a command, without options and arguments."""
    words = shlex.split(command.typed.replace("--os-placement-api-version 1.39 ", ""))
    names = [*_names(words)]
    return " ".join(names)


def _names(words: list[str]) -> Iterator[str]:
    verbs = {"list", "show", "create", "set", "unset", "delete", "host", "image", "issue", "ip"}
    for index, word in enumerate(words):
        yield word
        if index > 0 and (words[0] == "nova" or (index > 1 and word in verbs)):
            follows = words[index + 1 : index + 2]
            if words[0] == "nova" or follows not in (["create"], ["list"], ["show"], ["delete"]):
                return


def is_wanted(command: Command, mode: str) -> bool:
    """Return whether a command is tested in a mode."""
    if mode == WHOLE_MODE:
        return True
    return (command.is_usual or _ALL) and not command.needs_tokens


@pytest.mark.parametrize("mode", SETTINGS if _ALL else [WHOLE_MODE, "http_basic"])
def test_commands_say_what_they_should(mode: str, programs: Programs, tmp_path: Path) -> None:
    """Each command gives the expected output: all with tokens, the usual ones with passwords.

    With BERTH_CLIENTS_ALL=1 every other mode runs all commands that need no tokens.
    """
    wanted = [command for command in COMMANDS if is_wanted(command, mode)]
    assert len({name_of(command) for command in wanted}) >= COMMANDS_MIN
    with running(mode, tmp_path) as cloud:

        def call(line: str) -> Done:
            return programs.call(line, cloud.environment(line.partition(" ")[0]))

        failures = []
        for command in wanted:
            try:
                command.judge(call)
            except AssertionError as error:
                failures.append(str(error))
    assert not failures, "\n\n".join([f"{len(failures)} commands failed", *failures])
