"""Plans over zones, compared with those of one scheduler."""

from dataclasses import replace

from bench.cases import ZoneCases, load_cases
from bench.zone_plans import measure, plan_lines, plan_measures


def small() -> ZoneCases:
    """Return small cases that take little time."""
    cases = load_cases(quick=True).zones
    return replace(cases, zones=4, plan_hosts=20, plan_instances=15, policies=("spread", "nova"))


def test_what_zones_cannot_compare_is_found() -> None:
    """A policy whose weights cannot be compared across zones falls short of one scheduler."""
    found = measure(small())
    assert [(one.policy, one.compares, one.zones_alike) for one in found] == [
        ("spread", True, False),
        ("nova", False, False),
        ("nova", False, True),
    ]
    spread, nova, alike = found
    assert spread.short_pct == 0.0
    assert nova.short_pct > max(1.0, alike.short_pct)
    assert plan_measures(found) == {
        "zones.plan_short_pct": 0.0,
        "zones.plan_short_others_pct": alike.short_pct,
    }
    assert len(list(plan_lines(found))) == 3


def test_what_was_not_measured_has_no_figure() -> None:
    """Without measurements, there are no measures, so no floor can be met by them."""
    assert plan_measures(()) == {}
