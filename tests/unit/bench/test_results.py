"""The figures of one run, and the tables that show them."""

from dataclasses import replace

import pytest

from bench.cases import load_cases
from bench.decisions import BatchTimes, BesidePeer, DecisionTimes
from bench.floors import judge, load_floors
from bench.grouped import GroupedTimes
from bench.memory import MemoryUse
from bench.packing import PackingResult
from bench.pinned import PinnedPeer, PinnedTimes, PinnedTurn
from bench.placement.measuring import OneProvider, SideTimes, SizeTimes, TrialTimes
from bench.plain_fleet import BEST_FIT
from bench.report import show
from bench.results import Machine, Results, measures_of
from bench.schedulers import SchedulerTimes
from bench.shared_library import SharedTimes
from bench.timing import Times
from bench.turns import Ratio
from bench.workload import WarmTimes


def _times(cpu_us: float) -> Times:
    return Times(cpu_us, cpu_us, cpu_us, cpu_us, samples=1)


_BESIDE = BesidePeer(_times(1_000_000), _times(50), Ratio(6_000.0, 5_900.0, 6_200.0))


def _decisions(hosts: int, warm_us: float) -> DecisionTimes:
    return DecisionTimes(
        hosts=hosts,
        fresh=_times(9_000),
        cold=_times(4_000),
        second=_times(5_000),
        warm=WarmTimes(_times(warm_us), warm_us, warm_us, _times(30)),
        batches=(BatchTimes(100, _times(20_000)), BatchTimes(1_000, _times(90_000))),
        argmax=_times(2),
        load=_times(1),
    )


def _pinned() -> PinnedTimes:
    names = PinnedTurn._fields
    times = dict(zip(names, map(_times, (2_000, 50, 4_000, 500)), strict=True))
    ratios = {name: Ratio(500.0, 490.0, 515.0) for name in names}
    return PinnedTimes(1_000, 834, times, PinnedPeer(833, _times(1_000_000), ratios))


@pytest.fixture
def results() -> Results:
    """Return the results of a run in which most in-memory parts were measured."""
    return Results(
        taken_at="now",
        machine=Machine("processor", 2, 1.0, "3.11", "2", "3", "0", "commit"),
        cases=load_cases(quick=True),
        decisions=[
            replace(_decisions(10_000, 60.0), beside=_BESIDE),
            _decisions(100_000, 150.0),
        ],
        grouped=GroupedTimes(10_000, _times(60), _times(90), _times(60), _times(120)),
        pinned=_pinned(),
        memory=MemoryUse(25_000, ("VCPU",), 400.0, 450.0, 200.0, 11.0, 1000, 90.0),
    )


def test_ratios_are_within_the_run(results: Results) -> None:
    """Ratios compare with the smaller fleet, the yardstick, the plain case and Nova."""
    measures = measures_of(results)
    assert measures["decisions.100000.warm_vs_10000"] == 2.5
    assert measures["decisions.10000.warm_vs_argmax"] == 30.0
    assert measures["decisions.100000.cold_cpu_ms"] == 4.0
    assert measures["decisions.100000.batch_1000_cpu_ms"] == 90.0
    assert measures["grouped.both_vs_plain"] == 2.0
    assert measures["pinned.keep_cold_cpu_us"] == 2_000.0
    assert measures["pinned.keep_cold_vs_nova"] == 500.0
    assert measures["memory.class_bytes_a_host"] == 11.0


def test_ratios_to_nova_are_those_of_the_turns(results: Results) -> None:
    """The ratio to Nova is the median of the turns, with its quartiles."""
    measures = measures_of(results)
    assert measures["decisions.10000.warm_vs_nova"] == 6_000.0
    assert measures["decisions.10000.warm_vs_nova_low"] == 5_900.0
    assert measures["pinned.warm_vs_nova_high"] == 515.0
    assert "decisions.100000.warm_vs_nova" not in measures


def test_each_floor_is_about_something_that_can_be_measured(results: Results) -> None:
    """Each floor of these parts names an existing measure, so a misspelt one is found."""
    parts = ("grouped.", "pinned.", "memory.", "decisions.100000.")
    floors = [floor for floor in load_floors() if floor.measure.startswith(parts)]
    assert len(floors) >= 7
    assert {floor.measure for floor in floors} <= measures_of(results).keys()


def test_the_report_shows_all_of_it(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    """Each part has a table or a line, and missed floors are shown."""
    results.measures = measures_of(results)
    results.floors = judge(load_floors(), results.measures)
    show(results)
    shown = capsys.readouterr().out
    texts = ("warm ÷ argmax", "1,000", "soft anti-affinity", "834", "11.0 bytes", "not met")
    for text in (*texts, "6,000 × (5,900–6,200)", "500 × (490–515)", "Nova 833"):
        assert text in shown


def test_the_report_shows_how_policies_pack(
    results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table has the figures of each policy, with a dash for those not measured."""
    results.packing = [
        PackingResult(BEST_FIT, 10, 92.1, 92.3, 7_648.0, 28.7, 650.0, 221.0, 657.0, 41.5, 13.0),
        PackingResult("nova", 0, None, None, None, None, None, 528.0, 272.0, 55.3, 12.5),
        PackingResult("default", 10, 95.9, 96.0, 7_970.0, 47.6, 622.0, 210.0, 1_319.0, 55.3, 13.1),
    ]
    results.measures = measures_of(results)
    results.floors = judge(load_floors(), results.measures)
    verdicts = {one.floor.measure: one.met for one in results.floors}
    assert all(met for measure, met in verdicts.items() if measure.startswith("packing."))
    show(results)
    lines = {line.split("│")[1].strip(): line for line in _rows(capsys.readouterr().out)}
    figures = "95.9 %, 96.0 %, 7,970, 47.6 %, 622, 210, 1,319, 55.3 %, 13.1 %"
    for figure in figures.split(", "):
        assert figure in lines["default"]
    assert lines["nova"].count("–") == 5


def test_the_report_shows_the_placement_api_beside_the_real_one(
    results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each case has a row, with a dash where the real Placement was not measured."""
    berth = SideTimes(500, 640.0, 1.5, 2.5, 1.25, 0.2, 0)
    real = SideTimes(5, 4.0, 240.0, 260.0, 250.0, 0.8, 3)
    ratio = Ratio(200.0, 190.0, 210.0)
    results.placement = [
        TrialTimes("candidates_5000", "5,000 hosts", 1, 90.0, berth, real, ratio, ratio),
        TrialTimes("wide_8", "1 wide host", 1, 90.0, berth),
    ]
    results.placement_sizes = SizeTimes((OneProvider(100, 500.0, 1.0),), 100, 1_000, 90.0)
    results.measures = measures_of(results)
    assert results.measures["placement.candidates_5000.vs_real"] == 200.0
    show(results)
    shown = capsys.readouterr().out
    lines = {line.split("│")[1].strip(): line for line in _rows(shown)}
    for text in ("1.50 / 2.50 (1.25)", "240 / 260 (250)", "200 ×", "0 / 3"):
        assert text in lines["candidates_5000"]
    assert lines["wide_8"].count("–") == 4
    assert "500 µs of 100" in shown
    assert "90 MiB" in shown


def _rows(shown: str) -> list[str]:
    """Return the lines of tables."""
    return [line for line in shown.splitlines() if line.count("│") > 2]


def test_floors_apply_to_every_number_of_processes(results: Results) -> None:
    """The measures of several processes on one ledger have the names that the floors use."""
    cases = load_cases(quick=False)
    results.shared_library = [
        SharedTimes("postgresql", hosts, processes, 3_000.0, 300.0, 0.9, 0.97, 5)
        for hosts in cases.shared_library.hosts
        for processes in cases.shared_library.processes
    ]
    results.schedulers = [
        SchedulerTimes(
            contention, hosts, count, 64, 100, 0, 0, 2_000.0, 300.0, 61.0, 0.0, 1_800.0, 1.1, 0.9
        )
        for contention, hosts in (*(("low", one) for one in cases.schedulers.hosts), ("hot", 200))
        for count in cases.schedulers.schedulers
    ]
    verdicts = {
        verdict.floor.measure: verdict.met
        for verdict in judge(load_floors(), measures_of(results))
        if verdict.floor.measure.startswith(("shared_library.", "schedulers."))
    }
    assert cases.schedulers.hot_hosts == 200
    assert verdicts["shared_library.postgresql.10000.1.vs_sqlite"]
    assert verdicts["shared_library.postgresql.1000.4.vs_one"]
    assert verdicts["schedulers.low.1000.1.vs_echo"]
    assert verdicts["schedulers.low.10000.2.vs_one"] is False
    assert verdicts["schedulers.hot.200.4.conflicts_per_1000"] is False
    assert None not in verdicts.values()
    show(results)
