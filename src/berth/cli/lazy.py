"""Command groups that import a command's module only when it runs.

`berth --help` and shell completion would otherwise import NumPy, httpx and rich, which takes
longer than most commands.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

import click

from berth.cli.command import BerthGroup

_COMMANDS = "berth.cli.commands"


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Location of a command and its line in the list of commands.

    `where` is `module:attribute`, with the module relative to `berth.cli.commands`. `help` is a
    short form of the command's help, which cannot be read without importing the module.
    """

    where: str
    help: str
    section: str = "Commands"


class LazyGroup(BerthGroup):
    """A group that knows its commands by name and imports a command on demand.

    Args:
        name: name of the group.
        lazy: the commands, in the order of the help text.
        options: further arguments of BerthGroup.
    """

    def __init__(
        self, name: str | None = None, *, lazy: Mapping[str, LazyCommand], **options: object
    ) -> None:
        super().__init__(name, shows_options=True, **options)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands."""
        return list(self._lazy)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        cmd_name: str,
    ) -> click.Command | None:
        """Import and return a command, or None if the name is unknown."""
        lazy = self._lazy.get(cmd_name)
        if lazy is None:
            return None
        module, _, attribute = lazy.where.partition(":")
        command: click.Command = getattr(import_module(f"{_COMMANDS}.{module}"), attribute)
        return command

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list of commands by section, without importing any."""
        # click's own implementation calls `get_command` for every name.
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, lazy in self._lazy.items():
            sections.setdefault(lazy.section, []).append((name, lazy.help))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)
