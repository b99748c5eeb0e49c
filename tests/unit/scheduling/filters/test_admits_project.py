"""AggregateMultiTenancyIsolation: hosts that are kept for projects."""

from dataclasses import replace

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.scheduling.filters import admits_project
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = admits_project.build()


def aggregate(number: int, hosts: str, **metadata: str) -> Aggregate:
    """Return an aggregate of hosts with names of one letter."""
    return Aggregate(number, f"u{number}", f"n{number}", frozenset(hosts), metadata)


FLEET = snapshot_of(
    [Box("a"), Box("b"), Box("c"), Box("d")],
    aggregates=[
        aggregate(1, "ab", filter_tenant_id="p1"),
        aggregate(2, "b", filter_tenant_id=" p2 ,p3,", filter_tenant_id_more="p4"),
        aggregate(3, "ac", ssd="p9", my_filter_tenant_id="p9"),
        aggregate(4, "d", filter_tenant_id_x=""),
    ],
)


@pytest.mark.parametrize(
    ("project", "kept"),
    [
        ("p1", ["a", "b", "c"]),
        ("p2", ["b", "c"]),
        ("p3", ["b", "c"]),
        ("p4", ["b", "c"]),
        ("p9", ["c"]),
        ("P1", ["c"]),
        ("", ["c"]),
    ],
)
def test_hosts_that_list_projects_are_for_those_alone(
    ask: Ask, project: str, kept: list[str]
) -> None:
    """Any key with the prefix counts; lists of several aggregates add up; an empty list is one."""
    assert ask(FLEET, replace(asking(), project_id=project)).kept(RULE) == kept


def test_without_such_keys_all_hosts_are_open(ask: Ask) -> None:
    """To whomever."""
    asked = ask(snapshot_of([Box("a")]), replace(asking(), project_id="p1"))
    assert asked.kept(RULE) == ["a"]


def test_the_reason_names_the_projects_and_the_relaxation_does_not(ask: Ask) -> None:
    """Reasons are for operators, relaxations for whoever asked."""
    asked = ask(FLEET, replace(asking(), project_id="p9"))
    assert asked.why(RULE, 1) == "it is kept for the projects p1, p2, p3, p4, not for p9"
    assert asked.why(RULE, 3) == "it is kept for the projects nothing, not for p9"
    assert asked.relaxed(RULE, [0, 1]) == [
        ("without being kept for other projects: 2 hosts", ("a", "b"))
    ]
    nobody = ask(FLEET, asking())
    assert nobody.why(RULE, 0) == "it is kept for the projects p1, not for a request of no project"


def test_it_is_asked_once_a_request() -> None:
    """Instances change no aggregate."""
    assert RULE.once_per_request
    assert not RULE.on_forced
