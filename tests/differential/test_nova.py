"""Berth's rules against the real Nova: all verdicts, values and orders."""

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


# Berth runs these filters once per request and Nova for each instance, with equal verdicts.
ASKED_ONCE = {"MetricsFilter", "RetryFilter"}


def report(nova: Nova, case: Case) -> str:
    """Return the differences in the smallest part of a case that still differs."""
    small = shrink(case, lambda smaller: bool(unwanted(nova, smaller)))
    found = [str(one) for one in unwanted(nova, small)[:SHOWN]]
    lines = [f"draw_case({case.name.replace('/', ', ')})", *found, "of", str(small)]
    return "\n".join(lines)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, CASES, BLOCK))
def test_both_sides_say_the_same(nova: Nova, first: int) -> None:
    """Both sides agree on filters and weighers alone, and on the order of hosts per instance."""
    for number in range(first, min(first + BLOCK, CASES)):
        case = draw_case(SEED, number)
        if unwanted(nova, case):
            pytest.fail(report(nova, case))


def test_every_rule_of_nova_has_its_counterpart(nova: Nova) -> None:
    """Every rule of Nova is in the comparison and is installed in Berth."""
    filters = {pair.name for pair in FILTERS}
    weighers = {pair.name for pair in WEIGHERS}
    assert filters == set(nova.facts.filters)
    assert weighers == set(nova.facts.weighers)
    assert filters <= installed_filters()
    assert weighers <= installed_weighers()


@pytest.mark.parametrize("pair", FILTERS, ids=lambda pair: pair.name)
def test_a_filter_runs_as_often_as_in_nova(nova: Nova, pair: Pair) -> None:
    """A filter runs once per request or per instance, and on rebuilds or not, as in Nova."""
    rule = build_filter(pair, {})
    facts = nova.facts.filters[pair.name]
    assert rule.run_on_rebuild == facts.run_on_rebuild
    assert rule.once_per_request == (facts.once_per_request or pair.name in ASKED_ONCE)


@pytest.mark.parametrize("pair", WEIGHERS, ids=lambda pair: pair.name)
def test_a_weigher_has_novas_defaults(nova: Nova, pair: Pair) -> None:
    """A weigher's default multiplier, floor and ceiling are Nova's."""
    rule = build_weigher(pair, {})
    facts = nova.facts.weighers[pair.name]
    assert rule.multiplier == facts.multiplier
    assert (rule.floor, rule.ceiling) == (facts.floor, facts.ceiling)


@pytest.mark.timeout(600)
def test_the_cases_reach_every_rule(nova: Nova) -> None:
    """The fixed cases reach every rule and feature often enough.

    Each filter passes and removes hosts, often both, and each weigher distinguishes hosts. Forced,
    retried and ignored hosts, groups, hints and devices occur. The cases are those of seed 0.
    """
    counts: Counter[str] = Counter()
    for number in range(TRIED):
        case = draw_case(0, number)
        berth, theirs = ask_both(nova, case)
        counts.update(set(reached(case, settle(case, berth, theirs), theirs)))
    short = {name: counts[name] for name, least in floors().items() if counts[name] < least}
    assert not short, f"in {TRIED} cases only"
