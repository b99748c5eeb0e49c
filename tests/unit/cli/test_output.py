"""Tables: complete in a pipe, and on terminals of any width."""

import re
import sys

import pytest

from berth.cli.decision_output import print_scores
from berth.cli.output import print_table
from berth.domain.compute.decision import ScoredHost, ScorePart

WEIGHERS = ("RAMWeigher", "CPUWeigher", "DiskWeigher", "IoOpsWeigher", "BuildFailureWeigher")
HOSTS = [
    ScoredHost.of(
        f"fake-compute-{number}",
        f"fake-compute-{number}",
        2.5,
        [ScorePart(name, 1_048_576.25 + index, 0.125 * index, 1.5) for index, name in each],
    )
    for each in [list(enumerate(WEIGHERS))]
    for number in range(3)
]
CELLS = [
    f"{0.125 * index:.3f} × 1.5 ({1_048_576.25 + index:,.10g})" for index in range(len(WEIGHERS))
]


def _terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))


@pytest.mark.parametrize("columns", [None, "80", "20"])
def test_a_pipe_has_no_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str | None
) -> None:
    """In a pipe, each host has one line with its name and all values, whatever COLUMNS says."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    print_scores(HOSTS, title="Best")
    lines = capsys.readouterr().out.splitlines()
    for number in range(3):
        (line,) = [line for line in lines if f"fake-compute-{number} " in line]
        assert [cell for cell in CELLS if cell in line] == CELLS


@pytest.mark.parametrize("columns", [40, 80, 120, 400])
def test_a_terminal_loses_nothing_however_narrow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Where a row does not fit, each value has its own line, and no line is too long."""
    _terminal(monkeypatch, columns)
    print_scores(HOSTS, title="Best")
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    table, _ = out.split("Each weigher:")
    assert max(map(len, table.splitlines())) <= columns
    for text in (*(host.host for host in HOSTS), *CELLS):
        assert text in table
    assert table.count(CELLS[-1]) == len(HOSTS)
    assert (table.count("BuildFailure") == 1) is (columns == 400)


def test_texts_wrap_where_they_have_room_and_have_lines_of_their_own_where_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long text is wrapped in its column or gets its own lines, without losing words."""
    reason = "asked for 64 VCPU and 3 are free on it"
    row = ("a-host-with-a-long-name.example.org", reason)
    for columns, heading in ((60, "Host  "), (40, "Reason  ")):
        _terminal(monkeypatch, columns)
        print_table(("Host", "Reason"), [row], wrap=("Reason",))
        out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        assert heading in out
        assert row[0] in out if columns == 60 else row[0][:30] in out
        assert [word for word in reason.split() if word in out] == reason.split()
