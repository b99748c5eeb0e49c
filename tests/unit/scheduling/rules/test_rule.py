"""Tests for the declarations of rules and for examples of hosts."""

from dataclasses import replace

import numpy as np
import pytest

from berth.scheduling.engine.keys import unknown_reads
from berth.scheduling.rules.rule import Filter, Reads, Weigher, count_hosts, example_names, without
from berth.tables.host.feed import table_of
from berth.testing.fleets import WEIGHERS, Box, all_filters, all_weighers, snapshot_of

HOSTS = table_of(snapshot_of([Box(name) for name in "fbdace"]))
RULES = [*all_filters(), *all_weighers((1.0,) * WEIGHERS)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_what_a_rule_reads_exists(rule: Filter | Weigher) -> None:
    """Every path and column that a rule declares exists."""
    assert unknown_reads(rule) == ()


def test_what_is_nowhere_to_be_read_is_told() -> None:
    """Unknown paths and columns of a rule are listed."""
    paths = ("flavour", "flavor.colour", "hints.x", "needs.amounts", "image", "now_s", "hints")
    rule = replace(all_filters()[0], reads=Reads(request=paths, columns=("used", "rooms")))
    assert unknown_reads(rule) == ("flavour", "flavor.colour", "rooms")


def test_examples_are_the_first_by_name() -> None:
    """Examples are the first three hosts by name."""
    assert example_names(HOSTS, HOSTS.alive_rows()) == ("a", "b", "c")
    assert example_names(HOSTS, np.array([0, 2])) == ("d", "f")
    assert example_names(HOSTS, np.array([], dtype=np.intp)) == ()


def test_without_counts_hosts() -> None:
    """The relaxation counts the hosts; without hosts there is none."""
    (relaxation,) = without("F", "s", "the thing", HOSTS, np.array([3, 0]))
    assert (relaxation.text, relaxation.hosts) == ("without the thing: 2 hosts", 2)
    assert relaxation.examples == ("a", "f")
    assert without("F", "s", "the thing", HOSTS, np.array([], dtype=np.intp)) == []


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 hosts"), (1, "1 host"), (1_234, "1,234 hosts")]
)
def test_hosts_are_counted_in_words(count: int, words: str) -> None:
    """Hosts are counted with singular and plural and thousands separators."""
    assert count_hosts(count) == words
