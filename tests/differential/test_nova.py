"""Berth's rules against the real Nova: every verdict, every value, every order."""

import os

import pytest

from tests.differential.answers import Answer
from tests.differential.asking import ask_about, unwanted
from tests.differential.cases import Case, draw_case
from tests.differential.nova import Nova
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
TRIED = 150
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


def seen(answer: Answer) -> set[tuple[str, object]]:
    """Say which verdicts each filter gave, and which weighers told hosts apart."""
    verdicts: set[tuple[str, object]] = {
        (name, one) for name, found in answer.filters.items() for one in found
    }
    weighers = answer.weighers.items()
    return verdicts | {(name, "apart") for name, one in weighers if any(one.normalised)}


def test_the_cases_try_every_rule(nova: Nova) -> None:
    """Each filter lets hosts pass and removes some; each weigher tells some hosts apart."""
    found: set[tuple[str, object]] = set()
    together = 0
    for number in range(TRIED):
        answer, _ = ask_about(nova, draw_case(SEED, number))
        found |= seen(answer)
        together += not isinstance(answer.steps, str) and len(answer.steps) > 0
    expected: set[tuple[str, object]] = {(pair.name, True) for pair in FILTERS}
    expected |= {(pair.name, False) for pair in FILTERS if pair.name != "AllHostsFilter"}
    expected |= {(pair.name, "apart") for pair in WEIGHERS}
    assert expected - found == set()
    assert together > 0.8 * TRIED
