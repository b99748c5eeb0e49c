"""Laws of the generated traces and of the auditor that watches their replay."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.lab.auditor import AuditError, Auditor
from berth.lab.generator import GeneratorSettings, generate
from berth.lab.workload import ArrivalEvent, FleetHost, events

SETTINGS = st.builds(
    GeneratorSettings,
    hosts=st.integers(1, 60),
    requests=st.integers(1, 400),
    seed=st.integers(),
    days=st.floats(0.01, 400),
    load=st.floats(0.05, 2),
)
LARGE = st.builds(GeneratorSettings, requests=st.just(2000), seed=st.integers())
CLASSES = ["VCPU", "MEMORY_MB", "CUSTOM_GPU"]
AMOUNTS = st.dictionaries(st.sampled_from(CLASSES), st.integers(0, 6))
RATIOS = st.dictionaries(st.sampled_from(CLASSES), st.sampled_from([0.5, 1.0, 1.5, 4.0]))
FLEETS = st.lists(AMOUNTS, min_size=1, max_size=3).map(
    lambda fleet: [FleetHost(f"h{index}", amounts) for index, amounts in enumerate(fleet)]
)
PLACEMENTS = st.lists(st.tuples(st.integers(0, 2), AMOUNTS, st.booleans()), max_size=20)


@settings(deadline=None)
@given(SETTINGS)
def test_equal_settings_give_an_equal_workload(drawn: GeneratorSettings) -> None:
    """The workload is a pure function of its settings."""
    assert generate(drawn) == generate(drawn)


@settings(deadline=None)
@given(SETTINGS)
def test_the_workload_is_what_was_asked_for(drawn: GeneratorSettings) -> None:
    """The workload has the requested numbers of hosts and arrivals, all within the given days."""
    workload = generate(drawn)
    assert len(workload.hosts) == drawn.hosts
    assert len(workload.arrivals) == drawn.requests
    assert all(0 <= arrival.at_s <= drawn.days * 86400 + 0.001 for arrival in workload.arrivals)


@settings(deadline=None)
@given(SETTINGS)
def test_few_requests_are_for_several(drawn: GeneratorSettings) -> None:
    """At least 94 % of requests are for one instance and 99 % for at most five."""
    counts = [arrival.count for arrival in generate(drawn).arrivals]
    assert sum(count == 1 for count in counts) >= 0.94 * len(counts)
    assert sum(count <= 5 for count in counts) >= 0.99 * len(counts)


@settings(max_examples=20, deadline=None)
@given(LARGE)
def test_requests_repeat_the_flavor_before(drawn: GeneratorSettings) -> None:
    """More than 80 % of requests ask for the same flavor as the request before."""
    flavors = [arrival.flavor for arrival in generate(drawn).arrivals]
    same = sum(left == right for left, right in itertools.pairwise(flavors))
    assert same > 0.8 * (len(flavors) - 1)


@settings(max_examples=20, deadline=None)
@given(LARGE)
def test_most_instances_live_minutes_and_some_months(drawn: GeneratorSettings) -> None:
    """More than half of the requests last under an hour; some, but under 40 %, over 30 days."""
    lives_s = [arrival.lifetime_s or 0 for arrival in generate(drawn).arrivals]
    assert sum(life_s < 3600 for life_s in lives_s) > len(lives_s) / 2
    assert 0 < sum(life_s > 30 * 86400 for life_s in lives_s) < 0.4 * len(lives_s)


@settings(deadline=None)
@given(SETTINGS)
def test_events_are_in_order_and_complete(drawn: GeneratorSettings) -> None:
    """Events are in order of time, and each arrival has one departure after it."""
    workload = generate(drawn)
    told = list(events(workload))
    assert all(left.at_s <= right.at_s for left, right in itertools.pairwise(told))
    came: set[str] = set()
    for event in told:
        if isinstance(event, ArrivalEvent):
            came.add(event.arrival.name)
        else:
            came.remove(event.arrival.name)
    assert not came
    assert len(told) == 2 * len(workload.arrivals)


@settings(deadline=None)
@given(FLEETS, RATIOS, PLACEMENTS)
def test_the_auditor_never_accepts_overcommit(
    fleet: list[FleetHost],
    ratios: dict[str, float],
    placements: list[tuple[int, dict[str, int], bool]],
) -> None:
    """A placement is reported if and only if the host was not among those that fit.

    The accepted placements, summed up here again, never exceed a host's capacity.
    """
    auditor = Auditor(fleet, ratios)
    used: dict[tuple[str, str], int] = {}
    for index, (row, amounts, leaves) in enumerate(placements):
        host = fleet[row % len(fleet)]
        fitting = host.name in auditor.fits(amounts)
        accepted = accepts(auditor, f"i{index}", host.name, amounts)
        assert accepted == fitting
        if leaves or not accepted:
            auditor.released(f"i{index}")
            continue
        for name, amount in amounts.items():
            used[host.name, name] = used.get((host.name, name), 0) + amount
        assert auditor.overcommitted() == []
    totals = {(host.name, name): host.amounts.get(name, 0) for host in fleet for name in CLASSES}
    for (host_name, name), amount in used.items():
        assert amount <= totals[host_name, name] * ratios.get(name, 1)


@settings(deadline=None)
@given(FLEETS, RATIOS, AMOUNTS)
def test_all_that_left_leaves_an_empty_fleet(
    fleet: list[FleetHost], ratios: dict[str, float], amounts: dict[str, int]
) -> None:
    """After a release the same hosts fit as before the placement."""
    auditor = Auditor(fleet, ratios)
    before = auditor.fits(amounts)
    accepts(auditor, "i", fleet[0].name, amounts)
    auditor.released("i")
    assert auditor.fits(amounts) == before


def accepts(auditor: Auditor, instance_id: str, host: str, amounts: dict[str, int]) -> bool:
    """Report a placement to the auditor, and tell whether the auditor accepts it."""
    try:
        auditor.placed(instance_id, host, amounts)
    except AuditError:
        return False
    return True
