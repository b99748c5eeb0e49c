"""The reference of metrics and the Grafana dashboards, generated from the table of measures.

`python -m berth.cli.commands.monitoring_files .` updates the files after a change of either.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from berth.cli.dashboards import BOARDS, grafana
from berth.ports.measures import COUNTED, GAUGES
from berth.ports.telemetry import Measure

_REFERENCE: Final = Path("docs") / "reference" / "metrics.md"
_BOARDS: Final = Path("deploy") / "grafana"
_HEAD: Final = """\
# Metrics

All metrics that Berth serves to Prometheus, generated from `ports/measures.py`.
[Monitoring](../guides/monitoring.md) explains how to scrape them, and
[`deploy/grafana`](../../deploy/grafana/berth-overview.json) has dashboards of them.

| metric | kind | unit | labels | meaning |
|---|---|---|---|---|
"""


def metrics_reference() -> str:
    """Return the reference of all metrics, in Markdown."""
    return _HEAD + "".join(map(_row, (*COUNTED, *GAUGES)))


def _row(measure: Measure) -> str:
    labels = ", ".join(f"`{label}`" for label in measure.labels)
    meaning = measure.note or measure.text
    cells = (f"`{measure.name}`", str(measure.shape), measure.unit, labels, meaning)
    return f"| {' | '.join(cells)} |\n"


def monitoring_files() -> Iterator[tuple[Path, str]]:
    """Yield the path of each generated file, below the root of the repository, and its text."""
    yield _REFERENCE, metrics_reference()
    for board in BOARDS:
        text = msgspec.json.format(msgspec.json.encode(grafana(board)), indent=2).decode()
        yield _BOARDS / f"{board.uid}.json", f"{text}\n"


def write_monitoring_files(root: Path) -> None:
    """Write all generated files below the root of the repository."""
    for path, text in monitoring_files():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")


if __name__ == "__main__":
    write_monitoring_files(Path(sys.argv[1]))
