"""Packing: what is counted while a fleet fills, and the plain rules beside the policies."""

import pytest

from bench.packing import PackingResult, fill, least, packing_measures, walk
from bench.plain_fleet import BEST_FIT, FIRST_FIT, PlainFleet
from berth.lab.generator import GeneratorSettings, generate
from berth.lab.inflation import Demand, inflate
from berth.lab.workload import Arrival, FlavorSpec, FleetHost, Workload

GPU = "CUSTOM_GPU_MILLI"
HALF = FlavorSpec("half", 1, 1024, 0, {f"resources1:{GPU}": "500"})
WHOLE = FlavorSpec("whole", 1, 1024, 0, {f"resources1:{GPU}": "1000"})
SMALL = FlavorSpec("small", 2, 1024)


def gpu_host(name: str, gpus: int = 2) -> FleetHost:
    """Return a host with GPUs."""
    return FleetHost(name, {"VCPU": 16, "MEMORY_MB": 65_536}, (), None, ({GPU: 1000},) * gpus)


@pytest.fixture
def demand() -> Demand:
    """Halves of a GPU, 1.5 times as many as there is room for."""
    arrivals = tuple(Arrival(float(n), f"a{n:02d}", "half") for n in range(8))
    hosts = tuple(gpu_host(f"h{n}") for n in range(4))
    workload = Workload("w", hosts, {"half": HALF}, arrivals)
    return inflate(workload, GPU, seed=1, demand=1.5)


@pytest.mark.parametrize("name", [FIRST_FIT, BEST_FIT, "default", "pack", "nova"])
def test_a_fleet_of_halves_is_filled(demand: Demand, name: str) -> None:
    """All GPUs are allocated at 100 % demand, and not more at the end; 16 halves were placed."""
    found = fill(name, demand)
    assert (found.at_100, found.final, found.before_refusal) == (100.0, 100.0, 16)
    assert found.empty_at_50 == (0.0 if name == "nova" else 50.0)


def test_first_fit_goes_by_name() -> None:
    """And takes the tightest device of the host."""
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
    """Of amounts, traits and zones that fit."""
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
    """On a fleet that is large enough there are none."""
    workload = generate(GeneratorSettings(hosts=20, requests=200))
    sizes = []
    refused = list(walk(PlainFleet(workload.hosts, name), workload, lambda: sizes.append(1)))
    assert len(sizes) == 200
    assert refused == sorted(set(refused))
    roomy = generate(GeneratorSettings(hosts=200, requests=1)).hosts
    assert list(walk(PlainFleet(roomy, name), workload)) == []


def test_the_least_is_found() -> None:
    """By halving, and the upper end when nothing suffices."""
    assert least(lambda count: count >= 37, 1, 100) == 37
    assert least(lambda count: False, 1, 100) == 100


def test_measures_compare_hosts() -> None:
    """Each policy with best fit and with Nova; what was not measured has no name."""

    def result(policy: str, hosts: float) -> PackingResult:
        return PackingResult(policy, 0, None, None, None, None, None, hosts, 5.0, 50.0)

    found = packing_measures([result(BEST_FIT, 220), result("nova", 500), result("default", 200)])
    assert found["packing.default.generator.hosts_vs_best_fit"] == 1.1
    assert found["packing.default.generator.hosts_vs_nova"] == 2.5
    assert "packing.default.openb.at_100" not in found
