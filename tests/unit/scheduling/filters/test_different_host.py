"""DifferentHostFilter: not where the named instances are."""

from dataclasses import replace

import pytest

from berth.scheduling.filters import different_host
from berth.testing.fleets import Box, asking, resident, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = different_host.build()
A, B, C = Box("a"), Box("b"), Box("c")
SNAPSHOT = snapshot_of([A, B, C], instances=[resident("1", A), resident("2", A), resident("3", B)])


@pytest.mark.parametrize(
    ("named", "kept"),
    [
        (("1",), ["b", "c"]),
        (("2", "3"), ["c"]),
        (("nowhere",), ["a", "b", "c"]),
        ((), None),
    ],
)
def test_hosts_of_others_stay(ask: Ask, named: tuple[str, ...], kept: list[str] | None) -> None:
    """An instance that is on no host removes none."""
    request = replace(asking(), hints={"different_host": named})
    assert ask(SNAPSHOT, request).kept(RULE) == kept


def test_no_hint_asks_nothing(ask: Ask) -> None:
    """Other hints are not its business."""
    assert ask(SNAPSHOT, replace(asking(), hints={"same_host": ("1",)})).kept(RULE) is None


def test_the_reason_names_the_instances(ask: Ask) -> None:
    """And the relaxation the hint."""
    asked = ask(SNAPSHOT, replace(asking(), hints={"different_host": ("2", "1", "3")}))
    assert asked.why(RULE, 0) == "it has 1, 2"
    assert asked.relaxed(RULE, [1, 0]) == [("without the hint different_host: 2 hosts", ("a", "b"))]
