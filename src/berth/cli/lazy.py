"""Lazy commands: a module is imported when its command runs, so that `berth --help` is fast."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

import click

_COMMANDS = "berth.cli.commands"


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command is, and the line that the list of commands shows for it.

    `where` is `module:attribute`, with the module below `berth.cli.commands`.
    """

    where: str
    help: str
    section: str = "Commands"


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is asked for.

    Args:
        name: of the group.
        lazy: the commands, in the order in which help lists them.
        options: what click.Group takes besides.
    """

    def __init__(
        self, name: str | None = None, *, lazy: Mapping[str, LazyCommand], **options: object
    ) -> None:
        super().__init__(name, **options)  # type: ignore[arg-type] # click checks its own
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands."""
        return list(self._lazy)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        cmd_name: str,
    ) -> click.Command | None:
        """Import a command; None when there is none of that name."""
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
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, lazy in self._lazy.items():
            sections.setdefault(lazy.section, []).append((name, lazy.help))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)
