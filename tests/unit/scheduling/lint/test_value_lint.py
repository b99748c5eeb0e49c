"""Tests for linting the values of weighers."""

from dataclasses import replace

import numpy as np
import pytest

from berth.config.policy_file import parse_policy
from berth.config.ready_policies import READY, ready_text
from berth.scheduling.lint.policy_lint import lint_fleet
from berth.scheduling.rules.rule import Normalisation, Query, Raw, Reads, Scores, Weigher
from berth.tables.columnar.bitsets import Selection
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S, Box, all_weighers, asking, policy_of, snapshot_of

FLEET = snapshot_of(
    [Box("a"), Box("b", used={"VCPU": 30, "MEMORY_MB": 99_999}), Box("c", disabled=True)]
)
FLAVOR = replace(asking().flavor, name="small")


def giving(*values: float) -> Raw:
    """Return a measure that gives row i the i-th value."""

    def measure(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        return np.array(values, dtype=np.float64)[rows]

    return measure


@pytest.mark.parametrize(
    ("normalisation", "values", "text"),
    [
        (Normalisation.SHARE, (0.0, np.nan, np.nan), "returns nan on 2 hosts"),
        (Normalisation.SHARE, (0.0, np.inf, 1.0), "returns inf on 1 host"),
        (
            Normalisation.SHARE,
            (0.0, 0.5, 1.5),
            "returns 1.5, not a share in [0, 1], on 1 host",
        ),
        (
            Normalisation.SHARE,
            (-0.25, 0.5, 1.0),
            "returns -0.25, not a share in [0, 1], on 1 host",
        ),
        (Normalisation.NOVA, (0.0, -np.inf, 1.0), "returns -inf on 1 host"),
    ],
)
def test_values_that_are_none_are_told_of_once(
    normalisation: Normalisation, values: tuple[float, ...], text: str
) -> None:
    """Invalid values are reported once, with the first flavor that causes them."""
    weigher = Weigher("Odd", giving(*values), Reads((), ()), share=giving(*values))
    policy = replace(policy_of(weighers=[weigher]), normalisation=normalisation)
    flavors = [FLAVOR, replace(FLAVOR, flavor_id="2", name="other")]
    found = lint_fleet(policy, table_of(FLEET), flavors, now_s=NOW_S)
    told = [one.text for one in found if one.where == "weigher Odd"]
    assert told == [f"{text} for flavor small; correct the plugin"]


@pytest.mark.parametrize(
    ("normalisation", "values"),
    [(Normalisation.SHARE, (0.0, 1.0 + 1e-12, 0.5)), (Normalisation.NOVA, (-7.0, 8e9, 0.0))],
)
def test_sound_values_are_not_talked_about(
    normalisation: Normalisation, values: tuple[float, ...]
) -> None:
    """Values within rounding of a share, and any finite raw values, are not reported."""
    weigher = Weigher("Fine", giving(*values), Reads((), ()), share=giving(*values))
    policy = replace(policy_of(weighers=[weigher]), normalisation=normalisation)
    found = lint_fleet(policy, table_of(FLEET), [FLAVOR], now_s=NOW_S)
    assert [one for one in found if one.where == "weigher Fine"] == []


@pytest.mark.parametrize("name", READY)
def test_ready_policies_measure_what_they_should(name: str) -> None:
    """The weighers of ready policies return valid values, even on an overcommitted host."""
    policy = parse_policy(ready_text(name), name)
    found = lint_fleet(policy, table_of(FLEET), [FLAVOR], now_s=NOW_S)
    assert [one for one in found if "correct the plugin" in one.text] == []


@pytest.mark.parametrize("normalisation", Normalisation)
def test_berths_own_weighers_measure_what_they_should(normalisation: Normalisation) -> None:
    """All of Berth's weighers return valid values, raw and as shares."""
    weighers = [one for one in all_weighers([1.0] * 20) if one.share is not None]
    policy = replace(policy_of(weighers=weighers), normalisation=normalisation)
    found = lint_fleet(policy, table_of(FLEET), [FLAVOR], now_s=NOW_S)
    assert [one for one in found if "correct the plugin" in one.text] == []


def test_an_empty_fleet_is_not_asked() -> None:
    """Weighers are not called on an empty fleet."""

    def fail(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        raise AssertionError

    policy = policy_of(weighers=[Weigher("Odd", fail, Reads((), ()))])
    found = lint_fleet(policy, table_of(snapshot_of([])), [FLAVOR], now_s=NOW_S)
    assert [one for one in found if one.where == "weigher Odd"] == []
