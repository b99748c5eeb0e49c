"""Tests for the reference of metrics and the dashboards, which are generated."""

import re
from pathlib import Path

import pytest

from berth.cli.commands.monitoring_files import monitoring_files, write_monitoring_files
from berth.cli.dashboards import BOARDS, Board, grafana
from berth.ports.measures import COUNTED, GAUGES
from berth.ports.telemetry import MetricType

ROOT = Path(__file__).parents[4]
MEASURES = (*COUNTED, *GAUGES)
FILES = dict(monitoring_files())
# The kinds of series that a histogram consists of.
_SUFFIXES = ("_bucket", "_count", "_sum")


@pytest.mark.parametrize("path", [*FILES], ids=str)
def test_the_files_are_those_that_the_code_generates(path: Path) -> None:
    """Each generated file in the repository is up to date."""
    message = "python -m berth.cli.commands.monitoring_files . updates the files"
    assert (ROOT / path).read_text("utf-8") == FILES[path], message


def test_no_dashboard_is_left_over() -> None:
    """Every file with a dashboard is generated."""
    found = {path.relative_to(ROOT) for path in (ROOT / "deploy" / "grafana").iterdir()}
    assert found == {path for path in FILES if path.suffix == ".json"}


def test_files_are_written_where_they_belong(tmp_path: Path) -> None:
    """The files are written below the root that is given, with their folders."""
    write_monitoring_files(tmp_path)
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == set(FILES)


def test_every_metric_has_a_unit_and_a_row() -> None:
    """The reference has one row for each metric; all but the version have a unit."""
    (text,) = (text for path, text in FILES.items() if path.suffix == ".md")
    rows = re.findall(r"^\| `(berth_\w+)` \|", text, re.MULTILINE)
    assert rows == [measure.name for measure in MEASURES]
    assert [measure.name for measure in MEASURES if not measure.unit] == ["berth_info"]
    assert all(line.count("|") == 6 for line in text.splitlines() if line.startswith("| `berth"))


def test_every_metric_is_on_a_dashboard() -> None:
    """Each metric is shown by some panel, in the form that suits its type."""
    shown = {name for board in BOARDS for text in queries(board) for name in names(text)}
    for measure in MEASURES:
        is_histogram = measure.shape is MetricType.HISTOGRAM
        forms = {measure.name + suffix for suffix in _SUFFIXES} if is_histogram else {measure.name}
        assert forms & shown, measure.name
    known = {measure.name for measure in MEASURES}
    assert all(name in known or name.rpartition("_")[0] in known for name in shown)


def test_only_counters_and_histograms_have_rates() -> None:
    """No panel shows the rate of a gauge, or a counter without a rate."""
    gauges = {measure.name for measure in GAUGES}
    for board in BOARDS:
        for text in queries(board):
            rated = set(re.findall(r"rate\((berth_\w+)", text))
            assert not rated & gauges
            assert set(names(text)) - rated <= gauges


def test_panels_do_not_overlap() -> None:
    """Panels have distinct numbers and lie beside and below each other, within 24 columns."""
    for board in BOARDS:
        taken: set[tuple[int, int]] = set()
        panels = grafana(board)["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        for panel in panels:
            at = panel["gridPos"]
            assert at["x"] + at["w"] <= 24
            cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
            assert not taken & cells, panel["title"]
            taken |= cells


def test_a_dashboard_reads_the_chosen_source_and_jobs() -> None:
    """Each query names the variable of the data source and that of the jobs."""
    for board in BOARDS:
        built = grafana(board)
        assert [one["name"] for one in built["templating"]["list"]] == ["datasource", "job"]
        for panel in built["panels"]:
            assert panel["description"].endswith(".")
            for target in panel["targets"]:
                assert target["datasource"]["uid"] == "${datasource}"
                assert 'job=~"$job"' in target["expr"]


def queries(board: Board) -> list[str]:
    """Return the expressions of a dashboard."""
    return [query.expression for panel in board.panels for query in panel.queries]


def names(expression: str) -> list[str]:
    """Return the metrics of Berth that an expression reads."""
    return re.findall(r"\bberth_\w+", expression)
