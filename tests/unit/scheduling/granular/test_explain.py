"""Tests for the reasons and relaxations about groups of resources."""

from collections.abc import Mapping

import numpy as np
import pytest

from berth.domain.compute.needs import Needs
from berth.domain.inventory.resources import Inventory
from berth.scheduling.granular.explain import changes, why_not
from berth.tables.host.feed import table_of
from berth.testing.fleets import GPU_MILLI, Box, Child, asking, gpus, snapshot_of

BUSY = Box("busy", children=gpus(0, 300, 700, traits=frozenset({"CUSTOM_A100"})))
FREE = Box("free", children=gpus(1000, 1000))
NETWORK = Box("net", children=(Child("nic", {"CUSTOM_NIC": Inventory(2)}),))


def needs(specs: Mapping[str, str]) -> Needs:
    """Return the needs of a small request with these extra specs."""
    return asking(specs={"group_policy": "none", **specs}).needs


def shares(*amounts: int) -> dict[str, str]:
    """Return extra specs of groups that each request an amount of a GPU."""
    return {f"resources_{n}:{GPU_MILLI}": str(one) for n, one in enumerate(amounts)}


@pytest.mark.parametrize(
    ("box", "specs", "why"),
    [
        (
            BUSY,
            shares(800),
            "group _0: 800 CUSTOM_GPU_MILLI requested, 700 at most on one provider",
        ),
        (
            BUSY,
            shares(800, 800, 800, 800, 900),
            (
                "group _4: 900 CUSTOM_GPU_MILLI requested, 700 at most on one provider; groups _0,"
                " _1, _2 and 1 more: 800 CUSTOM_GPU_MILLI requested, 700 at most on one provider"
            ),
        ),
        (
            FREE,
            {**shares(500), "trait_0:CUSTOM_A100": "required"},
            "group _0: there is no provider with trait CUSTOM_A100",
        ),
        (
            BUSY,
            {**shares(800), "trait_0:CUSTOM_A100": "required", "trait_0:CUSTOM_OLD": "forbidden"},
            (
                "group _0: 800 CUSTOM_GPU_MILLI requested, 700 at most on one provider with trait"
                " CUSTOM_A100 and without trait CUSTOM_OLD"
            ),
        ),
        (
            NETWORK,
            shares(1),
            "group _0: 1 CUSTOM_GPU_MILLI requested, 0 at most on one provider",
        ),
        (FREE, shares(700, 700, 700), "it has room for 2 of the 3 groups"),
        (
            FREE,
            {**shares(100, 100, 100), "group_policy": "isolate"},
            "it has room for 2 of the 3 groups, each with a provider of its own",
        ),
        (
            FREE,
            {"resources1:VCPU": "8"},
            "its providers cannot serve the groups in addition to the unsuffixed amounts",
        ),
        (
            BUSY,
            {"trait:CUSTOM_A100": "required"},
            "the providers of the unsuffixed amounts do not meet the traits",
        ),
    ],
)
def test_why_a_host_cannot_give(box: Box, specs: dict[str, str], why: str) -> None:
    """The reason names the groups, their amounts and the most that one provider has."""
    hosts = table_of(snapshot_of([box]))
    assert why_not(hosts, needs(specs), 0) == why


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        (
            shares(800),
            {("100 less CUSTOM_GPU_MILLI in group _0", -100, 1), ("without group _0", -1, 2)},
        ),
        (
            shares(700, 700),
            {
                ("350 less CUSTOM_GPU_MILLI in groups _0, _1", -350, 1),
                ("1 fewer of groups _0, _1", -1, 1),
            },
        ),
        (
            {**shares(200, 200, 200), "group_policy": "isolate"},
            {("1 fewer of groups _0, _1, _2", -1, 1), ("group_policy none", None, 1)},
        ),
        (
            {**shares(300), "trait_0:CUSTOM_B": "required", "trait_0:CUSTOM_C": "forbidden"},
            {("without trait CUSTOM_B in group _0", None, 1), ("without group _0", -1, 2)},
        ),
        (
            {**shares(300), "trait_0:CUSTOM_A100": "forbidden"},
            {
                ("without the ban on trait CUSTOM_A100 in group _0", None, 1),
                ("without group _0", -1, 2),
            },
        ),
        ({"trait:CUSTOM_A100": "required"}, {("without trait CUSTOM_A100", None, 2)}),
        (
            {"berth:any_trait": "CUSTOM_X|CUSTOM_A100"},
            {("without one of the traits CUSTOM_A100, CUSTOM_X", None, 2)},
        ),
    ],
)
def test_changes_that_would_help(
    specs: dict[str, str], expected: set[tuple[str, int | None, int]]
) -> None:
    """Each helpful single change is listed with its size and its number of hosts."""
    box = Box("busy", children=gpus(0, 300, 700, traits=frozenset({"CUSTOM_A100"})))
    hosts = table_of(snapshot_of([box, Box("bare")]))
    found = {
        (change.text, change.by, change.rows.size)
        for change in changes(hosts, needs(specs), np.arange(2))
        if change.rows.size
    }
    assert found == expected
