"""`berth context`: names for the addresses and accounts of several Berths."""

import os
import sys
from collections.abc import Mapping

import click

from berth.cli.access.access import access_of
from berth.cli.access.context_file import (
    SECRETS,
    Contexts,
    contexts_path,
    read_contexts,
    write_contexts,
)
from berth.cli.access.login import check_url
from berth.cli.command import berth_group, connection_options
from berth.cli.failures import CommandError, ExitCode
from berth.cli.output import json_option, print_json, print_line, print_table

_HIDDEN = "(hidden)"


@berth_group("context")
def contexts() -> None:
    """Manage contexts: the address of a Berth, and the account there, under a name.

    The file is berth/contexts.toml in XDG_CONFIG_HOME or ~/.config. --context and BERTH_CONTEXT
    choose a context; without them commands use the current one.
    """


@contexts.command("add")
@click.argument("name")
@click.option("--password-file", metavar="FILE", help="File with the password in its first line.")
@click.option("--password-command", metavar="COMMAND", help="Command that prints the password.")
@click.option("--cloud", metavar="CLOUD", help="Cloud of clouds.yaml to sign in with.")
@click.option(
    "--store-password", is_flag=True, help="Store the password of --password or of a prompt."
)
@click.option("--use", "is_used", is_flag=True, help="Make the context the current one.")
@json_option
@connection_options
def add(
    *,
    name: str,
    password_file: str | None,
    password_command: str | None,
    cloud: str | None,
    store_password: bool,
    is_used: bool,
    as_json: bool,
    **options: str | None,
) -> None:
    """Add the context NAME, or replace it.

    A context has --url with --user or --token, or --cloud. The password is requested at each
    command unless --password-file, --password-command or --store-password is given.
    """
    if options["context"] or options["os_cloud"]:
        raise click.UsageError("--context and --os-cloud have no meaning here; omit them")
    given = {"password_file": password_file, "password_command": password_command, "cloud": cloud}
    fields = {key: text for key, text in (given | _account(options)).items() if text}
    _check_fields(name, fields)
    if store_password:
        fields["password"] = options["password"] or _read_password(name)
    elif options["password"]:
        raise click.UsageError(
            "give --store-password to store the password, or better --password-file or "
            "--password-command"
        )
    found = read_contexts(contexts_path(os.environ))
    made = found.with_context(name, fields)
    if is_used or not found.by_name:
        made = Contexts(made.path, name, made.by_name)
    write_contexts(made)
    if as_json:
        print_json(_document(made, name))
    else:
        current = ", and is the current one" if made.current == name else ""
        print_line(f"context {name} is in {made.path}{current}")


def _account(options: Mapping[str, str | None]) -> dict[str, str | None]:
    ca_file = options["ca_file"]
    # A relative path would depend on the folder of each later command.
    return {
        "url": options["url"],
        "user": options["user"],
        "token": options["token"],
        "ca_file": os.path.abspath(ca_file) if ca_file else None,  # noqa: PTH100 - keeps links
    }


def _check_fields(name: str, fields: Mapping[str, str]) -> None:
    """Check the fields of a context.

    Raises:
        UsageError: a required field is missing, or fields contradict each other.
        CommandError: the URL is not an HTTP URL.
    """
    for text in (name, *fields.values()):
        if not text or not text.isprintable():
            raise click.UsageError(f"{text[:80]!r} must consist of printable characters")
    if "cloud" not in fields and "url" not in fields:
        raise click.UsageError(
            "give the address with --url, or a cloud of clouds.yaml with --cloud"
        )
    if "password_file" in fields and "password_command" in fields:
        raise click.UsageError("--password-file and --password-command exclude each other")
    has_password = "password_file" in fields or "password_command" in fields
    if has_password and "user" not in fields and "cloud" not in fields:
        raise click.UsageError("a password needs --user; add it")
    if "url" in fields:
        check_url(fields["url"])


def _read_password(name: str) -> str:
    if sys.stdin.isatty():
        return click.prompt(f"Password of context {name}", hide_input=True, err=True, type=str)
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise CommandError(
            "--store-password needs a password on standard input, or a terminal", ExitCode.USAGE
        )
    return password


@contexts.command("list")
@json_option
def list_contexts(*, as_json: bool) -> None:
    """List the contexts; an asterisk marks the current one."""
    found = read_contexts(contexts_path(os.environ))
    if as_json:
        print_json({"contexts": [_document(found, name) for name in sorted(found.by_name)]})
    elif not found.by_name:
        print_line("no contexts; add one with `berth context add NAME --url URL`")
    else:
        table = [
            ("*" if name == found.current else "", name, _where(fields), fields.get("user"))
            for name, fields in sorted(found.by_name.items())
        ]
        print_table(("Current", "Name", "Address", "User"), table, wrap=("Address",))


@contexts.command("use")
@click.argument("name")
@json_option
def use(*, name: str, as_json: bool) -> None:
    """Make NAME the current context."""
    found = read_contexts(contexts_path(os.environ))
    found.fields_of(name)
    made = Contexts(found.path, name, found.by_name)
    write_contexts(made)
    if as_json:
        print_json(_document(made, name))
    else:
        print_line(f"{name} is the current context")


@contexts.command("show")
@click.argument("name", required=False)
@json_option
@connection_options
def show(*, name: str | None, as_json: bool, **options: str | None) -> None:
    """Show the values that commands would use, each with its origin; NAME is as in --context.

    Secrets are never shown.
    """
    if name is not None:
        options["context"] = name
    access = access_of(options, os.environ)
    rows = access.shown()
    if as_json:
        print_json({"context": access.context, "values": rows})
        return
    print_line(f"context {access.context}" if access.context else "no context")
    print_table(
        ("Key", "Value", "Origin"),
        [(row["key"], row["value"], row["origin"]) for row in rows],
        wrap=("Value", "Origin"),
    )


@contexts.command("remove")
@click.argument("name")
@json_option
def remove(*, name: str, as_json: bool) -> None:
    """Remove the context NAME."""
    found = read_contexts(contexts_path(os.environ))
    found.fields_of(name)
    write_contexts(found.without(name))
    if as_json:
        print_json({"removed": name})
    else:
        print_line(f"context {name} removed")


def _document(found: Contexts, name: str) -> dict[str, object]:
    fields = found.by_name[name]
    shown = {key: _HIDDEN if key in SECRETS else text for key, text in fields.items()}
    return {"name": name, "is_current": name == found.current, **shown}


def _where(fields: Mapping[str, str]) -> str:
    return fields.get("url") or f"cloud {fields['cloud']}"
