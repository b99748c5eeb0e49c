"""The demo of zones: places instances through the root of a tree of zones on this machine."""

import signal
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console

from berth.cli.demo.replay_view import progress_bar
from berth.cli.demo.zone_demo_view import show_access, show_report
from berth.cli.output import print_json
from berth.domain.errors import BerthError
from berth.lab.zone_demo_plan import FLAVORS, demo_requests, oversized_request, zone_fleets
from berth.lab.zone_report import DemoRun, ZoneReport, report_on
from berth.lab.zone_tenant import RequestOutcome, TreeTenant
from berth.lab.zone_tree import ZoneTree, made_tree, tree_of

_SETTINGS = {
    # Without overcommitment a reader can add up the numbers of the report.
    "agent.initial_cpu_allocation_ratio": 1.0,
    "log.level": "warning",
}


@dataclass(frozen=True, slots=True)
class ZoneDemoOptions:
    """Options of the demo of zones.

    `shape` is the shape of the tree as `tree_of` takes it, `hosts` the number of hosts per zone,
    `instances` the number of instances to place, and `policy` the ready policy of all zones.
    `keep` leaves the zones running until Ctrl-C.
    """

    shape: Sequence[int] = (3, 2)
    hosts: int = 12
    instances: int = 1000
    seed: int = 1
    policy: str = "spread"
    keep: bool = False
    as_json: bool = False


def run_zone_demo(options: ZoneDemoOptions) -> ZoneReport:
    """Start a tree of zones, place instances through its root, and print and return a report.

    The tree is stopped afterwards or, with `keep`, when Ctrl-C ends the command.

    Raises:
        UnavailableError: a zone did not start, or ended during the demo.
    """
    console = Console(stderr=options.as_json, highlight=False)
    settings = {**_SETTINGS, "policy.path": options.policy}
    spec = tree_of(options.shape, zone_fleets(options.hosts, options.seed), settings)
    with _signals_as_interrupts(), made_tree(spec) as tree:
        try:
            started_s = _start(tree, console)
            report = _place(tree, options, console, started_s)
        except BerthError:
            _show_logs(tree, console)  # the logs are deleted with the zones
            raise
        if options.as_json:
            print_json(report)
        else:
            show_report(report)
        if options.keep:
            show_access(console, tree)
            # Ctrl-C and the other signals end the wait; leaving the block stops the zones.
            threading.Event().wait()
    return report


@contextmanager
def _signals_as_interrupts() -> Generator[None]:
    """Turn SIGTERM and SIGHUP into KeyboardInterrupt, so that cleanup stops every zone.

    By default these signals end the process immediately and leave the zones running.
    """
    names = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(name, signal.default_int_handler) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)


def _start(tree: ZoneTree, console: Console) -> float:
    """Start all zones, and return the time taken in seconds."""
    began_s = time.monotonic()
    console.print(f"Starting {len(tree)} zones, each a process with its own ledger and hosts:")
    tree.start(tell=lambda name: console.print(f"  {name} at {tree[name].url}"))
    tree.adopt()
    tree.wait_until_active()
    took_s = time.monotonic() - began_s
    console.print(f"All zones are active after {took_s:.1f} s.")
    return took_s


def _show_logs(tree: ZoneTree, console: Console) -> None:
    for zone in tree:
        lines = [line for line in zone.log_end.splitlines() if "listens on" not in line]
        if lines:
            console.print(f"Log of {zone.name}:")
            console.print("\n".join(lines), markup=False, soft_wrap=True)


def _place(
    tree: ZoneTree, options: ZoneDemoOptions, console: Console, started_s: float
) -> ZoneReport:
    root, fleet = tree.root, [host for zone in tree for host in zone.spec.hosts]
    with root.client(root.tenant) as user, root.client() as operator:
        tenant = TreeTenant(user, operator)
        tenant.make_flavors(FLAVORS)
        outcomes, placed_s = _place_all(tenant, options, console)
        console.print("Collecting the placements.")
        refused = tenant.refused(oversized_request(fleet))
        return report_on(tenant, tree, DemoRun(outcomes, refused, started_s, placed_s))


def _place_all(
    tenant: TreeTenant, options: ZoneDemoOptions, console: Console
) -> tuple[list[RequestOutcome], float]:
    began_s = time.monotonic()
    with progress_bar(console, options.instances, doing="placing", of="instances") as progress:
        outcomes = tenant.place_all(demo_requests(options.instances, options.seed), progress)
    return outcomes, time.monotonic() - began_s
