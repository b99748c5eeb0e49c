"""Completion of the names of servers, flavors, hosts and other things, by the shell's Tab key."""

import os
from collections.abc import Mapping
from typing import Any, Final, cast

import click
from click.shell_completion import CompletionItem

# A shell waits for the names, so a slow service gives none.
_TIMEOUT_S: Final = 2.0
_NAMES_MAX: Final = 1000

# Path of the list, its key in the response, and the field with the name.
_LISTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "server": ("/v2.1/servers", "servers", "name"),
    "flavor": ("/v2.1/flavors", "flavors", "name"),
    "image": ("/image/v2/images", "images", "name"),
    "group": ("/v2.1/os-server-groups", "server_groups", "name"),
    "aggregate": ("/v2.1/os-aggregates", "aggregates", "name"),
    "host": ("/v2.1/os-services", "services", "host"),
    "zone": ("/zones/detail", "zones", "name"),
}


# An option with the name of another thing may be an id, or an availability zone.
_OF_OPTIONS: Final = frozenset({"flavor", "group", "host"})


class NameOf(click.ParamType[str]):
    """The name of a thing of the service, which shells complete.

    Args:
        noun: a key of `_LISTS`.
    """

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self.name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's signature
        """Return the value; the command finds out whether there is such a thing."""
        return value

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 - click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the names that start with a text, or none if the service cannot be asked."""
        try:
            names = _names(self.noun, ctx.params)
        except Exception:  # noqa: BLE001 - an error would appear in the middle of the command line
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_names(parameters: list[click.Parameter]) -> None:
    """Have shells complete the names in the parameters of a command for a running Berth.

    A parameter of the name of a thing gets the type `NameOf`.
    """
    for one in parameters:
        known = _LISTS if isinstance(one, click.Argument) else _OF_OPTIONS
        if one.type is click.STRING and one.name in known:
            one.type = NameOf(str(one.name))


def _names(noun: str, values: Mapping[str, Any]) -> list[str]:
    """Return the names of all things of a kind, at most a page of them.

    Raises:
        CommandError: the connection would need a password that must be typed.
        ClientError: the service refuses, or does not answer in time.
    """
    # These take long to load, and only completion needs them here.
    from berth.cli.access.access import KEYS, access_of  # noqa: PLC0415
    from berth.cli.access.login import log_in, opened  # noqa: PLC0415

    path, key, field = _LISTS[noun]
    options = {name: values.get(name) for name in (*KEYS, "context", "os_cloud")}
    login = log_in(access_of(options, os.environ), may_ask=False)
    with opened(login, timeout_s=_TIMEOUT_S) as berth:
        found = cast("list[dict[str, object]]", berth.request("GET", path).get(key) or [])
    return sorted({str(one[field]) for one in found[:_NAMES_MAX] if one.get(field)})
