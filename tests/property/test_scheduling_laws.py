"""Laws of scheduling that hold for every fleet, request and seed."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.change import Event, Snapshot
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.evaluation.ranking import FullRanking
from berth.scheduling.evaluation.selection import RandomSource, choose_host
from berth.scheduling.evaluation.weighing import normalise
from berth.scheduling.filters import fits_resources
from berth.scheduling.rules.rule import Filter, Query, Reads
from berth.tables.columnar.bitsets import Mask, Selection
from berth.tables.host.feed import apply_event, table_of
from berth.tables.host.hosts import HostTable
from berth.testing.dumping import dump
from berth.testing.fleet_strategies import flavors, requests, snapshots
from berth.testing.fleets import (
    NOW_S,
    WEIGHERS,
    Box,
    all_filters,
    all_weighers,
    asking,
    by_chance,
    policy_of,
    snapshot_of,
)
from tests.property.reference_model import NEGLIGIBLE

SEEDS = st.integers(0, 2**63 - 1)
MULTIPLIERS = st.tuples(*[st.sampled_from((1.0, 1.0, -1.0, 0.0, 2.5))] * WEIGHERS)
POLICIES = st.builds(
    lambda multipliers, size, shuffle, chance: (by_chance if chance else lambda policy: policy)(
        policy_of(weighers=all_weighers(multipliers), subset_size=size, shuffle=shuffle)
    ),
    MULTIPLIERS,
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)


PLAIN_REQUESTS = st.sampled_from([None, *(f"g-{policy}" for policy in GroupPolicy)]).map(
    lambda group: replace(asking(), group_uuid=group)
)


def decide(hosts: HostTable, request: Request, policy: Policy, seed: int = 0) -> Plan:
    """Return the plan; discard the example when the request contradicts itself."""
    try:
        return policy.driver.plan(hosts, request, policy, now_s=NOW_S, seed=seed)
    except InvalidInputError:
        assume(False)
        raise


def scores_of(plan: Plan) -> dict[tuple[str, str], float]:
    """Return the scores of the first instance's chosen host and runners-up, by (host, node)."""
    first = plan.placements[0]
    return {(one.host, one.node): one.score for one in (first.chosen, *first.runners_up)}


# ---- equal inputs, equal plan -----------------------------------------------------------------


@given(snapshot=snapshots(), request=requests(), policy=POLICIES, seed=SEEDS)
def test_equal_inputs_give_equal_plans(
    snapshot: Snapshot, request: Request, policy: Policy, seed: int
) -> None:
    """A plan does not depend on plans made before it, and leaves the table as it was."""
    hosts = table_of(snapshot)
    before = dump(hosts)
    plan = decide(hosts, request, policy, seed)
    assert dump(hosts) == before
    assert decide(hosts, request, policy, seed) == plan
    assert decide(table_of(snapshot), request, policy, seed) == plan


@given(snapshot=snapshots(), request=requests(), policy=POLICIES, seed=SEEDS, data=st.data())
def test_the_order_of_rows_is_irrelevant(
    snapshot: Snapshot, request: Request, policy: Policy, seed: int, data: st.DataObject
) -> None:
    """Hosts that were added in another order, or in reused rows, give the same plan."""
    shuffled = data.draw(st.permutations(snapshot.hosts))
    hosts = table_of(snapshot_of([Box("gone-1"), Box("gone-2"), Box("gone-3")]))
    apply_event(hosts, snapshot_of([Box("stays-down", disabled=True)]).services[0])
    for gone in ("gone-2/gone-2", "gone-1/gone-1", "gone-3/gone-3"):
        hosts.remove_host(gone)
    other = replace(snapshot, hosts=tuple(shuffled))
    records: list[Event] = [*other.services, *other.aggregates, *other.server_groups]
    records += [*other.hosts, *other.providers, *other.instances]
    for record in records:
        apply_event(hosts, record)
    assert decide(hosts, request, policy, seed) == decide(table_of(snapshot), request, policy, seed)


class CrashError(Exception):
    """The rule of a test fails."""


@given(snapshot=snapshots(least=2), request=requests(), at=st.integers(0, 3))
def test_a_plan_that_raises_leaves_the_table_unchanged(
    snapshot: Snapshot, request: Request, at: int
) -> None:
    """A rule that raises at any instance of a request leaves the table as it was."""

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        if query.instance_uuid == query.request.instance_uuids[min(at, last)]:
            raise CrashError
        return None

    last = len(request.instance_uuids) - 1
    crash = Filter("Crash", keep, lambda *_: "", lambda *_: [], Reads((), ()), on_forced=True)
    policy = policy_of(filters=(*all_filters(), crash))
    hosts = table_of(snapshot)
    before = dump(hosts)
    try:
        decide(hosts, request, policy)
    except CrashError:
        assert dump(hosts) == before


# ---- weighing ---------------------------------------------------------------------------------


@given(snapshot=snapshots(least=3), request=PLAIN_REQUESTS, multipliers=MULTIPLIERS)
def test_weighers_add_up(
    snapshot: Snapshot, request: Request, multipliers: tuple[float, ...]
) -> None:
    """A score is the sum of its parts, and equals the sum of each weigher's score alone."""
    weighers = all_weighers(multipliers)
    hosts = table_of(snapshot)
    plan = decide(hosts, request, policy_of(weighers=weighers))
    assume(plan.placements)
    for one in (plan.placements[0].chosen, *plan.placements[0].runners_up):
        assert one.score == pytest.approx(sum(part.score for part in one.parts), abs=NEGLIGIBLE)
        assert all(0 <= part.normalised <= 1 for part in one.parts)
    alone = [scores_of(decide(hosts, request, policy_of(weighers=[one]))) for one in weighers]
    for key, score in scores_of(plan).items():
        assert score == pytest.approx(sum(scores[key] for scores in alone), abs=NEGLIGIBLE)


@given(snapshot=snapshots(least=3), request=PLAIN_REQUESTS, multipliers=MULTIPLIERS)
def test_negating_all_multipliers_reverses_the_order(
    snapshot: Snapshot, request: Request, multipliers: tuple[float, ...]
) -> None:
    """Negated multipliers negate every score, and the host with the lowest score is chosen."""
    hosts = table_of(snapshot)
    plan = decide(hosts, request, policy_of(weighers=all_weighers(multipliers)))
    assume(plan.placements)
    negated = all_weighers([-multiplier for multiplier in multipliers])
    reverse = decide(hosts, request, policy_of(weighers=negated))
    scores, reversed_scores = scores_of(plan), scores_of(reverse)
    assert reversed_scores == {key: -score for key, score in scores.items()}
    chosen = (reverse.placements[0].host, reverse.placements[0].node)
    assert scores[chosen] == min(scores.values())


FLOATS = st.floats(-1e12, 1e12)


@given(
    raw=st.lists(st.one_of(FLOATS, st.sampled_from((0.0, np.nan, np.inf, -np.inf))), min_size=1),
    floor=st.one_of(st.none(), st.just(0.0), FLOATS),
    span=st.one_of(st.none(), st.floats(0, 1e12)),
)
def test_normalised_values_are_finite_from_0_to_1(
    raw: list[float], floor: float | None, span: float | None
) -> None:
    """Normalised values lie in [0, 1] and keep the order of the raw values."""
    ceiling = None if span is None else (floor or 0.0) + span
    normalised = normalise(np.array(raw), floor, ceiling)
    assert normalised.shape == (len(raw),)
    assert np.all((normalised >= 0) & (normalised <= 1))
    order = np.argsort(raw)
    numbers = [i for i in order if not np.isnan(raw[i])]
    assert np.all(np.diff(normalised[numbers]) >= 0)


# ---- choosing ---------------------------------------------------------------------------------


def ranked(scores: list[float]) -> tuple[HostTable, FullRanking]:
    """Return a table with hosts in reverse order of their names, and a ranking by scores."""
    names = [f"h{number:05}" for number in reversed(range(len(scores)))]
    hosts = table_of(snapshot_of([Box(name) for name in names]))
    return hosts, FullRanking(hosts, hosts.alive_rows(), np.array(scores))


@given(
    scores=st.lists(st.sampled_from((0.0, 1.0, 1.5, -2.0, 3.0)), min_size=1, max_size=40),
    repeat=st.sampled_from((1, 1, 20)),
    count=st.integers(0, 50),
)
def test_the_few_best_are_those_of_a_full_sort(
    scores: list[float], repeat: int, count: int
) -> None:
    """`FullRanking.best` returns the head of the list sorted by score, then by name."""
    hosts, ranking = ranked(scores * repeat)
    everyone = range(len(ranking.scores))
    expected = sorted(everyone, key=lambda i: (-ranking.scores[i], hosts.host(i).name))
    assert ranking.best(count) == expected[:count]


@given(scores=st.lists(st.sampled_from((0.0, 1.0, 3.0)), min_size=1, max_size=6))
def test_every_tied_host_is_reachable_under_shuffle(scores: list[float]) -> None:
    """With shuffling, each host with the best score is chosen by some seed, and no other host."""
    _, ranking = ranked(scores)
    best = {index for index, score in enumerate(scores) if score == max(scores)}
    chosen = {
        choose_host(
            ranking, subset_size=1, shuffle=True, random_source=RandomSource(seed), shown=0
        )[0]
        for seed in range(200)
    }
    assert chosen == best


@given(
    scores=st.lists(st.sampled_from((0.0, 1.0, 3.0)), min_size=1, max_size=6),
    size=st.integers(1, 7),
    shuffle=st.booleans(),
    seed=SEEDS,
)
def test_the_choice_is_within_the_subset_of_the_best(
    scores: list[float], size: int, shuffle: bool, seed: int
) -> None:
    """The chosen host has one of the `host_subset_size` best scores, and all others are listed."""
    _, ranking = ranked(scores)
    chance = RandomSource(seed)
    chosen, others = choose_host(
        ranking, subset_size=size, shuffle=shuffle, random_source=chance, shown=len(scores)
    )
    allowed = sorted(scores, reverse=True)[:size]
    assert scores[chosen] in allowed
    assert sorted([chosen, *others]) == list(range(len(scores)))


# ---- resources --------------------------------------------------------------------------------


@given(snapshot=snapshots(least=1), request=requests(count_max=6), policy=POLICIES, seed=SEEDS)
def test_a_plan_never_overcommits(
    snapshot: Snapshot, request: Request, policy: Policy, seed: int
) -> None:
    """The used amounts plus those of the plan stay within every host's capacity and units."""
    plan = decide(table_of(snapshot), request, policy, seed)
    providers = {provider.uuid: provider for provider in snapshot.providers}
    assert len(plan.placements) in {0, len(request.instance_uuids)}
    assert [one.instance_uuid for one in plan.placements] == list(
        request.instance_uuids[: len(plan.placements)]
    )
    for uuid in {placement.provider_uuid for placement in plan.placements}:
        provider = providers[uuid]
        count = sum(placement.provider_uuid == uuid for placement in plan.placements)
        for name, amount in request.needs.amounts.items():
            inventory = provider.inventories[name]
            assert provider.used.get(name, 0) + count * amount <= inventory.capacity
            assert inventory.min_unit <= amount <= inventory.unit_max
            assert amount % inventory.step_size == 0


@given(snapshot=snapshots(stepped=False), flavor=flavors(), data=st.data())
def test_asking_less_never_loses_a_host(
    snapshot: Snapshot, flavor: Flavor, data: st.DataObject
) -> None:
    """With units of 1, a host that fits an amount also fits every smaller amount."""
    request = replace(asking(), flavor=flavor)
    assume("CUSTOM_NOWHERE" not in str(flavor))
    less = {
        f"resources:{name}": str(data.draw(st.integers(0, amount)))
        for name, amount in request.needs.amounts.items()
    }
    specs = {**request.flavor.extra_specs, **less}
    smaller = replace(request, flavor=replace(request.flavor, extra_specs=specs))
    hosts = table_of(snapshot)
    rule = fits_resources.build()

    def kept(one: Request) -> Mask:
        mask = rule.keep(hosts, Query(one, one.needs, NOW_S, None, "new"), hosts.all_rows)
        return np.ones(len(hosts), np.bool_) if mask is None else mask

    assert np.all(kept(smaller) | ~kept(request))


# ---- bad input --------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(("9" * 5000, "1e999", "-1", "0x10", "1_0", "٣", "nan", "", " ", "\x00")),
    st.text(max_size=8),
)
SIGNS = st.sampled_from(("", "= ", "== ", "!= ", ">= ", "<= ", "s< ", "<in> ", "<or> ", ">="))
KEYS = st.one_of(
    st.sampled_from(
        (
            "capabilities:vcpus_total",
            "capabilities:cpu_info:features",
            "capabilities:cpu_info:a:b:c",
            "capabilities:stats",
            "capabilities:",
            "capabilities",
            "free_ram_mb",
            "rack",
            "resources:VCPU",
            "resources:",
            "resources:vcpu",
            "trait:CUSTOM_FAST",
            "trait:",
            "berth:any_trait",
            ":",
            "",
        )
    ),
    st.text(max_size=8),
)


@given(
    snapshot=snapshots(),
    specs=st.dictionaries(KEYS, st.builds("{}{}".format, SIGNS, NUMBERS), max_size=3),
    version=st.builds("{}{}".format, SIGNS, NUMBERS),
    count=st.integers(1, 2),
)
def test_bad_numbers_raise_nothing_but_invalid_input(
    snapshot: Snapshot, specs: dict[str, str], version: str, count: int
) -> None:
    """Odd extra specs and image properties raise InvalidInputError or give a plan or a refusal."""
    image = Image("i", properties={"img_hv_type": "kvm", "img_hv_requested_version": version})
    request = replace(asking(specs=specs, count=count), image=image)
    hosts = table_of(snapshot)
    with suppress(InvalidInputError):
        plan = policy_of().driver.plan(hosts, request, policy_of(), now_s=NOW_S, seed=0)
        assert bool(plan.placements) != bool(plan.refusal)
