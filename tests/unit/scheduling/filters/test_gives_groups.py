"""Tests for GranularGroupsFilter."""

import numpy as np
import pytest

from berth.domain.inventory.resources import Inventory
from berth.scheduling.filters import fits_resources, gives_groups, has_traits
from berth.testing.fleets import GPU_MILLI, Box, Child, asking, gpus, snapshot_of
from tests.unit.scheduling.conftest import Ask

RULE = gives_groups.build()

FLEET = snapshot_of(
    [
        Box("bare"),
        Box("busy", children=gpus(0, 300, 700)),
        Box("free", children=gpus(1000, 1000, traits=frozenset({"CUSTOM_A100"}))),
        Box("vgpu", children=(Child("pf", {"VGPU": Inventory(4)}, traits=frozenset({"X"})),)),
    ]
)
SHARE = {f"resources_GPU:{GPU_MILLI}": "500"}


@pytest.mark.parametrize(
    ("specs", "kept"),
    [
        ({}, None),
        ({"resources:VGPU": "1"}, None),
        (SHARE, ["busy", "free"]),
        ({**SHARE, "trait_GPU:CUSTOM_A100": "required"}, ["free"]),
        ({**SHARE, "trait_GPU:CUSTOM_A100": "forbidden"}, ["busy"]),
        ({"trait:CUSTOM_A100": "required"}, ["bare", "busy", "vgpu"]),
        ({"resources:VGPU": "1", "trait:X": "required"}, ["bare", "busy", "free", "vgpu"]),
        ({"resources:VGPU": "1", "trait:X": "forbidden"}, ["bare", "busy", "free"]),
    ],
)
def test_hosts_whose_providers_give_all_groups_stay(
    ask: Ask, specs: dict[str, str], kept: list[str] | None
) -> None:
    """Hosts stay if their providers can serve all groups and the traits of the request."""
    assert ask(FLEET, asking(specs=specs)).kept(RULE) == kept


def test_together_with_the_other_filters_a_tree_gives_what_placement_would(ask: Ask) -> None:
    """Together with the other filters the result is that of Placement for a tree."""
    rules = (fits_resources.build(), has_traits.build(), RULE)
    for specs, expected in (
        ({"resources:VGPU": "1", "trait:X": "required"}, {"vgpu"}),
        ({"resources:VGPU": "1"}, {"vgpu"}),
        ({"resources:VGPU": "5"}, set()),
        ({"trait:X": "required"}, set()),
    ):
        asked = ask(FLEET, asking(specs=specs))
        passed = set(asked.hosts.names(range(4)))
        for rule in rules:
            kept = asked.kept(rule)
            passed &= passed if kept is None else set(kept)
        assert passed == expected, specs


def test_it_says_why_and_what_would_help(ask: Ask) -> None:
    """The reason and the relaxations name the group and the amount."""
    asked = ask(FLEET, asking(specs={f"resources_GPU:{GPU_MILLI}": "800"}))
    assert asked.why(RULE, 1) == (
        "group _GPU: 800 CUSTOM_GPU_MILLI requested, 700 at most on one provider"
    )
    assert asked.relaxed(RULE, [0, 1]) == [
        ("100 less CUSTOM_GPU_MILLI in group _GPU: 1 host", ("busy",)),
        ("without group _GPU: 2 hosts", ("bare", "busy")),
    ]


def test_what_is_held_counts(ask: Ask) -> None:
    """Holds of child providers count as used."""
    asked = ask(FLEET, asking(specs=SHARE))
    uuid = asked.hosts.trees.uuids_on(1)[2]
    asked.hosts.trees.hold(uuid, {GPU_MILLI: 500})
    assert asked.kept(RULE) == ["free"]
    rows = np.array([1, 2])
    verdict = RULE.keep(asked.hosts, asked.query, rows)
    assert verdict is not None
    assert verdict.tolist() == [False, True]
