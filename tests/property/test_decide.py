"""Laws of inspection: the explanation of a decision agrees with the decision."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.change import Snapshot
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.plan.inspection import Inspection, counterfactuals_of, inspect
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.dumping import dump
from berth.testing.fleet_strategies import requests, snapshots
from berth.testing.fleets import NOW_S, all_weighers, by_chance, policy_of

SEEDS = st.integers(0, 2**63 - 1)
MULTIPLIERS = st.tuples(*[st.sampled_from((1.0, 1.0, -1.0, 0.0, 2.5))] * 5)
WEIGHING = st.builds(
    lambda multipliers, size, shuffle: policy_of(
        weighers=all_weighers(multipliers), subset_size=size, shuffle=shuffle
    ),
    MULTIPLIERS,
    st.integers(1, 3),
    st.booleans(),
)
POLICIES = st.one_of(WEIGHING, WEIGHING.map(by_chance))


def explain(
    hosts: HostTable, request: Request, policy: Policy, seed: int, hosts_max: int | None = None
) -> Inspection:
    """Return the inspection; discard the example when the request contradicts itself."""
    try:
        return inspect(hosts, request, policy, now_s=NOW_S, seed=seed, hosts_max=hosts_max)
    except InvalidInputError:
        assume(False)
        raise


@given(snapshot=snapshots(), request=requests(), policy=POLICIES, seed=SEEDS)
def test_the_choice_is_the_drivers(
    snapshot: Snapshot, request: Request, policy: Policy, seed: int
) -> None:
    """An inspection has the placements, refusal and filter counts of the driver's own plan."""
    hosts = table_of(snapshot)
    found = explain(hosts, request, policy, seed)
    plan = policy.driver.plan(hosts, request, policy, now_s=NOW_S, seed=seed)
    assert found.refusal == plan.refusal
    assert found.instances[-1].filters == plan.filters
    placements = tuple(one.placement for one in found.instances)
    if plan.refusal is None:
        assert placements == plan.placements
    else:
        assert len(placements) == plan.refusal.placed + 1
        assert all(placements[:-1])
        assert placements[-1] is None


@given(snapshot=snapshots(), request=requests(), policy=POLICIES, seed=SEEDS)
def test_inspecting_changes_nothing(
    snapshot: Snapshot, request: Request, policy: Policy, seed: int
) -> None:
    """An inspection leaves the table unchanged, and a second one returns the same."""
    hosts = table_of(snapshot)
    before = dump(hosts)
    found = explain(hosts, request, policy, seed)
    assert dump(hosts) == before
    assert explain(hosts, request, policy, seed) == found


@given(snapshot=snapshots(), request=requests(), policy=POLICIES, seed=SEEDS)
def test_verdicts_tell_candidates_from_removed_hosts(
    snapshot: Snapshot, request: Request, policy: Policy, seed: int
) -> None:
    """Every host is listed once, as a candidate with its place or as removed with a reason."""
    hosts = table_of(snapshot)
    found = explain(hosts, request, policy, seed)
    everyone = {(host.name, host.node) for host in snapshot.hosts}
    for one in found.instances:
        listed = [(host.host, host.node) for host in (*one.candidates, *one.removed)]
        assert len(listed) == len(everyone)
        assert set(listed) == everyone
        assert [host.place for host in one.candidates] == list(range(1, len(one.candidates) + 1))
        assert all(host.removed_by is None for host in one.candidates)
        assert all(host.removed_by and host.removed_by.why for host in one.removed)


@given(snapshot=snapshots(), request=requests(), policy=POLICIES, seed=SEEDS)
def test_counterfactuals_alone_are_those_of_the_whole_explanation(
    snapshot: Snapshot, request: Request, policy: Policy, seed: int
) -> None:
    """`counterfactuals_of` returns what the inspection lists for the first instance.

    It returns nothing without a plan made by weight, and leaves the table unchanged.
    """
    hosts = table_of(snapshot)
    first, *_ = explain(hosts, request, policy, seed).instances
    plan = policy.driver.plan(hosts, request, policy, now_s=NOW_S, seed=seed)
    before = dump(hosts)
    found = counterfactuals_of(hosts, request, policy, plan.placements, now_s=NOW_S)
    is_told = bool(plan.placements) and first.by_weight
    assert found == (first.counterfactuals if is_told else ())
    assert dump(hosts) == before


@given(snapshot=snapshots(), request=requests(), policy=WEIGHING, seed=SEEDS)
def test_scores_and_order_explain_the_choice(
    snapshot: Snapshot, request: Request, policy: Policy, seed: int
) -> None:
    """The chosen host has the score that is listed for it, and is one of the best."""
    hosts = table_of(snapshot)
    for one in explain(hosts, request, policy, seed).instances:
        scores = [host.scored.score for host in one.candidates if host.scored]
        assert scores == sorted(scores, reverse=True)
        assert one.by_weight
        if one.placement is None:
            assert not one.candidates
            continue
        chosen = one.placement.chosen
        assert one.placement.candidates == one.candidates_total
        assert chosen in [host.scored for host in one.candidates]
        assert sum(score > chosen.score for score in scores) < policy.host_subset_size
        if policy.host_subset_size == 1 and not policy.shuffle_best_same_weighed_hosts:
            assert one.candidates[0].scored == chosen


@given(
    snapshot=snapshots(least=2),
    request=requests(),
    policy=POLICIES,
    seed=SEEDS,
    hosts_max=st.integers(0, 3),
)
def test_a_short_list_is_the_beginning_of_the_long_one_and_has_the_choice(
    snapshot: Snapshot, request: Request, policy: Policy, seed: int, hosts_max: int
) -> None:
    """Listing fewer hosts leaves out the last ones, never the chosen one, and changes no place."""
    hosts = table_of(snapshot)
    long = explain(hosts, request, policy, seed)
    short = explain(hosts, request, policy, seed, hosts_max)
    for less, all_of_it in zip(short.instances, long.instances, strict=True):
        assert less.removed == all_of_it.removed[:hosts_max]
        assert less.candidates[:hosts_max] == all_of_it.candidates[:hosts_max]
        assert set(less.candidates) <= set(all_of_it.candidates)
        if less.placement is not None:
            names = [(host.host, host.node) for host in less.candidates]
            assert (less.placement.host, less.placement.node) in names
        whole = replace(all_of_it, candidates=less.candidates, removed=less.removed)
        assert less == whole
