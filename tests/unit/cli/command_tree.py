"""The tree of all commands, and command lines that each of them accepts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from berth.cli.main import berth

FILE = str(Path(__file__))


def nodes() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command and group below `berth`, with the words that lead to it."""
    yield from _below((), berth)


def leaves() -> list[tuple[tuple[str, ...], click.Command]]:
    """Return every command that is not a group, with the words that lead to it."""
    return [(path, one) for path, one in nodes() if not isinstance(one, click.Group)]


def _below(
    path: tuple[str, ...], group: click.Group
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group, info_name="berth")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _below((*path, name), command)


def required_words(command: click.Command) -> list[str]:
    """Return the least words with which a command can be parsed."""
    words: list[str] = []
    arguments: list[str] = []
    for one in command.params:
        if isinstance(one, click.Argument) and one.required:
            arguments.append(_value(one.type))
        elif one.required:
            words += [one.opts[0], _value(one.type)]
    return [*words, *arguments]


def _value(kind: click.ParamType[Any]) -> str:
    """Return a text that a type accepts."""
    if isinstance(kind, click.Choice):
        return str(kind.choices[0])
    if isinstance(kind, click.IntRange | click.FloatRange):
        return str(kind.min or 1)
    return FILE if isinstance(kind, click.Path) and kind.file_okay else "x"
