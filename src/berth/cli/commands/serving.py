"""`berth up`, `berth api` and the other commands that run Berth: options become settings."""

import asyncio
import gc
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click

from berth.cli.command import GLOBAL_FLAGS, GlobalOption, OneOf, berth_command, berth_group
from berth.config.api_settings import AuthMode
from berth.config.settings import Settings
from berth.config.settings_reader import read_settings
from berth.config.virt_settings import AgentDriver

F = TypeVar("F", bound=Callable[..., object])

_FILE = click.Path(dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)

# The parameter name of every option is the key of its setting, `section__key`. Options have no
# defaults, so that one that is not given does not override the file or the environment.
_CONFIG = [click.option("--config", type=_FILE, help="TOML file with settings.")]
_JSON = [
    click.option("--json", "as_json", cls=GlobalOption, is_flag=True, help=GLOBAL_FLAGS["--json"])
]
_LEDGER = [
    click.option("--data", "ledger__data_dir", type=_FOLDER, help="Folder for the ledger."),
    click.option("--ledger", "ledger__url", help="URL of the ledger, instead of --data."),
]
_BUS = [
    click.option("--bus", "bus__url", help="URL of the broker between processes."),
]
_POLICY = [
    click.option(
        "--policy", "policy__path", type=_FILE, help="Policy file or name of a ready policy."
    )
]
_AUTH = [
    click.option(
        "--insecure-listen",
        "api__insecure_listen",
        is_flag=True,
        help="Allow noauth on an address that other machines can reach.",
    ),
    click.option(
        "--auth",
        "auth__mode",
        type=OneOf([str(mode) for mode in AuthMode]),
        help="Authentication of callers.",
    ),
    click.option(
        "--htpasswd",
        "auth__htpasswd",
        type=_FILE,
        help="File of users, for http_basic and identity, and of parent zones, for keystone.",
    ),
]
_API = [
    click.option("--listen", "api__listen", metavar="HOST:PORT", help="Address to listen on."),
    click.option(
        "--tls-certificate",
        "api__tls_certificate",
        type=_FILE,
        help="Certificate chain in PEM, to serve HTTPS.",
    ),
    click.option(
        "--tls-key", "api__tls_key", type=_FILE, help="Private key of the certificate, in PEM."
    ),
    *_AUTH,
    click.option("--images", "api__images", type=_FILE, help="JSON list of images."),
]
_PLACEMENT = [
    click.option(
        "--listen", "placement__listen", metavar="HOST:PORT", help="Address to listen on."
    ),
    *_AUTH,
    click.option(
        "--policy-file",
        "placement__policy_file",
        type=_FILE,
        help="File of rules that override the default policy.",
    ),
    click.option(
        "--enforce-new-defaults",
        "placement__enforce_new_defaults",
        is_flag=True,
        help="Do not also let administrators pass the rules for services and project readers.",
    ),
    click.option(
        "--cors-origin",
        "placement__cors_origins",
        multiple=True,
        metavar="ORIGIN",
        help="Origin whose pages may call the API. May be repeated.",
    ),
    click.option(
        "--cors-header",
        "placement__cors_headers",
        multiple=True,
        metavar="NAME",
        help="Request header that browsers may send. May be repeated.",
    ),
]
_FLEET = [
    click.option(
        "--fake-hosts",
        "agent__fake_hosts",
        type=click.IntRange(0),
        metavar="N",
        help="Number of simulated hosts.",
    ),
    click.option("--fleet", "agent__fleet", type=_FILE, help="JSON list of simulated hosts."),
]
_SIZE = [
    click.option("--vcpus", "agent__vcpus", type=click.IntRange(0), help="CPUs per host."),
    click.option("--memory-mb", "agent__memory_mb", type=click.IntRange(0), help="MiB per host."),
    click.option("--disk-gb", "agent__disk_gb", type=click.IntRange(0), help="GiB per host."),
]
_HOST = [
    click.option("--host", "agent__host", help="Name of the host."),
    click.option(
        "--driver",
        "agent__driver",
        type=OneOf([str(driver) for driver in AgentDriver]),
        help="Driver that runs the guests.",
    ),
    click.option(
        "--gateway",
        "agent__gateway_url",
        help="URL of the API (https) or of the broker (amqps), in place of a ledger.",
    ),
    click.option(
        "--gateway-ca",
        "agent__gateway_ca_file",
        type=_FILE,
        help="File of CA certificates for the gateway.",
    ),
    click.option(
        "--gateway-password",
        "agent__gateway_password_file",
        type=click.Path(path_type=Path),
        help="File with the host's password at the broker.",
    ),
    click.option(
        "--key",
        "agent__key_file",
        type=click.Path(path_type=Path),
        help="File of the host's private key, or a folder with one file per simulated host.",
    ),
    click.option("--guests", "virt__state_dir", type=_FOLDER, help="Folder for the guests."),
    click.option("--images", "api__images", type=_FILE, help="JSON list of images."),
]


def _options(*groups: list[Callable[[F], F]]) -> Callable[[F], F]:
    """Add groups of options to a command, in this order."""

    def decorate(command: F) -> F:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return decorate


def setting_options(command: F) -> F:
    """Add the options of all processes, except for those of `berth placement` alone."""
    # `--images` is also an option of the API, and one command cannot have it twice.
    host = [*_HOST[:-1]]
    return _options(_API, _LEDGER, _BUS, _POLICY, _FLEET, _SIZE, host, _CONFIG)(command)


def given_options(options: Mapping[str, object]) -> dict[str, object]:
    """Return the settings that options on the command line give, by `section.key`."""
    return {
        key.replace("__", "."): value
        for key, value in options.items()
        if value is not None and value is not False and value != ()
    }


def _settings(config: Path | None, options: Mapping[str, object]) -> Settings:
    """Read the settings; options that are given override the file and the environment."""
    return read_settings(config, os.environ, given_options(options))


@contextmanager
def _quick_imports() -> Generator[None]:
    """Disable garbage collection during imports, which saves a sixth of their time.

    Imports allocate many objects and release almost none, so collections find nothing.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@berth_command("up")
@_options(_API, _LEDGER, _BUS, _POLICY, _FLEET, _SIZE, _CONFIG)
def up(*, config: Path | None, **options: object) -> None:
    """Run everything in one process: API, scheduler, ledger and simulated hosts."""
    # The settings are read first, so that an error in them is reported before the slow imports.
    settings = _settings(config, options)
    with _quick_imports():
        from berth.app import processes  # noqa: PLC0415 - --help does not need it

    processes.run_up(settings)


@berth_command("api")
@_options(_API, _LEDGER, _BUS, _POLICY, _CONFIG)
def api(*, config: Path | None, **options: object) -> None:
    """Run the HTTP API; schedulers process the requests that it accepts."""
    settings = _settings(config, options)
    with _quick_imports():
        from berth.app import processes  # noqa: PLC0415 - see `up`

    processes.run_api(settings)


@berth_command("placement")
@_options(_PLACEMENT, _LEDGER, _CONFIG)
def placement(*, config: Path | None, **options: object) -> None:
    """Run only the Placement API, at the root path."""
    settings = _settings(config, options)
    with _quick_imports():
        from berth.app import placement  # noqa: PLC0415 - see `up`

    placement.run_placement(settings)


@berth_command("scheduler")
@_options(_LEDGER, _BUS, _POLICY, _CONFIG)
def scheduler(*, config: Path | None, **options: object) -> None:
    """Run a scheduler; several schedulers may share a ledger."""
    settings = _settings(config, options)
    with _quick_imports():
        from berth.app import processes  # noqa: PLC0415 - see `up`

    processes.run_scheduler(settings)


@berth_command("agent")
@_options(_HOST, _FLEET, _SIZE, _LEDGER, _CONFIG)
def agent(*, config: Path | None, **options: object) -> None:
    """Run the agent of a compute host or of a simulated fleet."""
    settings = _settings(config, options)
    with _quick_imports():
        from berth.app import processes  # noqa: PLC0415 - see `up`

    processes.run_agent(settings)


@berth_group("ledger")
def ledger() -> None:
    """Manage the ledger's schema."""


@ledger.command("migrate")
@_options(_LEDGER, _CONFIG, _JSON)
def migrate(*, config: Path | None, as_json: bool, **options: object) -> None:
    """Create the ledger's tables, or upgrade them."""
    settings = _settings(config, options)
    from berth.adapters.ledger import migrate as migrate_ledger  # noqa: PLC0415 - see `up`
    from berth.app.run import ledger_url_of, make_data_dir  # noqa: PLC0415 - likewise
    from berth.cli.output import print_line  # noqa: PLC0415 - tables take long to load

    # Unlike a database server, a new SQLite ledger needs its folder to be created.
    make_data_dir(settings.ledger)
    asyncio.run(migrate_ledger(ledger_url_of(settings.ledger)))
    if as_json:
        _print_schema(settings)
    else:
        print_line("the ledger is up to date")


@ledger.command("show")
@_options(_LEDGER, _CONFIG, _JSON)
def show(*, config: Path | None, as_json: bool, **options: object) -> None:
    """Show the ledger's schema and the processes that can use it."""
    settings = _settings(config, options)
    if as_json:
        _print_schema(settings)
        return
    from berth.adapters.ledger import SCHEMA, schema_of  # noqa: PLC0415 - see `up`
    from berth.app.run import ledger_url_of  # noqa: PLC0415 - likewise
    from berth.cli.output import print_line  # noqa: PLC0415 - tables take long to load

    found = asyncio.run(schema_of(ledger_url_of(settings.ledger)))
    if found is None:
        print_line("the ledger has no tables; create them with `berth ledger migrate`")
    else:
        print_line(f"schema {found.revision}, for processes of {found.readable_by} or newer")
    print_line(f"this Berth has schema {SCHEMA}")


def _print_schema(settings: Settings) -> None:
    """Print the schema of the ledger as JSON; its `ledger` is null if there are no tables."""
    from berth.adapters.ledger import SCHEMA, schema_of  # noqa: PLC0415 - see `up`
    from berth.app.run import ledger_url_of  # noqa: PLC0415 - likewise
    from berth.cli.output import print_json  # noqa: PLC0415 - tables take long to load

    found = asyncio.run(schema_of(ledger_url_of(settings.ledger)))
    ledger = None if found is None else {"schema": found.revision, "readable_by": found.readable_by}
    print_json({"ledger": ledger, "program": {"schema": SCHEMA}})


@berth_group("db")
def db() -> None:
    """Upgrade the ledger; an alias of `berth ledger` for users of OpenStack's `db` commands."""


db.add_command(migrate, "upgrade")
db.add_command(show, "show")
