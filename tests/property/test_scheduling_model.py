"""The filter scheduler makes the decisions of a plain model of Nova's rules."""

from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from berth.domain.compute.decision import Placement
from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.change import Snapshot
from berth.scheduling.rules import operators
from berth.tables.host.feed import table_of
from berth.testing.fleet_strategies import requests, snapshots
from berth.testing.fleets import NOW_S, WEIGHERS, all_weighers, policy_of
from tests.property.reference_model import NEGLIGIBLE, Model, Step, matches

MULTIPLIERS = st.tuples(*[st.sampled_from((1.0, 1.0, -1.0, 0.0, 2.5))] * WEIGHERS)


def check_scores(placement: Placement, step: Step, off: frozenset[str]) -> None:
    """Check all survivors of a placement, their values and their scores against the model."""
    scored = [placement.chosen, *placement.runners_up]
    assert {(one.host, one.node) for one in scored} == step.survivors
    assert placement.candidates == len(step.survivors)
    for one in scored:
        key = (one.host, one.node)
        parts = {part.weigher: part for part in one.parts}
        assert one.score == pytest.approx(step.scores[key], abs=NEGLIGIBLE)
        for name, values in step.raw.items():
            if name in parts:
                assert parts[name].raw == pytest.approx(values[key], abs=NEGLIGIBLE)
                expected = step.normalised[name][key]
                assert parts[name].normalised == pytest.approx(expected, abs=NEGLIGIBLE)
            elif len(scored) > 1 and name not in off:  # else it gives all hosts the same
                assert not any(step.normalised[name].values())


@given(snapshot=snapshots(least=1), request=requests(), multipliers=MULTIPLIERS)
def test_every_step_is_as_the_model_says(
    snapshot: Snapshot, request: Request, multipliers: tuple[float, ...]
) -> None:
    """Survivors, raw and normalised values, scores and choices are those of the model."""
    weighers = all_weighers(multipliers)
    policy = policy_of(weighers=weighers)
    try:
        plan = policy.driver.plan(table_of(snapshot), request, policy, now_s=NOW_S, seed=0)
    except InvalidInputError:
        event("contradicting traits")
        return
    placed = len(plan.placements) if plan.refusal is None else plan.refusal.placed
    model = Model(snapshot, request, {w.name: w.multiplier for w in weighers}, NOW_S)
    placements = list(plan.placements)
    if plan.refusal and placed:  # plan only the instances that fit
        fewer = replace(request, instance_uuids=request.instance_uuids[:placed])
        first = policy.driver.plan(table_of(snapshot), fewer, policy, now_s=NOW_S, seed=0)
        placements = list(first.placements)
    off = frozenset(weigher.name for weigher in weighers if not weigher.multiplier)
    event(f"placed {placed} of {len(request.instance_uuids)}")
    for placement in placements:
        step = model.step(placement.instance_uuid)
        check_scores(placement, step, off)
        assert (placement.host, placement.node) == step.best()
        model.consume((placement.host, placement.node), placement.instance_uuid)
    if plan.refusal:
        assert model.step(request.instance_uuids[placed]).survivors == set()


WORDS = st.sampled_from(
    ("=", "==", "!=", ">=", "<=", "s==", "s!=", "s<", "s<=", "s>", "s>=", "<in>", "<all-in>")
)


@given(
    value=st.one_of(st.integers(-3, 3).map(str), st.text(max_size=4), st.floats().map(str)),
    sign=st.one_of(WORDS, st.just(""), st.text(max_size=3)),
    operand=st.one_of(st.integers(-3, 3).map(str), st.text(max_size=4), st.floats().map(str)),
)
def test_operators_are_as_the_model_says(value: str, sign: str, operand: str) -> None:
    """Any text as value, operator and operand gives the model's verdict and raises no error."""
    requirement = f"{sign} {operand}"
    assert operators.matches(value, requirement) == matches(value, requirement)
