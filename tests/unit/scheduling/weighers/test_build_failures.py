"""Tests for BuildFailureWeigher."""

import pytest

from berth.scheduling.weighers import build_failures
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

SNAPSHOT = snapshot_of(
    [
        Box("new", failed_builds=4),
        Box("older", failed_builds=4, failed_s=90.0),
        Box("old", failed_builds=1, failed_s=1000.0),
        Box("ahead", failed_builds=2, failed_s=-50.0),
        Box("good"),
    ]
)


def test_failures_count_until_a_success(ask: Ask) -> None:
    """Failures count fully until a success, as in Nova."""
    asked = ask(SNAPSHOT, asking())
    assert asked.raw(build_failures.build()) == [4.0, 4.0, 1.0, 2.0, 0.0]
    shares = [4 / 5, 4 / 5, 1 / 2, 2 / 3, 0.0]
    assert asked.shares(build_failures.build()) == pytest.approx(shares)


def test_failures_decay(ask: Ask) -> None:
    """Failures decay linearly with age; a time in the future counts as now."""
    asked = ask(SNAPSHOT, asking())
    weigher = build_failures.build(decay_s=100.0)
    assert asked.raw(weigher) == pytest.approx([4.0, 0.4, 0.0, 2.0, 0.0])
    assert asked.shares(weigher) == pytest.approx([4 / 5, 0.4 / 1.4, 0.0, 2 / 3, 0.0])


def test_by_tenant_the_agents_level_is_read(ask: Ask) -> None:
    """With `by_tenant` the failure level is read instead of the count and the time."""
    asked = ask(snapshot_of([Box("a", failed_builds=9), Box("b", failure_level=1.5)]), asking())
    weigher = build_failures.build(by_tenant=True)
    assert asked.raw(weigher) == [0.0, 1.5]
    assert asked.shares(weigher) == pytest.approx([0.0, 0.6])
    assert weigher.reads.request == ()
    with pytest.raises(ValueError, match="must be left out with by_tenant"):
        build_failures.build(by_tenant=True, decay_s=1.0)


def test_the_multiplier_is_negated() -> None:
    """The multiplier is negated, as failures count against a host."""
    weigher = build_failures.build(multiplier=3.0)
    assert (weigher.name, weigher.multiplier) == ("BuildFailureWeigher", -3.0)
    assert (weigher.multiplier_key, weigher.is_penalty) == ("build_failure_weight_multiplier", True)
    assert build_failures.build().multiplier == -1_000_000.0


def test_only_decay_reads_the_time() -> None:
    """The weigher reads the time only with `decay_s`."""
    assert build_failures.build().reads.request == ()
    assert build_failures.build(decay_s=1.0).reads.request == ("now_s",)


def test_a_decay_is_not_below_0() -> None:
    """A negative `decay_s` is refused."""
    with pytest.raises(ValueError, match="decay_s: -1"):
        build_failures.build(decay_s=-1.0)
