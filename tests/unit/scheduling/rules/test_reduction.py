"""Tests for the hosts that a request allows by name."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from berth.domain.compute.request import Destination
from berth.scheduling.rules.reduction import reduce_hosts
from berth.tables.host.feed import table_of
from berth.testing.fleets import Box, asking, snapshot_of

BOXES = (Box("Big", "n1"), Box("Big", "n2"), Box("a"), Box("b"), Box("gone"))


@pytest.mark.parametrize(
    ("changes", "left", "what"),
    [
        ({}, "Big Big a b", ""),
        ({"destination": Destination("Big")}, "Big Big", "requested destination"),
        ({"destination": Destination("Big", "n2")}, "Big", "requested destination"),
        ({"destination": Destination("Big", "")}, "Big Big", "requested destination"),
        ({"destination": Destination("big")}, "", "requested destination"),
        ({"destination": Destination("Big", "N2")}, "", "requested destination"),
        ({"destination": Destination("gone")}, "", "requested destination"),
        ({"ignore_hosts": ("BIG", "b", "x")}, "a", "ignored hosts"),
        ({"force_hosts": ("bIG", "A")}, "Big Big a", "forced hosts"),
        ({"force_hosts": ("x",)}, "", "forced hosts"),
        ({"force_nodes": ("n2", "a")}, "Big a", "forced nodes"),
        ({"force_nodes": ("N2", "gone")}, "", "forced nodes"),
        (
            {"force_hosts": ("big",), "force_nodes": ("n1", "a")},
            "Big",
            "forced hosts and forced nodes",
        ),
        (
            {"ignore_hosts": ("a",), "force_hosts": ("a", "b")},
            "b",
            "ignored hosts and forced hosts",
        ),
    ],
)
def test_names_are_compared_as_nova_does(changes: dict[str, Any], left: str, what: str) -> None:
    """Ignored and forced hosts ignore case; nodes and destinations do not, as in Nova."""
    hosts = table_of(snapshot_of(BOXES))
    hosts.remove_host("gone/gone")
    reduction = reduce_hosts(hosts, replace(asking(), **changes))
    assert " ".join(hosts.names(np.flatnonzero(reduction.mask))) == left
    assert reduction.what == what
    assert reduction.forced == any(key.startswith("force") for key in changes)


def test_an_empty_fleet_is_reduced_to_nothing() -> None:
    """The mask of an empty fleet is empty."""
    request = replace(asking(), ignore_hosts=("a",), force_nodes=("b",))
    assert reduce_hosts(table_of(snapshot_of([])), request).mask.tolist() == []
