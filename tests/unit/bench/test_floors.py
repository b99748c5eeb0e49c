"""Floors: limits that a run of the benchmark must meet."""

from dataclasses import replace

import pytest

from bench.floors import Floor, all_hold, judge, load_floors

FLOOR = Floor("placements", "library.placements_per_s", "placements/s", at_least=1_000.0)
CEILING = Floor("warm", "decisions.10.warm_cpu_us", "µs", at_most=60.0)


@pytest.mark.parametrize(
    ("measures", "met", "hold"),
    [
        ({"library.placements_per_s": 1_000.0}, True, True),
        ({"library.placements_per_s": 999.9}, False, False),
        ({"http.creates_per_s": 1.0}, None, True),
    ],
)
def test_a_floor_is_met_missed_or_not_measured(
    measures: dict[str, float], met: bool | None, hold: bool
) -> None:
    """Only a floor that was measured and missed fails a run."""
    verdicts = judge([FLOOR], measures)
    assert [verdict.met for verdict in verdicts] == [met]
    assert all_hold(verdicts) is hold


def test_the_floors_of_the_file_have_different_measures() -> None:
    """Each floor of the file has its own measure; absolute CPU times are only targets."""
    floors = load_floors()
    assert len({floor.measure for floor in floors}) == len(floors) >= 4
    faults = (".conflicts", ".plan_short_pct")  # these limits may be 0
    limits = [one for one in floors if not one.measure.endswith(faults)]
    assert all((floor.at_least or floor.at_most or 0) > 0 for floor in limits)
    absolute = ("_cpu_us", "_cpu_ms")
    assert all(floor.target for floor in floors if floor.measure.endswith(absolute))
    assert not any(floor.target for floor in floors if "_vs_" in floor.measure)


@pytest.mark.parametrize(("measured", "met"), [(59.9, True), (60.0, True), (60.1, False)])
def test_a_ceiling_is_the_most_that_a_measure_may_be(measured: float, met: bool) -> None:
    """A measure at or below its ceiling meets it."""
    (verdict,) = judge([CEILING], {CEILING.measure: measured})
    assert verdict.met is met


def test_a_missed_target_fails_no_run() -> None:
    """A missed target is shown but does not fail the run, as it depends on the machine."""
    verdicts = judge([replace(CEILING, target=True)], {CEILING.measure: 100.0})
    assert verdicts[0].met is False
    assert all_hold(verdicts)
    assert not all_hold(judge([CEILING], {CEILING.measure: 100.0}))


@pytest.mark.parametrize(("at_least", "at_most"), [(None, None), (1.0, 2.0)])
def test_a_floor_has_one_limit(at_least: float | None, at_most: float | None) -> None:
    """A floor with no limit or with two limits is refused."""
    with pytest.raises(ValueError, match="warm: give at_least or at_most"):
        Floor("warm", "decisions.10.warm_cpu_us", "µs", at_least=at_least, at_most=at_most)
