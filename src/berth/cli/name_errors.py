"""Errors about names that do not exist, with the nearest name that does."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from berth.cli.connection import ApiConnection, command_errors, rows
from berth.cli.failures import CommandError, ExitCode
from berth.config.spelling import suggestion

P = ParamSpec("P")
R = TypeVar("R")

_SERVICES = "/v2.1/os-services"


def unknown_name(
    noun: str, name: str, known: Iterable[object], see: str, where: str = ""
) -> CommandError:
    """Return the error for a name that does not exist.

    Args:
        noun: what the name is of, such as `flavor`.
        name: the name.
        known: the names that exist, as far as they are known.
        see: the command that lists them, for a name that is similar to none.
        where: text after the name, such as ` in your project`.
    """
    near = suggestion(name, [str(one) for one in known])
    hint = f"did you mean {near!r}?" if near else f"see `{see}`"
    return CommandError(f"no {noun} {name!r}{where}; {hint}", ExitCode.NOT_FOUND)


def suggests_hosts(
    parameter: str,
) -> Callable[
    [Callable[Concatenate[ApiConnection, P], R]], Callable[Concatenate[ApiConnection, P], R]
]:
    """Return a decorator for a command about a host, for below `connected`.

    If the service does not find what the command asks for, and there is no host of the given name,
    the error suggests the nearest host. The hosts are listed only then.

    Args:
        parameter: the parameter with the name of the host.
    """

    def decorate(
        command: Callable[Concatenate[ApiConnection, P], R],
    ) -> Callable[Concatenate[ApiConnection, P], R]:
        @wraps(command)
        def run(api: ApiConnection, /, *args: P.args, **kwargs: P.kwargs) -> R:
            try:
                with command_errors():
                    return command(api, *args, **kwargs)
            except CommandError as error:
                if error.code is not ExitCode.NOT_FOUND:
                    raise
                near = _nearest_host(api, str(kwargs[parameter]))
                if near is None:
                    raise
                reason = f"{error}; did you mean {near!r}?"
                raise CommandError(reason, ExitCode.NOT_FOUND) from error

        return run

    return decorate


def _nearest_host(api: ApiConnection, name: str) -> str | None:
    """Return the host with the most similar name; None if there is none, or `name` is a host."""
    # The first error matters, not one about the list that only improves it.
    with suppress(CommandError):
        known = {str(one.get("host")) for one in rows(api.get(_SERVICES), "services")}
        return None if name in known else suggestion(name, known)
    return None
