"""Tests for dry runs and for decisions under contention."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.domain.compute.decision import Decision, Relaxation, TriedDecision, Verdict
from berth.ports.observer import NullObserver
from berth.scheduling.drivers import chance
from berth.scheduling.evaluation.ranking import FullRanking
from berth.scheduling.evaluation.weighing import weigh
from berth.scheduling.plan import inspection
from berth.scheduling.plan.inspection import inspect
from berth.scheduling.rules.rule import Normalisation, Query, Weigher
from berth.services.decisions.decisions import DecisionService
from berth.tables.columnar.bitsets import Rows
from berth.tables.host.hosts import HostTable
from berth.testing.builders import make_flavor, make_request
from tests.unit.services import wiring
from tests.unit.services.wiring import Fleet, open_desk


def _record(decision: Decision) -> Decision:
    """Return the decision as it is recorded, without its duration."""
    names = Decision.__dataclass_fields__
    return Decision(**{name: getattr(decision, name) for name in names} | {"duration_us": 0})


async def test_a_dry_run_names_who_would_have_won_of_all_hosts() -> None:
    """A dry run has the counterfactuals of all hosts and otherwise equals the decision."""
    desk = await open_desk(Fleet(hosts=12, vcpus=40))
    request = make_request(1, count=2)
    tried = desk.decision_service.try_out(request)
    assert isinstance(tried, TriedDecision)
    assert _record(tried) == _record(desk.decision_service.decide(request))
    whole = inspect(
        desk.replica.hosts,
        request,
        wiring.POLICY,
        now_s=tried.decided_at_s,
        seed=tried.seed,
    )
    assert len(tried.counterfactuals) > 2
    assert tried.counterfactuals == whole.instances[0].counterfactuals


async def test_only_the_first_instance_is_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run weighs the hosts again only for the first instance."""
    desk = await open_desk(Fleet(hosts=12, vcpus=40))
    weighed: list[str] = []

    def counting(
        hosts: HostTable,
        query: Query,
        rows: Rows,
        weighers: Sequence[Weigher],
        normalisation: Normalisation,
    ) -> FullRanking:
        weighed.append(query.instance_uuid)
        return weigh(hosts, query, rows, weighers, normalisation)

    monkeypatch.setattr(inspection, "weigh", counting)
    request = make_request(1, count=9)
    assert desk.decision_service.try_out(request).counterfactuals
    assert weighed == [request.instance_uuids[0]]


async def test_nothing_is_told_where_no_weigher_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run has no counterfactuals for a refusal or a driver without weighers."""
    desk = await open_desk(Fleet(hosts=3))
    wide = replace(make_request(1), flavor=make_flavor(vcpus=9_999))
    refused = desk.decision_service.try_out(wide)
    assert (refused.verdict, refused.counterfactuals) == (Verdict.REFUSED, ())
    by_chance = replace(wiring.POLICY, driver=chance.build())
    monkeypatch.setattr(wiring, "POLICY", by_chance)
    tried = desk.decision_service.try_out(make_request(2))
    assert (tried.verdict, tried.counterfactuals) == (Verdict.PLACED, ())


async def test_an_error_of_a_filter_is_logged_once_a_minute_and_counted_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A filter that cannot propose changes costs a refusal its hints, and operators learn of it."""
    desk, counts = await open_desk(Fleet(hosts=2)), Counter[str]()

    class Counting(NullObserver):
        def rule_failed(self, rule: str, error: Exception) -> None:
            assert isinstance(error, ZeroDivisionError)
            counts[rule] += 1

    def fail(*_: object) -> tuple[Relaxation, ...]:
        raise ZeroDivisionError

    broken = [
        replace(one, relax=fail) if one.name == "ResourcesFilter" else one
        for one in wiring.POLICY.filters
    ]
    monkeypatch.setattr(wiring, "POLICY", replace(wiring.POLICY, filters=tuple(broken)))
    service = DecisionService(desk.replica, desk.policies, desk.clock, Counting(), desk.told)
    wide = replace(make_request(1), flavor=make_flavor(vcpus=9_999))
    for _ in range(3):
        decision = service.decide(wide)
        assert decision.refusal is not None
        assert decision.refusal.filters
    assert counts == {"ResourcesFilter": 3}
    assert desk.told.failed == ["rule_failed"]
    monkeypatch.setattr(desk.clock, "now_s", lambda: 10.0**10)
    service.decide(wide)
    assert desk.told.failed == ["rule_failed"] * 2


async def test_who_loses_claims_to_others_chooses_among_more_hosts() -> None:
    """After lost claims decisions spread over more hosts, deterministically for each request."""
    desk = await open_desk(Fleet(hosts=12, vcpus=40))
    requests = [make_request(number) for number in range(1, 30)]
    calm = [desk.decision_service.decide(one) for one in requests]
    assert {one.chosen_among for one in calm} == {1}
    assert len({one.placements[0].host for one in calm}) == 1
    for _ in range(3):
        desk.decision_service.note_claim(is_lost=True)
    fought = [desk.decision_service.decide(one) for one in requests]
    assert {one.chosen_among for one in fought} == {8}
    assert 4 < len({one.placements[0].host for one in fought}) <= 8
    again = [desk.decision_service.decide(one) for one in requests]
    assert [*map(_record, again)] == [*map(_record, fought)]


async def test_a_changed_policy_takes_effect_under_contention(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Decisions among more hosts follow the policy in force, not the one when claims were lost."""
    desk = await open_desk(Fleet(hosts=12, vcpus=40))
    for _ in range(3):
        desk.decision_service.note_claim(is_lost=True)
    before = desk.decision_service.decide(make_request(1))
    assert desk.decision_service.decide(make_request(1)).policy_hash == before.policy_hash
    changed = replace(wiring.POLICY, hash="another")
    monkeypatch.setattr(wiring, "POLICY", changed)
    after = desk.decision_service.decide(make_request(1))
    assert (after.policy_hash, after.chosen_among) == ("another", 8)
    assert after.placements == before.placements
