"""The reports of `berth import`, as tables and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from berth.cli.output import print_line, print_table

if TYPE_CHECKING:
    from berth.ports.nova import ImportFinding
    from berth.services.importing.import_plan import ImportPlan, PlannedChange
    from berth.services.importing.importer import ImportResult
    from berth.services.importing.verification import HostTotal, VerifiedDifference

# More rows would hide the rest of a report; --json has all of them.
_ROWS_MAX: Final = 50
_EXAMPLES_MAX: Final = 3


def plan_document(plan: "ImportPlan") -> dict[str, Any]:
    """Return a plan as JSON: counts, changes and findings."""
    return {
        "source": plan.cloud.source,
        "counts": [asdict(one) for one in plan.counts],
        "changes": [_change_document(one) for one in plan.changes],
        "findings": [asdict(one) for one in plan.findings],
    }


def _change_document(change: "PlannedChange") -> dict[str, Any]:
    return {
        "kind": change.kind,
        "key": change.key,
        "name": change.name,
        "verb": change.verb,
        "differences": [asdict(one) for one in change.differences],
    }


def result_document(result: "ImportResult | None") -> dict[str, Any]:
    """Return what an import has written as JSON; empty after a dry run."""
    if result is None:
        return {}
    return {
        "written": len(result.written),
        "kept": [_change_document(one) for one in result.kept],
        "overcommitted": list(result.overcommitted),
        "refused": [
            _change_document(one.change) | {"reason": one.reason} for one in result.refused
        ],
    }


def print_plan(plan: "ImportPlan") -> None:
    """Print what an import would do."""
    print_line(f"Nova as read through {plan.cloud.source}; nothing is written")
    _print_counts(plan)
    updates = [one for one in plan.changes if one.verb == "update"]
    rows = [
        (one.kind, one.name, found.field, found.berth, found.nova)
        for one in updates
        for found in one.differences
    ]
    columns = ("kind", "name", "field", "now", "will be")
    _print_rows(columns, rows, title="Updates")
    print_findings(plan.findings)


def print_result(plan: "ImportPlan", result: "ImportResult") -> None:
    """Print what an import has written."""
    _print_counts(plan)
    print_findings(plan.findings)
    if result.overcommitted:
        count = len(result.overcommitted)
        print_line(f"\n{count:,} consumers exceed the capacity of their providers, as in Nova")
    if result.kept:
        count = len(result.kept)
        print_line(f"\n{count:,} records are gone in Nova; --prune removes them")
    refused = [(one.change.kind, one.change.name, one.reason) for one in result.refused]
    _print_rows(("kind", "name", "reason"), refused, title="Not written; import again")
    print_line(f"\n{len(result.written):,} records written")


def print_differences(
    plan: "ImportPlan",
    found: "Sequence[VerifiedDifference]",
    totals: "Sequence[HostTotal]",
) -> None:
    """Print the result of a verification."""
    _print_counts(plan)
    rows = [(one.kind, one.name, one.field, one.nova, one.berth) for one in found]
    _print_rows(("kind", "name", "field", "nova", "berth"), rows, title="Differences")
    hosts = len({one.host for one in totals})
    print_line(f"\n{len(totals):,} amounts of {hosts:,} hosts compared")
    print_line(f"{len(found):,} differences" if found else "no differences")


def print_findings(findings: "Iterable[ImportFinding]") -> None:
    """Print findings, those with the same reason together."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for one in findings:
        grouped.setdefault((str(one.kind), one.reason, one.advice), []).append(one.key)
    for (kind, reason, advice), keys in grouped.items():
        more = len(keys) - _EXAMPLES_MAX
        which = ", ".join(keys[:_EXAMPLES_MAX]) + (f" and {more:,} more" if more > 0 else "")
        print_line(f"\n{kind} {which}: {reason}", style="bold")
        print_line(f"  to do: {advice}")


def _print_counts(plan: "ImportPlan") -> None:
    rows = [
        (one.kind, one.in_nova, one.same, one.create, one.update, one.remove) for one in plan.counts
    ]
    columns = ("kind", "in nova", "same", "create", "update", "remove")
    print_table(columns, rows, right=columns[1:])


def _print_rows(columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str) -> None:
    if not rows:
        return
    print_table(columns, rows[:_ROWS_MAX], title=title, wrap=columns[-2:])
    if len(rows) > _ROWS_MAX:
        print_line(f"and {len(rows) - _ROWS_MAX:,} more; --json lists them")
