"""Berth's rules against the real Nova: every verdict, every value, every order."""

import os
from collections import Counter

import pytest

from tests.differential.asking import ask_both, settle, unwanted
from tests.differential.cases import Case, draw_case
from tests.differential.nova import Nova
from tests.differential.reach import floors, reached
from tests.differential.rules import (
    FILTERS,
    WEIGHERS,
    Pair,
    build_filter,
    build_weigher,
    installed_filters,
    installed_weighers,
)
from tests.differential.shrinking import shrink

SEED = int(os.environ.get("BERTH_DIFFERENTIAL_SEED", "1"))
CASES = int(os.environ.get("BERTH_DIFFERENTIAL_CASES", "300"))
BLOCK = 50
TRIED = 300
SHOWN = 5


# Berth asks once where Nova asks for each instance, but no instance can change the answer.
ASKED_ONCE = {"MetricsFilter", "RetryFilter"}


def report(nova: Nova, case: Case) -> str:
    """Say what differs in the smallest part of a case that still does."""
    small = shrink(case, lambda smaller: bool(unwanted(nova, smaller)))
    found = [str(one) for one in unwanted(nova, small)[:SHOWN]]
    lines = [f"draw_case({case.name.replace('/', ', ')})", *found, "of", str(small)]
    return "\n".join(lines)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, CASES, BLOCK))
def test_both_sides_say_the_same(nova: Nova, first: int) -> None:
    """Filters alone, weighers alone, and the order of all hosts, instance after instance."""
    for number in range(first, min(first + BLOCK, CASES)):
        case = draw_case(SEED, number)
        if unwanted(nova, case):
            pytest.fail(report(nova, case))


def test_every_rule_of_nova_has_its_counterpart(nova: Nova) -> None:
    """Nothing that Nova has is left out of the comparison, and all of it is installed."""
    filters = {pair.name for pair in FILTERS}
    weighers = {pair.name for pair in WEIGHERS}
    assert filters == set(nova.facts.filters)
    assert weighers == set(nova.facts.weighers)
    assert filters <= installed_filters()
    assert weighers <= installed_weighers()


@pytest.mark.parametrize("pair", FILTERS, ids=lambda pair: pair.name)
def test_a_filter_runs_as_often_as_in_nova(nova: Nova, pair: Pair) -> None:
    """Once a request or for each instance, and on a rebuild or not."""
    rule = build_filter(pair, {})
    facts = nova.facts.filters[pair.name]
    assert rule.run_on_rebuild == facts.run_on_rebuild
    assert rule.once_per_request == (facts.once_per_request or pair.name in ASKED_ONCE)


@pytest.mark.parametrize("pair", WEIGHERS, ids=lambda pair: pair.name)
def test_a_weigher_has_novas_defaults(nova: Nova, pair: Pair) -> None:
    """Equal multipliers and ends of the scale before anybody sets an option."""
    rule = build_weigher(pair, {})
    facts = nova.facts.weighers[pair.name]
    assert rule.multiplier == facts.multiplier
    assert (rule.floor, rule.ceiling) == (facts.floor, facts.ceiling)


@pytest.mark.timeout(600)
def test_the_cases_reach_every_rule(nova: Nova) -> None:
    """Each filter lets hosts pass and removes some, often both; each weigher tells hosts apart.

    So do forced, retried and ignored hosts, groups, hints, devices and what else may be asked. The
    cases are always the same ones, since how they are drawn does not depend on the seed.
    """
    counts: Counter[str] = Counter()
    for number in range(TRIED):
        case = draw_case(0, number)
        berth, theirs = ask_both(nova, case)
        counts.update(set(reached(case, settle(case, berth, theirs), theirs)))
    short = {name: counts[name] for name, least in floors().items() if counts[name] < least}
    assert not short, f"in {TRIED} cases only"
