"""`berth host enroll`, `berth agent-enroll` and the other commands for the keys of hosts."""

import os
import ssl
import sys
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path

import click

from berth.cli.command import berth_command, berth_group
from berth.cli.completed_names import NameOf
from berth.cli.connection import ApiConnection, connected, rows
from berth.cli.failures import CommandError, ExitCode
from berth.cli.listing import Column, Listing, ListOptions, list_options, print_list
from berth.cli.name_errors import suggests_hosts
from berth.cli.output import json_option, print_json, print_line
from berth.client import NO_RETRIES, Client, ClientError

_TIMEOUT_S = 30.0


@berth_command("enroll")
@click.argument("name")
@click.option(
    "--life",
    "life_s",
    type=click.FloatRange(0, min_open=True),
    default=3600.0,
    show_default=True,
    help="Seconds for which the token is valid.",
)
@json_option
@connected
def enroll(api: ApiConnection, *, name: str, life_s: float, as_json: bool) -> None:
    """Print a one-time token, with which the agent of host NAME registers its key.

    On the host, `berth agent-enroll` registers a new key with the token. A key that the host
    already has stays valid until then.
    """
    found = api.berth.host_keys.enroll.document(name, life_s=life_s)
    if as_json:
        print_json(found)
    else:
        print_line(str(found["token"]))


@berth_command("keys")
@list_options
@connected
def list_keys(api: ApiConnection, *, options: ListOptions) -> None:
    """List the hosts that are enrolled, with the state of their keys, by host."""
    columns = (
        Column("Host", itemgetter("host")),
        Column("State", itemgetter("state")),
        Column(
            "Key", lambda one: ", ".join(str(key)[:12] for key in one["keys"]) or None, wraps=True
        ),
        Column("Since", lambda one: _time(one.get("added_at_s"))),
        Column("Token until", lambda one: _time(one.get("token_expires_at_s"))),
    )
    empty = "no hosts are enrolled; enroll one with `berth host enroll NAME`"
    listing = Listing(
        "host_keys",
        lambda: rows(api.berth.host_keys.list.document(), "host_keys"),
        lambda _: columns,
        empty,
        order="host",
    )
    print_list(listing, options)


@berth_command("rotate-key")
@click.argument("name", type=NameOf("host"))
@json_option
@connected
@suggests_hosts("name")
def rotate(api: ApiConnection, *, name: str, as_json: bool) -> None:
    """Ask the agent of host NAME to replace its key, now or at its next connection."""
    api.berth.host_keys.rotate(name)
    if as_json:
        print_json({"host": name, "state": "rotating"})
        return
    print_line(f"the agent of {name} will replace its key; see `berth host keys`")


@berth_command("revoke-key")
@click.argument("name", type=NameOf("host"))
@json_option
@connected
@suggests_hosts("name")
def revoke(api: ApiConnection, *, name: str, as_json: bool) -> None:
    """Revoke the key of host NAME and disconnect its agent; its guests keep running."""
    api.berth.host_keys.revoke(name)
    if as_json:
        print_json({"host": name, "state": "revoked"})
        return
    print_line(
        f"the key of {name} is revoked; enroll the host again with `berth host enroll {name}`"
    )


@berth_command("broker-permissions")
@click.argument("name")
@click.option(
    "--prefix",
    envvar="BERTH_BUS_PREFIX",
    default="berth",
    show_default=True,
    help="Prefix of the names at the broker (bus.prefix).",
)
@click.option(
    "--vhost",
    help="Virtual host at the broker; by default that of BERTH_BUS_URL, or else /.",
)
@json_option
def broker_permissions(*, name: str, prefix: str, vhost: str | None, as_json: bool) -> None:
    """Print the commands that give host NAME a user at the broker.

    The user may read only the queues of the host, and publish only to the gateways. `add_user` asks
    for a new password.
    """
    from berth.adapters.gateway.broker_names import (  # noqa: PLC0415 - not for --help
        GatewayNames,
        vhost_of,
    )

    vhost = vhost_of(os.environ.get("BERTH_BUS_URL", "")) if vhost is None else vhost
    commands = GatewayNames(prefix).commands(name, vhost)
    if as_json:
        print_json({"commands": list(commands)})
        return
    for command in commands:
        print_line(command)


@berth_group("control-keys")
def control_keys() -> None:
    """Manage the keys that prove the control plane to agents over a broker."""


@control_keys.command("rotate")
@click.option(
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    envvar="BERTH_GATEWAY_KEY_FILE",
    help="File of the keys.",
)
@json_option
def rotate_control_keys(*, path: Path, as_json: bool) -> None:
    """Use the next key from now on, and create the one after it.

    Hosts know the next key already. They learn of the new one in their next session, so restart the
    APIs, and wait until all hosts are connected again before you rotate again.
    """
    from berth.config.control_keys import rotate as rotate_keys  # noqa: PLC0415 - not for --help

    rotate_keys(path)
    if as_json:
        print_json({"file": str(path)})
        return
    print_line(f"{path} has a new key; copy the file to all APIs, and restart them one by one")


def _time(at_s: object) -> str | None:
    if not isinstance(at_s, int | float):
        return None
    return datetime.fromtimestamp(at_s, UTC).isoformat(" ", "seconds").removesuffix("+00:00")


@berth_command("agent-enroll")
@click.option("--host", required=True, envvar="BERTH_AGENT_HOST", help="Name of the host.")
@click.option(
    "--gateway",
    "url",
    required=True,
    envvar="BERTH_AGENT_GATEWAY_URL",
    help="URL of the API, for example https://control.example:8774.",
)
@click.option(
    "--gateway-ca",
    "ca_file",
    envvar="BERTH_AGENT_GATEWAY_CA_FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of CA certificates that replace the system's.",
)
@click.option(
    "--key",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("berth-agent.key"),
    show_default=True,
    envvar="BERTH_AGENT_KEY_FILE",
    help="File for the private key of the host.",
)
@click.option(
    "--token",
    envvar="BERTH_ENROLL_TOKEN",
    help="Token that `berth host enroll` printed; prefer the prompt or the environment.",
)
@json_option
def agent_enroll(
    *, host: str, url: str, ca_file: Path | None, path: Path, token: str | None, as_json: bool
) -> None:
    """Create a new key for this host, and register it with a one-time token.

    A running agent keeps the key that it has read, so restart it afterwards.
    """
    from berth.adapters.gateway.control_pins import (  # noqa: PLC0415 - not for --help
        ControlPins,
        pins_path,
    )
    from berth.adapters.gateway.host_key import HostKeyFile  # noqa: PLC0415 - likewise
    from berth.adapters.gateway.websocket_client import (  # noqa: PLC0415 - likewise
        check_url,
        tls_context,
    )

    check_url(url)
    token = _ask_token(host) if token is None else token
    context = tls_context(url, ca_file)
    key = HostKeyFile.enrolling(path)
    try:
        control_keys = _redeem(url, host, token.strip(), key.public_key, context)
    except CommandError:
        key.discard()
        raise
    key.replace(path)
    # Keys that an earlier enrolment has pinned may be those of another control plane.
    pins_path(path).unlink(missing_ok=True)
    if control_keys:
        ControlPins(pins_path(path)).save(control_keys)
    if as_json:
        print_json({"host": host, "file": str(path)})
        return
    print_line(f"host {host} is enrolled; its key is in {path}; start its agent, or restart it")


def _ask_token(host: str) -> str:
    """Return the token that is typed on the terminal.

    Raises:
        CommandError: there is no terminal.
    """
    if not sys.stdin.isatty():
        reason = f"no token for host {host}; set BERTH_ENROLL_TOKEN, or use a terminal"
        raise CommandError(reason, ExitCode.USAGE)
    return click.prompt("Token", hide_input=True, err=True, type=str)


def _redeem(
    url: str, host: str, token: str, public_key: str, context: ssl.SSLContext | None
) -> list[bytes]:
    """Register a key with a one-time token, and return the control plane's public keys.

    Raises:
        CommandError: the control plane refuses the token, or cannot be reached.
    """
    from berth.domain.compute.host_identity import public_key_bytes  # noqa: PLC0415 - as above

    # The agent uses no proxy either, so an enrolment that succeeds shows that it can connect.
    try:
        with Client(
            url, tls=context, timeout_s=_TIMEOUT_S, retries=NO_RETRIES, trust_env=False
        ) as berth:
            keys = berth.host_keys.redeem(host, token, public_key)
    except ClientError as error:
        if error.status is None:
            reason = f"{error.message}; check --gateway and --gateway-ca"
            raise CommandError(reason, ExitCode.UNREACHABLE) from error
        raise CommandError(error.message, ExitCode.FAILED) from error
    return [public_key_bytes(key) for key in keys]
