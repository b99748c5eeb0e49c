"""The command line of the benchmark, and its format of durations."""

from pathlib import Path

import pytest

from bench.command import PARTS, parse_arguments
from bench.floors import load_floors
from bench.report import duration


def test_everything_is_measured_unless_told_otherwise() -> None:
    """Without options, all parts are measured, with peer and floors."""
    options = parse_arguments([])
    assert options.parts == tuple(PARTS)
    assert options.floors
    assert options.peer
    assert options.json is None


def test_packing_is_a_part_of_its_own() -> None:
    """Packing can be measured alone, and its three floors compare the default policy."""
    options = parse_arguments(["--only", "packing", "--quick"])
    assert options.parts == ("packing",)
    assert options.cases.packing.openb_seeds_thorough == 2
    about = [floor.measure for floor in load_floors() if floor.measure.startswith("packing.")]
    assert all(measure.startswith("packing.default.") for measure in about)
    assert len(about) == 3


def test_options_narrow_what_is_measured() -> None:
    """Options select the parts, the fleet sizes and the output file."""
    options = parse_arguments(
        ["--quick", "--only", "http,library", "--hosts", "10", "20", "--json", "out.json"]
    )
    assert options.parts == ("http", "library")
    assert options.cases.decisions.hosts == (10, 20)
    assert options.json == Path("out.json")


@pytest.mark.parametrize("arguments", [["--only", "cli"], ["--hosts", "0"]])
def test_nonsense_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown part or an invalid size ends the command with an error that names it."""
    with pytest.raises(SystemExit):
        parse_arguments(arguments)
    assert arguments[1] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0.2, "0.20 µs"),
        (12.34, "12.3 µs"),
        (999.4, "999 µs"),
        (999.6, "1.00 ms"),
        (85_000_000.0, "85.0 s"),
    ],
)
def test_durations_have_three_digits(us: float, text: str) -> None:
    """A duration has three significant digits and a fitting unit."""
    assert duration(us) == text
