"""Report of the demo of zones on the terminal: placements, their reasons, and the checks."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from berth.cli.decision_output import print_decision, print_scores
from berth.cli.output import print_line, print_table
from berth.lab.zone_report import ExplainedRequest, ListedReservation, ZoneReport, ZoneShare
from berth.lab.zone_tenant import RequestOutcome, TenantRefusal
from berth.lab.zone_tree import ZoneTree

_SERVERS_SHOWN = 5
_REQUESTS_SHOWN = 8


def show_report(report: ZoneReport) -> None:
    """Print the report of the demo."""
    _show_zones(report)
    _show_requests(report.requests)
    if report.explained is not None:
        _show_explained(report.explained)
    if report.refused is not None:
        _show_refused(report.refused)
    if report.listed is not None:
        _show_listed(report.listed)
    _show_checks(report)


def show_access(console: Console, tree: ZoneTree) -> None:
    """Print how to access zones that keep running."""
    # The accounts exist only in this demo and end with it, so their passwords may be shown.
    console.print("\nThe zones are still running. In another terminal:", soft_wrap=True)
    for zone in tree:
        admin = zone.admin
        words = f"BERTH_URL={zone.url} BERTH_USER={admin.user} BERTH_PASSWORD={admin.password}"
        console.print(f"  {words} berth server list  # {zone.name}", markup=False, soft_wrap=True)
    console.print("Press Ctrl-C to stop all of them.")


def _show_zones(report: ZoneReport) -> None:
    columns = ("Zone", "Hosts", "VCPUs used", "of", "Instances", "Weights")
    rows: list[Sequence[object]] = [
        (
            f"{'  ' * zone.level}{zone.name}",
            zone.hosts,
            f"{zone.vcpus_used:,}",
            f"{zone.vcpus:,}",
            f"{zone.instances:,}",
            _weights(zone),
        )
        for zone in report.zones
    ]
    title = f"{report.instances:,} instances are in {len(report.zones)} zones"
    print_table(columns, rows, title=title, right=columns[1:])
    counts = [f"level {level}: {count:,}" for level, count in enumerate(report.instances_by_level)]
    print_line(f"By level, root first: {', '.join(counts)}.")
    print_line(
        "Weights: scores of the first and the last chosen host. All zones use one scale, so the "
        "next instance goes to the best host of the whole tree, whichever zone it is in."
    )


def _weights(zone: ZoneShare) -> str | None:
    if zone.weight_most is None or zone.weight_least is None:
        return None
    return f"{zone.weight_most:.3f} to {zone.weight_least:.3f}"


def _show_requests(requests: Sequence[RequestOutcome]) -> None:
    largest = sorted(requests, key=lambda one: -one.count)[:_REQUESTS_SHOWN]
    columns = ("Reservation", "Requested", "Flavor", "Seconds", "Zones")
    rows = [
        (one.reservation_id, one.count, one.flavor, f"{one.took_s:.2f}", _places(one))
        for one in largest
    ]
    title = f"The largest of {len(requests)} requests, each all or nothing"
    print_table(columns, rows, title=title, right=("Requested", "Seconds"), wrap=("Zones",))


def _places(outcome: RequestOutcome) -> str:
    if not outcome.is_placed:
        return "refused"
    return ", ".join(f"{zone} {count}" for zone, count in outcome.zones.items())


def _show_explained(explained: ExplainedRequest) -> None:
    request = explained.request
    print_line(f"\nThe placement of {request.count} × {request.flavor}", style="bold")
    print_decision(explained.decision)
    rows = [
        (part.zone, part.instances, f"{part.first.score:.4f}", f"{part.last.score:.4f}")
        for part in explained.parts
    ]
    columns = ("Zone", "Instances", "First weight", "Last weight")
    print_table(columns, rows, title="Offers accepted from each zone", right=columns[1:])
    print_line(
        "Offers of all zones are accepted by weight, highest first, until every instance has one."
    )
    hosts = [part.first for part in explained.parts]
    print_scores(hosts, title="First choice of each zone, from its own record")


def _show_refused(refused: TenantRefusal) -> None:
    request = refused.request
    print_line(f"\nRefused: {request.count} × {request.flavor}", style="bold")
    print_line(refused.reason)


def _show_listed(listed: ListedReservation) -> None:
    print_line(f"\nGET /servers?reservation_id={listed.reservation_id} at the root", style="bold")
    rows = [(one.uuid, one.name, one.status, one.zone) for one in listed.servers[:_SERVERS_SHOWN]]
    print_table(("ID", "Name", "Status", "Zone"), rows)
    zones = Counter(one.zone for one in listed.servers)
    print_line(
        f"{len(listed.servers)} servers in {len(zones)} zones, listed in "
        f"{listed.took_s * 1000:,.0f} ms; only the demo, not the tenant, knows their zones."
    )


def _show_checks(report: ZoneReport) -> None:
    placed = sum(one.count for one in report.requests if one.is_placed)
    print_line(
        f"\n{placed:,} instances in {report.placed_s:.1f} s, "
        f"{placed / report.placed_s:,.0f} per second",
        style="bold",
    )
    for fault in report.faults:
        print_line(f"BROKEN: {fault}", style="bold red")
    if not report.faults:
        print_line(
            "Checked: each instance is in exactly one zone and runs, the root lists exactly these "
            "instances, and the audit of each zone finds no discrepancies."
        )
