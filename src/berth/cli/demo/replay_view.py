"""Progress bar and summary of a replay on the terminal."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from berth.lab import workload_replay
from berth.lab.report import ReplayReport

_REFUSALS_SHOWN = 3
_PICTURE_WIDTH = 110
_FONT_FACE = re.compile(r"@font-face \{[^}]*\}")


@contextmanager
def progress_bar(
    console: Console, total: int, *, doing: str = "replaying", of: str = "requests"
) -> Generator[workload_replay.Progress]:
    """Show a progress bar while the body runs; yield the callback that updates it.

    Args:
        console: output console; if it is not a terminal, about ten lines are printed instead.
        total: expected number of items.
        doing: label of the bar.
        of: plural noun for the items.
    """
    # Without a terminal plain lines are printed, since the escape sequences of a bar would fill a
    # log file.
    if not console.is_terminal:
        yield _lines(console, total, of)
        return
    columns = (
        TextColumn(doing),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("placed {task.fields[placed]} refused {task.fields[refused]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(doing, total=total, placed=0, refused=0)

        def show(done: int, placed: int, refused: int) -> None:
            bar.update(task, completed=done, placed=placed, refused=refused)

        yield show


def _lines(console: Console, total: int, of: str) -> workload_replay.Progress:
    step = max(total // 10, 1)
    steps_shown = 0

    def show(done: int, placed: int, refused: int) -> None:
        nonlocal steps_shown
        if done // step > steps_shown or done == total:
            steps_shown = done // step
            console.print(f"{done:,} of {total:,} {of}: {placed:,} placed, {refused:,} refused")

    return show


def save_picture(report: ReplayReport, file: Path) -> None:
    """Write the summary as a self-contained SVG picture."""
    console = Console(record=True, width=_PICTURE_WIDTH, file=StringIO(), highlight=False)
    show_report(console, report)
    svg = console.export_svg(title="make demo")
    # The picture must not fetch anything from the network, but rich's template loads a web font.
    file.write_text(_FONT_FACE.sub("", svg).replace("Fira Code", "ui-monospace"), "utf-8")


def show_report(console: Console, report: ReplayReport) -> None:
    """Print the summary of a replay."""
    console.print(Panel.fit(_numbers(report), title=f"[bold]{report.workload}"))
    console.print(_utilisation(report))
    if report.refusals:
        _show_refusals(console, report)
    for note in report.notes:
        console.print(f"[dim]Note: {note}")
    for fault in report.faults:
        console.print(f"[bold red]BROKEN: {fault}")


def _numbers(report: ReplayReport) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(justify="right")
    rows = [
        ("requests placed", f"{report.requests_placed:,} of {report.requests:,}"),
        ("instances placed", f"{report.instances_placed:,}"),
        ("requests refused", f"{len(report.refusals):,}"),
        ("refusals proven right", f"{report.refusals_proven:,} of {len(report.refusals):,}"),
        ("hosts in use", f"{report.hosts_in_use:,} of {report.hosts:,}"),
        ("decision p50 / p99", _milliseconds(report.decision.p50_ms, report.decision.p99_ms)),
        ("request p50 / p99", _milliseconds(report.request.p50_ms, report.request.p99_ms)),
        ("placements per second", f"{report.placements_per_s:,.0f}"),
        ("time taken", f"{report.took_s:,.1f} s"),
        ("rules broken", f"{len(report.faults):,}"),
    ]
    for name, value in rows:
        table.add_row(name, value)
    return table


def _milliseconds(p50_ms: float, p99_ms: float) -> str:
    return f"{p50_ms:,.2f} / {p99_ms:,.2f} ms"


def _utilisation(report: ReplayReport) -> Table:
    table = Table(title="Utilisation at the end", title_justify="left")
    table.add_column("resource")
    for name in ("used", "capacity", "share"):
        table.add_column(name, justify="right")
    for name, one in report.utilisation.items():
        if one.used:
            table.add_row(name, f"{one.used:,}", f"{one.capacity:,}", f"{one.share:.1%}")
    return table


def _show_refusals(console: Console, report: ReplayReport) -> None:
    table = Table(title="Refused, by rule", title_justify="left")
    table.add_column("rule")
    table.add_column("requests", justify="right")
    reasons = sorted(report.refused_by_reason.items(), key=lambda item: (-item[1], item[0]))
    for reason, count in reasons:
        table.add_row(reason, f"{count:,}")
    console.print(table)
    console.print("Examples, with what would have fitted (for details: berth explain REQUEST-ID):")
    for reason, _ in reasons:
        same = [one for one in report.refusals if one.reason == reason]
        for one in same[:_REFUSALS_SHOWN]:
            # Hints contain names from the workload, which may look like markup.
            console.print(f"  [dim]{one.request_id}[/] {escape(one.hint)}", soft_wrap=True)
