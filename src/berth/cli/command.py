"""The classes of all commands: options that may stand anywhere, and suggestions for typos."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from berth.cli.completed_names import complete_names
from berth.config.spelling import suggestion

F = TypeVar("F", bound=Callable[..., object])


@dataclass(slots=True)
class Session:
    """What the options that hold for every command say about one run of `berth`.

    Attributes:
        debug: print tracebacks.
        given: options that precede the name of the command, by name, as words.
    """

    debug: bool = False
    given: dict[str, str] = field(default_factory=dict[str, str])


class GlobalOption(click.Option):
    """An option that may also precede the name of the command: `berth --json server list`.

    Args:
        names: as for `click.Option`.
        variable: the environment variable with the same meaning, for the documentation. The option
            does not read it, since sources of other precedence lie between the two.
        settings: further arguments of `click.Option`.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        variable: str | None = None,
        **settings: Any,  # noqa: ANN401 - click checks its own
    ) -> None:
        super().__init__(names, **settings)
        self.variable = variable


class OneOf(click.Choice[str]):
    """A choice whose error suggests the value that the user probably meant."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:  # noqa: ANN401 - click's signature
        """Return the error for a value that is none of the choices."""
        listed = super().get_invalid_choice_message(value, ctx)
        near = suggestion(str(value), self.choices, case_sensitive=self.case_sensitive)
        return f"{listed.rstrip('.')}; did you mean {near!r}?" if near else listed

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002 - likewise
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the choices that start with a text, as the help shows them."""
        asked = incomplete if self.case_sensitive else incomplete.lower()
        return [
            CompletionItem(one)
            for one in self.choices
            if (one if self.case_sensitive else one.lower()).startswith(asked)
        ]


GLOBAL_FLAGS: Final = {
    "--json": "Print JSON.",
    "--debug": "Print a traceback on errors.",
}
"""Options without a value that hold for every command, with their help."""

CONNECTION_OPTIONS: Final = {
    "--url": ("BERTH_URL", "URL of the Berth API; http://127.0.0.1:8774 by default."),
    "--user": ("BERTH_USER", "User, for services that require a password."),
    "--password": ("BERTH_PASSWORD", "Password; prompted for if needed."),
    "--token": ("BERTH_TOKEN", "Token to send as X-Auth-Token."),
    "--ca-file": (
        "BERTH_CA_FILE",
        "File of CA certificates for https, which replace the system's.",
    ),
    "--context": ("BERTH_CONTEXT", "Context to use; see `berth context`."),
    "--os-cloud": ("OS_CLOUD", "Cloud of clouds.yaml to use."),
}
"""Options of every command that uses a running Berth, with their variables and help.

All take a text.
"""


class BerthCommand(click.Command):
    """A command that takes the global options that preceded its name, and `--debug`."""

    def __init__(self, name: str | None, **settings: Any) -> None:  # noqa: ANN401 - click checks its own
        super().__init__(name, **settings)
        if any(one.opts[0] in CONNECTION_OPTIONS for one in self.params):
            complete_names(self.params)
        self.params.append(
            GlobalOption(
                ["--debug"],
                is_flag=True,
                hidden=True,
                expose_value=False,
                callback=_note_debug,
                help=GLOBAL_FLAGS["--debug"],
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of a command, and before them the options that precede its name.

        Raises:
            UsageError: the command does not take one of the options.
        """
        session = ctx.find_object(Session)
        given = {} if session is None else session.given
        taken = {name for one in self.params if isinstance(one, GlobalOption) for name in one.opts}
        for name in given:
            if name not in taken and not ctx.resilient_parsing:
                raise click.UsageError(f"{ctx.command_path} does not take {name}; omit it", ctx)
        # The command's own words come last, so they override an option before its name.
        words = [word for name, word in given.items() if name in taken]
        return super().parse_args(ctx, [*words, *args])


class BerthGroup(click.Group):
    """A group that takes the global options on behalf of its commands."""

    command_class = BerthCommand
    group_class = type

    def __init__(
        self,
        name: str | None = None,
        *,
        shows_options: bool = False,
        **settings: Any,  # noqa: ANN401 - click checks its own
    ) -> None:
        super().__init__(name, **settings)
        self.params += _group_options(hidden=not shows_options)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name, the command and the remaining words.

        Raises:
            UsageError: there is no such command.
        """
        name = args[0]
        is_option = name.startswith("-")
        if is_option or ctx.resilient_parsing or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        near = suggestion(name, self.list_commands(ctx))
        hint = f"did you mean {near!r}?" if near else f"see `{ctx.command_path} --help`"
        raise click.UsageError(f"{ctx.command_path} has no command {name!r}; {hint}", ctx)


def berth_command(name: str, **settings: Any) -> Callable[[Callable[..., Any]], click.Command]:  # noqa: ANN401 - click checks its own
    """Return a decorator that makes a command; see `click.command`."""
    return click.command(name, cls=BerthCommand, **settings)


def berth_group(name: str, **settings: Any) -> Callable[[Callable[..., Any]], BerthGroup]:  # noqa: ANN401 - click checks its own
    """Return a decorator that makes a group of commands; see `click.group`."""
    return click.group(name, cls=BerthGroup, **settings)


def connection_options(function: F) -> F:
    """Add the options of `CONNECTION_OPTIONS` to a command.

    They have no default and no variable: `berth.cli.access` knows all sources of their values.
    """
    # Decorators apply from the bottom up, so the last option is added first.
    for name, (variable, text) in reversed(CONNECTION_OPTIONS.items()):
        function = click.option(name, cls=GlobalOption, variable=variable, help=text)(function)
    return function


def _group_options(*, hidden: bool) -> Sequence[click.Option]:
    flags = [
        click.Option(
            [name], is_flag=True, hidden=hidden, expose_value=False, callback=_note, help=text
        )
        for name, text in GLOBAL_FLAGS.items()
    ]
    return flags + [
        click.Option([name], hidden=hidden, expose_value=False, callback=_note, help=text)
        for name, (_, text) in CONNECTION_OPTIONS.items()
    ]


def _note(context: click.Context, parameter: click.Parameter, value: str | bool | None) -> None:  # noqa: FBT001 - click calls it
    """Keep an option that precedes the name of a command for the command."""
    session = context.find_object(Session)
    if session is None or value is None or value is False:
        return
    (name,) = parameter.opts
    session.given[name] = name if value is True else f"{name}={value}"
    session.debug = session.debug or name == "--debug"


def _note_debug(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click calls it
    session = context.find_object(Session)
    if session is not None and value:
        session.debug = True
