"""Packing: measures while a fleet fills, and simple rules to compare the policies with."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench import packing
from bench.cases import PackingCases
from bench.packing import (
    Metered,
    PackingResult,
    churn,
    fill,
    fill_openb,
    least,
    measure_packing,
    openb_hosts_needed,
    packing_measures,
    walk,
)
from bench.plain_fleet import BEST_FIT, FIRST_FIT, PlainFleet
from berth.lab.generator import GeneratorSettings, generate
from berth.lab.inflation import InflatedWorkload, inflate
from berth.lab.workload import Arrival, FlavorSpec, FleetHost, Workload

GPU = "CUSTOM_GPU_MILLI"
HALF = FlavorSpec("half", 1, 1024, 0, {f"resources1:{GPU}": "500"})
WHOLE = FlavorSpec("whole", 1, 1024, 0, {f"resources1:{GPU}": "1000"})
SMALL = FlavorSpec("small", 2, 1024)


def gpu_host(name: str, gpus: int = 2) -> FleetHost:
    """Return a host with this many GPUs."""
    return FleetHost(name, {"VCPU": 16, "MEMORY_MB": 65_536}, (), None, ({GPU: 1000},) * gpus)


@pytest.fixture
def demand() -> InflatedWorkload:
    """Return a workload of half GPUs that asks for 1.5 times the capacity."""
    arrivals = tuple(Arrival(float(n), f"a{n:02d}", "half") for n in range(8))
    hosts = tuple(gpu_host(f"h{n}") for n in range(4))
    workload = Workload("w", hosts, {"half": HALF}, arrivals)
    return inflate(workload, GPU, seed=1, demand=1.5)


@pytest.mark.parametrize("name", [FIRST_FIT, BEST_FIT, "default", "pack", "nova"])
def test_a_fleet_of_halves_is_filled(demand: InflatedWorkload, name: str) -> None:
    """Every rule and policy places 16 halves and allocates all GPUs."""
    found = fill(name, demand)
    assert (found.at_100, found.final, found.before_refusal) == (100.0, 100.0, 16)
    assert found.empty_at_50 == (0.0 if name == "nova" else 50.0)


def test_first_fit_goes_by_name() -> None:
    """First fit takes the first host by name, and the fullest device that fits on it."""
    fleet = PlainFleet([gpu_host("b"), gpu_host("a", 1)], FIRST_FIT)
    assert fleet.arrive(Arrival(0.0, "1", "half"), HALF)
    assert fleet.arrive(Arrival(0.0, "2", "whole"), WHOLE)
    assert fleet.arrive(Arrival(0.0, "3", "half"), HALF)
    assert fleet.arrive(Arrival(0.0, "4", "whole"), WHOLE)
    assert not fleet.arrive(Arrival(0.0, "5", "half"), HALF)
    fleet.depart(Arrival(0.0, "3", "half"))
    assert fleet.arrive(Arrival(0.0, "5", "half"), HALF)
    assert fleet.empty_share == 0.0


def test_best_fit_takes_the_fullest() -> None:
    """Best fit takes the fullest host whose amounts, traits and zone fit."""
    small, large = FleetHost("a", {"VCPU": 8}), FleetHost("b", {"VCPU": 2}, ("CUSTOM_T",), "az1")
    fleet = PlainFleet([small, large], BEST_FIT)
    spec = FlavorSpec("one", 1, 1, 0, {"resources:MEMORY_MB": "0"})
    assert all(fleet.arrive(Arrival(0.0, str(n), "one"), spec) for n in range(2))
    assert fleet.empty_share == 0.5
    assert not fleet.arrive(Arrival(0.0, "z", "one", availability_zone="az1"), spec)
    assert not fleet.arrive(Arrival(0.0, "many", "one", 9), spec)
    assert fleet.arrive(Arrival(0.0, "eight", "one", 8), spec)


@pytest.mark.parametrize("name", [FIRST_FIT, BEST_FIT])
def test_refusals_are_told_of(name: str) -> None:
    """Refusals are yielded without repetition, and a large fleet has none."""
    workload = generate(GeneratorSettings(hosts=20, requests=200))
    sizes = []
    refused = list(walk(PlainFleet(workload.hosts, name), workload, lambda: sizes.append(1)))
    assert len(sizes) == 200
    assert refused == sorted(set(refused))
    roomy = generate(GeneratorSettings(hosts=200, requests=1)).hosts
    assert list(walk(PlainFleet(roomy, name), workload)) == []


def test_the_least_is_found() -> None:
    """`least` finds the smallest sufficient value, or one above the range if there is none."""
    assert least(lambda count: count >= 37, 1, 100) == 37
    assert least(lambda count: count >= 100, 1, 100) == 100
    assert least(lambda count: True, 1, 100) == 1
    assert least(lambda count: False, 1, 100) == 101


def test_measures_compare_hosts() -> None:
    """A policy's hosts are compared with those of best fit and nova where both were measured."""

    def result(policy: str, hosts: float) -> PackingResult:
        return PackingResult(policy, 0, None, None, None, None, None, hosts, 5.0, 50.0, 60.0)

    found = packing_measures([result(BEST_FIT, 220), result("nova", 500), result("default", 200)])
    assert found["packing.default.generator.hosts_vs_best_fit"] == 1.1
    assert found["packing.default.generator.hosts_vs_nova"] == 2.5
    assert found["packing.nova.generator.gpus"] == 60.0
    assert "packing.default.openb.at_100" not in found


def test_a_meter_counts_what_is_held() -> None:
    """The meter counts the placed amount of one class; refused requests change nothing."""
    fleet = Metered(PlainFleet([gpu_host("a"), gpu_host("b")], FIRST_FIT), GPU)
    many, more = Arrival(0.0, "many", "whole", 3), Arrival(1.0, "more", "whole", 2)
    assert fleet.arrive(many, WHOLE)
    assert not fleet.arrive(more, WHOLE)
    assert fleet.arrive(Arrival(2.0, "small", "small"), SMALL)
    assert (fleet.used, fleet.empty_share) == (3000, 0.0)
    fleet.depart(more)
    assert fleet.used == 3000
    fleet.depart(many)
    assert fleet.used == 0
    assert fleet.arrive(more, WHOLE)
    assert fleet.used == 2000


def test_a_workload_of_the_generator_is_replayed_on_several_fleets() -> None:
    """The default policy needs at most as many hosts as nova, and first fit's number suffices."""
    settings = GeneratorSettings(hosts=20, requests=120)
    found = {name: churn(name, settings) for name in (FIRST_FIT, "default", "nova")}
    for one in found.values():
        assert 0 < one.before_refusal <= 120
        assert 0 <= one.gpus <= 100
        assert 0 <= one.empty < 100
    assert found["default"].hosts_needed <= found["nova"].hosts_needed
    assert (
        found["default"].empty > found["nova"].empty
    )  # the default policy fills one host after another
    workload = generate(settings)
    hosts = generate(GeneratorSettings(hosts=found[FIRST_FIT].hosts_needed, requests=1)).hosts
    assert list(walk(PlainFleet(hosts, FIRST_FIT), workload)) == []


CASES = PackingCases(
    policies=("default", "openb"),
    openb_seeds=1,
    openb_seeds_thorough=2,
    openb_thorough=("default",),
    openb_first_seed=7,
    openb_sized=1,
    generator_hosts=20,
    generator_requests=30,
    generator_seeds=(1, 2),
)


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a trace of 12 hosts with 4 GPUs each and requests for whole and half GPUs."""
    nodes = [f"n{n:02d},32000,131072,4,T4" for n in range(12)]
    pods = [f"p{n:02d},4000,8192,1,{1000 if n % 3 else 500}" for n in range(40)]
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
    for name, lines in (
        ("openb_node_list_gpu_node.csv", ["sn,cpu_milli,memory_mib,gpu,model", *nodes]),
        ("openb_pod_list_default.csv", [header, *pods]),
    ):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setattr(packing, "TRACE", tmp_path)
    packing._trace.cache_clear()
    return tmp_path


@pytest.mark.parametrize("name", [FIRST_FIT, "default", "openb"])
def test_a_trace_is_filled(trace: Path, name: str) -> None:
    """Equal hosts are filled completely, and the requests need half of the hosts."""
    found = fill_openb(name, 7)
    assert found.final == 100.0
    assert found.at_100 >= 97.0
    assert found.before_refusal >= 48
    assert 6 <= openb_hosts_needed(name, 7) <= 7


def test_all_policies_are_measured_in_order(trace: Path) -> None:
    """The simple rules come first, and a thorough policy gets more seeds."""
    found = list(measure_packing(CASES))
    names = [(one.policy, one.openb_seeds) for one in found]
    assert names == [(FIRST_FIT, 1), (BEST_FIT, 1), ("default", 2), ("openb", 1)]
    assert all(one.openb_hosts_needed in {6, 7} for one in found)
    default, same = found[2:]
    assert (default.hosts_needed, default.gpus) == (same.hosts_needed, same.gpus)


def test_without_the_trace_only_the_generator_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the trace, its measures are None and those of the generator are present."""
    monkeypatch.setattr(packing, "TRACE", tmp_path / "missing")
    found = list(measure_packing(replace(CASES, policies=())))
    assert [(one.openb_seeds, one.at_100, one.openb_hosts_needed) for one in found] == [
        (0, None, None)
    ] * 2
    assert all(one.hosts_needed > 0 for one in found)
