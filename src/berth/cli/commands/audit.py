"""`berth audit`: find discrepancies in the ledger and repair those that are safe to repair."""

from datetime import UTC, datetime
from typing import Any

import click

from berth.cli.command import berth_command
from berth.cli.connection import ApiConnection, Json, connected, part, rows
from berth.cli.failures import end_with
from berth.cli.output import joined, json_option, print_json, print_line

# Exit codes of this command only. They are those of `nova-manage placement audit`, so that
# scripts written for it keep working.
_FOUND = 3
_MENDED = 4

_AGE = click.FloatRange(0)


@berth_command("audit")
@click.option(
    "--fix", is_flag=True, help="Repair what is safe to repair; without it nothing changes."
)
@click.option("--host", metavar="HOST", help="Audit only this host.")
@click.option(
    "--grace", type=_AGE, metavar="S", help="Ignore changes younger than S seconds; default 60."
)
@click.option(
    "--task-age", type=_AGE, metavar="S", help="Ignore tasks younger than S seconds; default 900."
)
@click.option(
    "--request-age",
    type=_AGE,
    metavar="S",
    help="Ignore pending requests younger than S seconds; default 300.",
)
@json_option
@connected
def audit(
    api: ApiConnection,
    *,
    fix: bool,
    host: str | None,
    grace: float | None,
    task_age: float | None,
    request_age: float | None,
    as_json: bool,
) -> None:
    """Find and repair lost capacity, stuck moves and other discrepancies in the ledger.

    Exits with 3 when discrepancies remain, and with 4 when all that were found were repaired.
    """
    # The service uses its defaults for ages that are not given.
    audited = api.berth.audit.mend if fix else api.berth.audit.report
    report = audited.document(host=host, grace_s=grace, task_s=task_age, request_s=request_age)
    if as_json:
        print_json(report)
    else:
        _print_report(report, fix=fix)
    found = rows(report, "discrepancies")
    if found:
        end_with(_MENDED if all(map(_is_mended, found)) else _FOUND)


def _is_mended(found: Json) -> bool:
    return part(found, "outcome").get("version") is not None


def _print_report(report: Json, *, fix: bool) -> None:
    audited = part(report, "audited")
    counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in audited.items())
    print_line(f"audited {counts}, as of version {report['version']}")
    for found in rows(report, "discrepancies"):
        _print_found(found)
    if report.get("is_cut"):
        print_line("\nthere are more discrepancies; repair these first")
    others = report.get("others_total")
    if others:
        # These are not discrepancies: clients of the Placement API made them and must remove them.
        print_line(
            f"\n{others:,} consumers were created through the Placement API; --json lists them"
        )
    _print_mended(part(report, "mended_by_agents"))
    _print_sum(report, fix=fix)


def _print_mended(by_host: Json) -> None:
    """Print what agents and the gateway have repaired; the totals do not include it."""
    for host in sorted(by_host):
        print_line(f"\n{host}: recently repaired", style="bold")
        for note in rows(by_host, host):
            at = datetime.fromtimestamp(note["at_s"], UTC).isoformat(timespec="seconds")
            print_line(f"  {at} {note['code']}: {note['text']}")


def _print_found(found: Json) -> None:
    print_line(f"\n{found['code']}: {found['text']}", style="bold")
    host = found.get("host")
    lost = part(found, "lost")
    if host is not None:
        print_line(f"  host: {host}")
    if lost:
        print_line(f"  lost: {joined(lost)}")
    outcome = part(found, "outcome")
    if outcome:
        print_line(f"  fix: {outcome['text']}")
    else:
        print_line(f"  to do: {found['advice']}")


def _print_sum(report: Json, *, fix: bool) -> None:
    found = rows(report, "discrepancies")
    if not found:
        print_line("\nno discrepancies")
        return
    mended = sum(map(_is_mended, found))
    could = sum(1 for one in found if one.get("mend") is not None)
    done = f"{mended:,} repaired" if fix else f"`berth audit --fix` would try to repair {could:,}"
    lost: dict[str, Any] = part(report, "lost")
    print_line(f"\n{len(found):,} found, {done}; total lost: {joined(lost)}")
