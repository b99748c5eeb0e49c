"""`berth replay`, `berth demo` and `berth demo-zones`: workloads and demonstrations."""

import asyncio
import math
import os
import sys
from pathlib import Path

import click

from berth.cli.command import OneOf, berth_command, connection_options
from berth.cli.failures import ExitCode
from berth.cli.output import json_option

# Each zone is a process, so the limit protects the machine.
_ZONES_MAX = 40
# Ready policies whose scores are on the same scale in every zone. The root compares offers of
# different zones by their scores, so other policies would give arbitrary results.
_COMPARABLE = ("spread", "balanced", "default", "pack")

_FILE = click.Path(dir_okay=False, exists=True, path_type=Path)
_FOLDER = click.Path(file_okay=False, exists=True, path_type=Path)

_TRACE = click.option("--trace", type=_FOLDER, help="Folder with the files of the openb trace.")
_VARIANT = click.option(
    "--variant", default="default", show_default=True, help="Name of the trace's pod list."
)
_LIMIT = click.option("--limit", type=click.IntRange(1), help="Maximum number of requests.")


def _read_shape(_: click.Context, __: click.Parameter, text: str) -> tuple[int, ...]:
    """Parse a shape such as `3,2`: three children, each with two children."""
    parts = text.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise click.BadParameter(
            f"{text!r} must be whole numbers separated by commas, for example 3,2"
        )
    shape = tuple(map(int, parts))
    zones = 1 + sum(math.prod(shape[:depth]) for depth in range(1, len(shape) + 1))
    if 0 in shape or zones > _ZONES_MAX:
        raise click.BadParameter(
            f"{text!r} must give between 2 and {_ZONES_MAX} zones, because each is a process"
        )
    return shape


@berth_command("replay")
@_TRACE
@_VARIANT
@click.option("--workload", type=_FILE, help="JSON file of a workload, instead of a trace.")
@click.option("--concurrency", type=click.IntRange(1, 256), default=1, show_default=True)
@click.option("--key", default="replay", show_default=True, help="Prefix of idempotency keys.")
@_LIMIT
@json_option
@connection_options
def replay(
    *,
    trace: Path | None,
    variant: str,
    workload: Path | None,
    concurrency: int,
    key: str,
    limit: int | None,
    as_json: bool,
    **connection: str | None,
) -> None:
    """Replay a trace or a workload against a running Berth, and check every response.

    The service must have the hosts of the trace. A replay with the same key resumes an
    interrupted one: existing servers are found instead of being created again.
    """
    # Wrong usage is reported before the imports, which take a second.
    if (trace is None) == (workload is None):
        raise click.UsageError("give exactly one of --trace and --workload")
    from berth.cli.access.access import access_of  # noqa: PLC0415 - keeps `berth --help` fast
    from berth.cli.access.login import log_in  # noqa: PLC0415 - as above
    from berth.cli.demo import demo_run  # noqa: PLC0415 - as above
    from berth.lab.service_client import ServiceConnection  # noqa: PLC0415 - as above

    login = log_in(access_of(connection, os.environ))
    from berth.lab.workload_replay import ReplayOptions  # noqa: PLC0415 - as above

    options = ReplayOptions(concurrency=concurrency, key=key, limit=limit)
    what = demo_run.read_workload(trace, variant, workload)
    service = ServiceConnection(login.url, login.user, login.password, login.token, login.tls)
    report = asyncio.run(demo_run.watched_replay(what, service, options, as_json=as_json))
    demo_run.print_report(report, as_json=as_json)
    sys.exit(ExitCode.OK if report.is_clean else ExitCode.FAILED)


@berth_command("demo")
@_TRACE
@_VARIANT
@click.option("--hosts", type=click.IntRange(1), default=200, show_default=True)
@click.option("--requests", type=click.IntRange(1), default=2000, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@_LIMIT
@click.option("--picture", type=click.Path(path_type=Path), help="Save the summary as an SVG.")
@click.option("--keep", is_flag=True, help="Leave Berth running afterwards.")
@json_option
def demo(
    *,
    trace: Path | None,
    variant: str,
    hosts: int,
    requests: int,
    seed: int,
    limit: int | None,
    picture: Path | None,
    keep: bool,
    as_json: bool,
) -> None:
    """Start a separate Berth, replay a workload against it, and report the results."""
    from berth.cli.demo import demo_run  # noqa: PLC0415 - keeps `berth --help` fast
    from berth.lab.generator import GeneratorSettings  # noqa: PLC0415 - as above

    settings = GeneratorSettings(hosts=hosts, requests=requests, seed=seed)
    options = demo_run.DemoOptions(
        trace, variant, settings, limit, keep=keep, as_json=as_json, picture=picture
    )
    report = demo_run.run_demo(options)
    sys.exit(ExitCode.OK if report.is_clean else ExitCode.FAILED)


@berth_command("demo-zones")
@click.option(
    "--tree",
    "shape",
    default="3,2",
    show_default=True,
    callback=_read_shape,
    metavar="N,N",
    help="Number of children of the root, then of each child, and so on.",
)
@click.option("--hosts", type=click.IntRange(2, 1000), default=12, show_default=True)
@click.option("--instances", type=click.IntRange(1, 1000), default=1000, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option(
    "--policy",
    type=OneOf(_COMPARABLE),
    default="spread",
    show_default=True,
    help="Ready policy of all zones.",
)
@click.option("--keep", is_flag=True, help="Leave the zones running until Ctrl-C.")
@json_option
def demo_zones(
    *,
    shape: tuple[int, ...],
    hosts: int,
    instances: int,
    seed: int,
    policy: str,
    keep: bool,
    as_json: bool,
) -> None:
    """Start a tree of zones, place instances through its root, and explain the placements.

    Each zone is a process with its own ledger, keys, accounts and hosts. The command stops all
    zones and deletes their data when it ends.
    """
    from berth.cli.demo import zone_demo_run  # noqa: PLC0415 - keeps `berth --help` fast

    options = zone_demo_run.ZoneDemoOptions(
        shape, hosts, instances, seed, policy, keep=keep, as_json=as_json
    )
    report = zone_demo_run.run_zone_demo(options)
    sys.exit(ExitCode.FAILED if report.faults else ExitCode.OK)
