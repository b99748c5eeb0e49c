"""The reference of all commands with their arguments and options, generated from their parsers."""

import re
from collections.abc import Iterator
from typing import Final

import click

from berth.cli.command import GlobalOption, connection_options
from berth.cli.main import berth

_HEAD: Final = """\
# Options of all commands

Every command with its arguments and options, as `berth COMMAND --help` shows them, generated from
the parsers. [The command line](cli.md) explains what the commands do, their exit codes and their
output; [settings](settings.md) explains the options that set a setting.

`berth --version` prints the version. Every command has `-h` and `--help`, and `--debug`, which
prints a traceback on errors.

## The connection

The commands that use a running Berth have these options in addition to their own:

"""
_COLUMNS: Final = ("option", "variable", "default", "meaning")
_TABLE: Final = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}\n"
_BLANKS: Final = re.compile(r"\s+")


def commands_page() -> str:
    """Return the reference of all commands, in Markdown."""
    root = click.Context(berth, info_name="berth")
    connection = _connection()
    parts = [_HEAD, _TABLE, *(_row(one, root) for one in connection)]
    shared = frozenset(one.name for one in connection)
    for context in command_contexts():
        parts += ["\n", *_section(context, shared)]
    return "".join(parts)


def _connection() -> list[click.Option]:
    """Return the options of the connection, as a command has them."""

    @click.command
    @connection_options
    def probe() -> None:
        """Have these options, and no others."""

    return [one for one in probe.params if isinstance(one, click.Option)]


def command_contexts() -> Iterator[click.Context]:
    """Yield the context of every command that is not a group, in the order of the help."""
    yield from _leaves(click.Context(berth, info_name="berth"))


def _leaves(context: click.Context) -> Iterator[click.Context]:
    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    for name in command.list_commands(context):
        part = command.get_command(context, name)
        if part is not None and not part.hidden:
            yield from _leaves(click.Context(part, info_name=name, parent=context))


def _section(context: click.Context, shared: frozenset[str | None]) -> Iterator[str]:
    """Yield the parts of a command's section.

    Args:
        context: the command.
        shared: the names of the options of the connection, which its table leaves out.
    """
    command = context.command
    yield f"## {context.command_path}\n\n"
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    words = [context.command_path, *(one.make_metavar(context) for one in arguments)]
    yield f"```text\n{' '.join([*words, '[OPTIONS]'] if options else words)}\n```\n"
    yield from (f"\n{one}\n" for one in _paragraphs(command.help or ""))
    names = {one.name for one in options}
    own = [one for one in options if not shared <= names or one.name not in shared]
    if own:
        yield f"\n{_TABLE}"
        yield from (_row(one, context) for one in own)
    if shared <= names:
        yield "\nIt uses [the connection](#the-connection).\n"


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text, each on one line, as Markdown."""
    for paragraph in text.replace("\b", "").split("\n\n"):
        one = _BLANKS.sub(" ", paragraph).strip()
        # Placeholders in angle brackets would otherwise be taken for HTML.
        yield one.replace("<", "&lt;")


def _row(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" {_value_of(option, context)}"
    variables = [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()
    if isinstance(option, GlobalOption) and option.variable is not None:
        variables = [option.variable]
    meaning = _BLANKS.sub(" ", option.help or "").strip()
    if option.required:
        meaning = f"{meaning} Required.".strip()
    cells = (
        f"{names}{value}",
        ", ".join(f"`{name}`" for name in variables),
        _default_of(option),
        meaning.replace("|", r"\|").replace("<", "&lt;"),
    )
    return f"| {' | '.join(cells)} |\n"


def _value_of(option: click.Option, context: click.Context) -> str:
    """Return the placeholder of an option's value with its bounds, or its choices."""
    kind = option.type
    if isinstance(kind, click.Choice):
        return ", ".join(f"`{one}`" for one in kind.choices)
    if option.metavar is None and isinstance(kind, click.IntRange | click.FloatRange):
        low = "" if kind.min is None else f", more than {kind.min}"
        low = low if kind.min_open else low.replace("more than", "at least")
        high = "" if kind.max is None else f", at most {kind.max}"
        return f"`N`{low}{high}"
    return f"`{option.make_metavar(context)}`".replace("|", r"\|")


def _default_of(option: click.Option) -> str:
    """Return the default, if the help shows it."""
    default = option.default
    shown = option.show_default and not option.is_flag
    return f"`{default}`" if shown and isinstance(default, str | int | float) else ""
