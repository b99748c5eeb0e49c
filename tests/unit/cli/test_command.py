"""All commands: options before or after their names, and suggestions for typos."""

from typing import Any

import click
import pytest

from berth.cli.command import (
    CONNECTION_OPTIONS,
    GLOBAL_FLAGS,
    BerthCommand,
    BerthGroup,
    GlobalOption,
    OneOf,
    Session,
)
from berth.cli.main import berth
from tests.unit.cli.cloud import Cloud
from tests.unit.cli.command_tree import leaves, nodes, required_words
from tests.unit.cli.conftest import Run

LEAVES = leaves()
# The words with which a global option is given; values differ from every default.
WORDS = {name: [name] for name in GLOBAL_FLAGS} | {name: [name, "v"] for name in CONNECTION_OPTIONS}


def parsed(words: list[str], command: click.Command) -> tuple[dict[str, Any], Session]:
    """Return the values with which a command line calls its command, which does not run."""
    found: dict[str, Any] = {}
    session = Session()
    callback, command.callback = command.callback, lambda **values: found.update(values)
    try:
        berth.main(words, prog_name="berth", standalone_mode=False, obj=session)
    finally:
        command.callback = callback
    return found, session


def taken(command: click.Command) -> list[str]:
    """Return the global options that a command takes."""
    return [one.opts[0] for one in command.params if isinstance(one, GlobalOption)]


def misspelt(name: str) -> str:
    """Return a name with a letter in its middle doubled."""
    middle = len(name) // 2
    return name[:middle] + name[middle] + name[middle:]


def test_every_command_has_the_classes_of_this_program() -> None:
    """No command or choice lacks the global options or the suggestions."""
    for path, command in nodes():
        kind = BerthGroup if isinstance(command, click.Group) else BerthCommand
        assert isinstance(command, kind), path
        for one in command.params:
            assert not isinstance(one.type, click.Choice) or isinstance(one.type, OneOf), path


def test_a_global_option_may_stand_anywhere() -> None:
    """Each option means the same before the command, between its words, and after it."""
    for path, command in LEAVES:
        rest = required_words(command)
        for name in taken(command):
            option = WORDS[name]
            after, said = parsed([*path, *rest, *option], command)
            without, unsaid = parsed([*path, *rest], command)
            assert after != without or said != unsaid
            for at in range(len(path)):
                values, session = parsed([*path[:at], *option, *path[at:], *rest], command)
                assert values == after
                assert session.debug == said.debug


def test_an_option_that_a_command_does_not_take_is_refused() -> None:
    """The error names the command and the option; the option is never ignored."""
    for path, command in LEAVES:
        for name in set(WORDS) - set(taken(command)):
            with pytest.raises(click.UsageError) as error:
                parsed([*WORDS[name], *path, *required_words(command)], command)
            assert f"berth {' '.join(path)} does not take {name}" in error.value.format_message()


def test_every_command_for_a_running_berth_takes_all_connection_options() -> None:
    """No command takes only some of them."""
    for path, command in LEAVES:
        some = set(CONNECTION_OPTIONS) & set(taken(command))
        assert some in (set(), set(CONNECTION_OPTIONS)), path


def test_the_words_after_the_command_count(run: Run, cloud: Cloud) -> None:
    """An option after the command overrides the same option before it."""
    run("--url", "http://before:1", "server", "--json", "list", "--url", "http://after:2")
    assert cloud.last.url.host == "after"
    run("--url", "http://before:1", "server", "list")
    assert cloud.last.url.host == "before"


def test_a_misspelt_command_is_corrected(run: Run) -> None:
    """The error suggests the command of the same group, and says nothing on standard output."""
    for path, _ in nodes():
        ended = run(*path[:-1], misspelt(path[-1]))
        assert ended.code == 2
        assert f"did you mean {path[-1]!r}?" in ended.err
        assert ended.out == ""


def test_a_misspelt_option_is_corrected(run: Run) -> None:
    """The error suggests the option of the same command."""
    for path, command in LEAVES:
        options = [one for one in command.params if isinstance(one, click.Option)]
        for name in [name for one in options for name in one.opts if name.startswith("--")]:
            ended = run(*path, misspelt(name))
            assert ended.code == 2
            assert "Did you mean" in ended.err
            assert repr(name) in ended.err


def test_a_misspelt_value_is_corrected(run: Run) -> None:
    """The error of an option with fixed values suggests one of them."""
    for path, command in LEAVES:
        for one in [one for one in command.params if isinstance(one.type, OneOf)]:
            assert isinstance(one.type, OneOf)
            for value in one.type.choices:
                words = [*required_words(command), one.opts[0]]
                if isinstance(one, click.Argument):
                    words = []
                ended = run(*path, *words, misspelt(value))
                assert ended.code == 2
                assert f"did you mean {value!r}?" in ended.err


def test_what_resembles_nothing_is_refused_with_the_place_to_look(run: Run) -> None:
    """A command unlike all others gets the help of its group."""
    assert "see `berth --help`" in run("zzzzzz").err
    assert "see `berth server --help`" in run("server", "zzzzzz").err


def test_the_case_of_a_status_does_not_matter(run: Run, cloud: Cloud) -> None:
    """The API gets the status in its own case."""
    assert run("server", "list", "--status", "active").code == 0
    assert cloud.last.url.params["status"] == "ACTIVE"
    assert "did you mean 'ACTIVE'?" in run("server", "list", "--status", "actve").err
