"""`berth capacity`: the number of further instances of a flavor that would fit now."""

import click

from berth.cli.command import berth_command
from berth.cli.commands.flavors import find_flavor
from berth.cli.connection import ApiConnection, Json, connected, rows
from berth.cli.output import json_option, print_json, print_line, print_table


@berth_command("capacity")
@click.option("--flavor", required=True, help="Id or name of the flavor.")
@click.option("--az", help="Count only in this availability zone.")
@click.option(
    "--hosts",
    "hosts_max",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="Maximum number of hosts to show.",
)
@json_option
@connected
def capacity(
    api: ApiConnection, *, flavor: str, az: str | None, hosts_max: int, as_json: bool
) -> None:
    """Count how many more instances of a flavor would fit, by child zone and host."""
    found = find_flavor(api, flavor)
    # At least one host is requested; with --hosts 0, its row is not printed.
    limit = None if as_json else max(hosts_max, 1)
    answer = api.berth.capacity.document(found["id"], availability_zone=az, limit=limit)
    if as_json:
        print_json(answer)
        return
    # Responses to non-administrators do not contain the number of hosts.
    hosts_total = answer.get("hosts_total")
    least = "At least " if answer.get("is_partial") else ""
    where = _where(answer)
    total = answer["total"]
    fit = "more instance of {} fits" if total == 1 else "more instances of {} fit"
    print_line(f"{least}{total:,} {fit.format(found['name'])}{where}")
    # The service sorts hosts by count, so the first rows are the best ones.
    best = [(one["host"], one["count"]) for one in rows(answer, "hosts")[:hosts_max]]
    zones = [(one["zone"], _count_in(one)) for one in rows(answer, "zones")]
    if zones:
        print_table(("Child zone", "Fit"), zones, right=("Fit",))
    if best:
        print_table(("Host", "Fit"), best, right=("Fit",))
        if hosts_total is not None and hosts_total > len(best):
            print_line(f"and {hosts_total - len(best):,} more hosts")


def _where(answer: Json) -> str:
    """Return the end of the summary, which counts the hosts; empty for non-administrators."""
    hosts_total = answer.get("hosts_total")
    if hosts_total is None:
        return ""
    zones = rows(answer, "zones")
    hosts = f"{hosts_total:,} {'host' if hosts_total == 1 else 'hosts'}"
    if not zones:
        return f" on {hosts}"
    # The response may list only some hosts, so the number for this zone is the total minus the
    # numbers of the children.
    here = answer["total"] - sum(one["count"] or 0 for one in zones)
    return f", {here:,} of them on {hosts} of this zone"


def _count_in(zone: Json) -> str:
    """Return the number of instances that fit in a child zone, as text."""
    if zone["count"] is None:
        return "no answer"
    return f"{'at least ' if zone['is_partial'] else ''}{zone['count']:,}"
