"""The command line and the report."""

from pathlib import Path

import pytest

from bench.command import PARTS, parse_arguments
from bench.floors import load_floors
from bench.report import duration


def test_everything_is_measured_unless_told_otherwise() -> None:
    """No options: all parts, all sizes, with peer and floors."""
    options = parse_arguments([])
    assert options.parts == tuple(PARTS)
    assert options.floors
    assert options.peer
    assert options.json is None


def test_packing_is_a_part_of_its_own() -> None:
    """With its floors, which compare the default policy with others."""
    options = parse_arguments(["--only", "packing", "--quick"])
    assert options.parts == ("packing",)
    assert options.cases.packing.openb_seeds_thorough == 2
    about = [floor.measure for floor in load_floors() if floor.measure.startswith("packing.")]
    assert all(measure.startswith("packing.default.") for measure in about)
    assert len(about) == 3


def test_options_narrow_what_is_measured() -> None:
    """Parts and sizes can be chosen."""
    options = parse_arguments(
        ["--quick", "--only", "http,library", "--hosts", "10", "20", "--json", "out.json"]
    )
    assert options.parts == ("http", "library")
    assert options.cases.decisions.hosts == (10, 20)
    assert options.json == Path("out.json")


@pytest.mark.parametrize("arguments", [["--only", "cli"], ["--hosts", "0"]])
def test_nonsense_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The message names what was wrong."""
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
    """A reader compares figures at a glance."""
    assert duration(us) == text
