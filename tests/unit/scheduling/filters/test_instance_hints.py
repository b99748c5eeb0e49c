"""Tests for DifferentHostFilter and SameHostFilter."""

from dataclasses import replace

import pytest

from berth.scheduling.filters.instance_hints import build_different_host, build_same_host
from berth.scheduling.rules.rule import Filter
from berth.testing.fleets import Box, asking, resident, snapshot_of
from tests.unit.scheduling.conftest import Ask

DIFFERENT, SAME = build_different_host(), build_same_host()
A, B, C = Box("a"), Box("b"), Box("c")
SNAPSHOT = snapshot_of([A, B, C], instances=[resident("1", A), resident("2", A), resident("3", B)])


@pytest.mark.parametrize(
    ("rule", "hint", "named", "kept"),
    [
        (DIFFERENT, "different_host", ("1",), ["b", "c"]),
        (DIFFERENT, "different_host", ("2", "3"), ["c"]),
        (DIFFERENT, "different_host", ("nowhere",), ["a", "b", "c"]),
        (DIFFERENT, "different_host", (), None),
        (DIFFERENT, "same_host", ("1",), None),
        (SAME, "same_host", ("1",), ["a"]),
        (SAME, "same_host", ("1", "3"), ["a", "b"]),
        (SAME, "same_host", ("nowhere",), []),
        (SAME, "same_host", (), None),
        (SAME, "different_host", ("1",), None),
    ],
)
def test_only_the_instances_of_the_own_hint_count(
    ask: Ask, rule: Filter, hint: str, named: tuple[str, ...], kept: list[str] | None
) -> None:
    """Each filter reads its own hint, and instances without a host are ignored."""
    assert ask(SNAPSHOT, replace(asking(), hints={hint: named})).kept(rule) == kept


def test_the_reason_names_the_instances(ask: Ask) -> None:
    """The reason names the instances, the relaxation the hint."""
    asked = ask(SNAPSHOT, replace(asking(), hints={"different_host": ("2", "1", "3")}))
    assert asked.why(DIFFERENT, 0) == "it has 1, 2"
    assert asked.relaxed(DIFFERENT, [1, 0]) == [
        ("without the hint different_host: 2 hosts", ("a", "b"))
    ]
    asked = ask(SNAPSHOT, replace(asking(), hints={"same_host": ("1", "3")}))
    assert asked.why(SAME, 2) == "it has none of 1, 3"
    assert asked.relaxed(SAME, [2]) == [("without the hint same_host: 1 host", ("c",))]
