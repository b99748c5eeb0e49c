"""Tests for the generated fleet and load with the settings of the demo."""

from collections import Counter

import pytest

from berth.domain.errors import InvalidInputError
from berth.lab.auditor import Auditor
from berth.lab.generator import GeneratorSettings, generate
from berth.lab.workload import Arrival, ArrivalEvent, FlavorSpec, Workload, events

HOUR_S = 3600


@pytest.fixture(scope="module")
def demo() -> Workload:
    """Return the workload of the demo, drawn once per module."""
    return generate()


def asked_vcpus(workload: Workload, at_s: float) -> int:
    """Return the vCPUs requested by all arrivals present at a time, refused or not."""

    def lives(arrival: Arrival) -> bool:
        lifetime_s = arrival.lifetime_s or 0
        return arrival.at_s <= at_s < arrival.at_s + lifetime_s

    return sum(
        workload.flavors[arrival.flavor].vcpus * arrival.count
        for arrival in workload.arrivals
        if lives(arrival)
    )


def fleet_vcpus(workload: Workload) -> int:
    """Return the vCPUs of the fleet."""
    return sum(host.amounts["VCPU"] for host in workload.hosts)


def first_fit(workload: Workload, until_s: float) -> tuple[list[tuple[float, int]], int]:
    """Place all or none of each request on the first hosts that fit.

    Returns:
        (second, vCPUs in use) after each event, and how many requests were refused.
    """
    auditor = Auditor(workload.hosts)
    demands = {name: demand_of(flavor) for name, flavor in workload.flavors.items()}
    placed: dict[str, list[str]] = {}
    vcpus, refused = 0, 0
    used: list[tuple[float, int]] = []
    for event in events(workload, until_s=until_s):
        arrival = event.arrival
        amounts, traits = demands[arrival.flavor]
        if isinstance(event, ArrivalEvent):
            placed[arrival.name] = []
            for index in range(arrival.count):
                hosts = auditor.fits(amounts, traits, availability_zone=arrival.availability_zone)
                if not hosts:
                    break
                placed[arrival.name].append(f"{arrival.name}-{index}")
                auditor.placed(placed[arrival.name][-1], hosts[0], amounts)
                vcpus += amounts["VCPU"]
            if len(placed[arrival.name]) == arrival.count:
                used.append((event.at_s, vcpus))
                continue
            refused += 1
        for instance_id in placed.pop(arrival.name, []):
            auditor.released(instance_id)
            vcpus -= amounts["VCPU"]
        used.append((event.at_s, vcpus))
    return used, refused


def demand_of(flavor: FlavorSpec) -> tuple[dict[str, int], list[str]]:
    """Return the amounts and required traits of a flavor."""
    amounts = {"VCPU": flavor.vcpus, "MEMORY_MB": flavor.memory_mb, "DISK_GB": flavor.disk_gb}
    traits: list[str] = []
    for key, value in flavor.extra_specs.items():
        kind, _, name = key.partition(":")
        if kind == "resources":
            amounts[name] = int(value)
        else:
            traits.append(name)
    return amounts, traits


def test_demo_fills_its_fleet_and_refuses_some(demo: Workload) -> None:
    """First fit uses 80 to 96 % of the vCPUs and refuses at most one request in ten."""
    used, refused = first_fit(demo, 48 * HOUR_S)
    loads = [vcpus / fleet_vcpus(demo) for at_s, vcpus in used if at_s > 3 * HOUR_S]
    assert min(loads) >= 0.8
    assert max(loads) <= 0.96
    assert 0 < refused <= len(demo.arrivals) / 10


def test_default_settings_are_the_demo(demo: Workload) -> None:
    """The default settings are 200 hosts and 2,000 requests within two days."""
    assert demo == generate(GeneratorSettings())
    assert (len(demo.hosts), len(demo.arrivals)) == (200, 2000)
    assert demo.arrivals[-1].at_s <= 48 * HOUR_S


def test_fleet_mixes_shapes_in_every_zone(demo: Workload) -> None:
    """Each zone has hosts of every size, some with a local disk and some with GPUs."""
    for zone in ("az1", "az2", "az3"):
        hosts = [host for host in demo.hosts if host.availability_zone == zone]
        assert {host.amounts["VCPU"] for host in hosts} == {32, 64, 96, 128}
        assert any("CUSTOM_LOCAL_NVME" in host.traits for host in hosts)
        assert any("CUSTOM_GPU" in host.amounts for host in hosts)
        assert {host.amounts["MEMORY_MB"] // host.amounts["VCPU"] for host in hosts} == {4096, 8192}


def test_some_host_can_take_each_flavor(demo: Workload) -> None:
    """Every flavor fits on some host."""
    for flavor in demo.flavors.values():
        assert any(
            host.amounts["VCPU"] >= flavor.vcpus
            and host.amounts["MEMORY_MB"] >= flavor.memory_mb
            and host.amounts["DISK_GB"] >= flavor.disk_gb
            for host in demo.hosts
        )


def test_flavors_are_popular_unequally(demo: Workload) -> None:
    """Three of the twelve flavors account for at least half of the requests."""
    counts = Counter(arrival.flavor for arrival in demo.arrivals)
    assert len(demo.flavors) == 12
    assert sum(count for _, count in counts.most_common(3)) >= len(demo.arrivals) / 2


def test_load_after_the_opening_is_as_asked(demo: Workload) -> None:
    """The requested load averages 90 % of the fleet's vCPUs and peaks above 95 %."""
    loads = [asked_vcpus(demo, hour * HOUR_S) / fleet_vcpus(demo) for hour in range(3, 48)]
    assert sum(loads) / len(loads) == pytest.approx(0.9, abs=0.02)
    assert min(loads) >= 0.8
    assert 0.95 < max(loads) <= 1.05


def test_lifetimes_are_minutes_hours_and_months(demo: Workload) -> None:
    """After the opening most instances live less than an hour, and a few live for months."""
    lives_s = [arrival.lifetime_s or 0 for arrival in demo.arrivals if arrival.at_s > 2 * HOUR_S]
    minutes = sum(life_s < HOUR_S for life_s in lives_s) / len(lives_s)
    months = sum(life_s > 30 * 24 * HOUR_S for life_s in lives_s) / len(lives_s)
    assert 0.7 < minutes < 0.85
    assert 0.005 < months < 0.04


def test_more_comes_by_day_than_by_night() -> None:
    """More than twice as many requests arrive between 9 and 21 h as between 21 and 9 h."""
    workload = generate(GeneratorSettings(hosts=20, requests=5000, days=5.0))
    hours = [
        arrival.at_s / HOUR_S % 24 for arrival in workload.arrivals if arrival.at_s > 2 * HOUR_S
    ]
    by_day = sum(9 <= hour < 21 for hour in hours)
    assert by_day > 2 * (len(hours) - by_day)


def test_too_few_requests_are_noted() -> None:
    """If there are too few requests to fill the fleet, the notes say so."""
    workload = generate(GeneratorSettings(hosts=500, requests=500))
    assert any("too few requests for a load of 90%" in note for note in workload.notes)
    standing = sum(arrival.at_s < 2 * HOUR_S for arrival in workload.arrivals)
    assert standing == 500 // 3


def test_too_many_requests_live_shorter() -> None:
    """If the requests would overfill the fleet, their lifetimes shrink and the notes say so."""
    workload = generate(GeneratorSettings(hosts=20, requests=5000))
    assert any("would overfill the fleet" in note for note in workload.notes)
    loads = [asked_vcpus(workload, hour * HOUR_S) / fleet_vcpus(workload) for hour in range(3, 48)]
    assert sum(loads) / len(loads) == pytest.approx(0.9, abs=0.1)


def test_another_seed_is_another_workload(demo: Workload) -> None:
    """Another seed changes the requests but not the fleet."""
    other = generate(GeneratorSettings(seed=2))
    assert other.arrivals != demo.arrivals
    assert other.hosts == demo.hosts


@pytest.mark.parametrize("field", ["hosts", "requests", "days", "load"])
def test_settings_must_be_above_zero(field: str) -> None:
    """Hosts, requests, days and load must be above 0."""
    with pytest.raises(InvalidInputError, match=f"{field}: must be finite and above 0, not 0"):
        GeneratorSettings(**{field: 0})
