"""Tests for the number of further instances that would fit."""

from dataclasses import replace

import pytest

from berth.domain.compute.flavor import Flavor
from berth.scheduling.plan.capacity import capacity_for
from berth.tables.host.feed import table_of
from berth.testing.fleets import NOW_S, Box, asking, policy_of, sized, snapshot_of
from berth.testing.trees import GPU_MILLI, gpus

SNAPSHOT = snapshot_of(
    [
        Box("a", inventories=sized(8, 8192, 100)),
        Box("b", inventories=sized(8, 2048, 100), used={"VCPU": 7}),
        Box("down", disabled=True),
        Box("full", used={"MEMORY_MB": 9000}),
    ]
)


@pytest.mark.parametrize(
    ("flavor", "counts"),
    [
        (Flavor("1", "f", 1, 1024, 10), [8, 1]),
        (Flavor("1", "f", 1, 2000), [4, 1]),
        (Flavor("1", "f", 2, 1), [4]),
        (Flavor("1", "f", 99, 1), []),
        (Flavor("1", "f", 0, 0), [1, 1, 1]),
    ],
)
def test_the_scarcest_class_decides(flavor: Flavor, counts: list[int]) -> None:
    """The scarcest class limits each host; a flavor without needs counts once per host."""
    found = capacity_for(table_of(SNAPSHOT), asking(flavor), policy_of(), now_s=NOW_S)
    assert found.counts.tolist() == counts
    assert found.total == sum(counts)


def test_without_the_filter_for_resources_a_full_host_takes_none() -> None:
    """Without ResourcesFilter a full host counts 0, and a class that no host has gives 0."""
    request = asking(Flavor("1", "f", 1, 1024))
    found = capacity_for(table_of(SNAPSHOT), request, policy_of(filters=[]), now_s=NOW_S)
    assert found.counts.tolist() == [8, 1, 8, 0]
    specs = {"resources:CUSTOM_NOWHERE": "1"}
    odd = replace(request, flavor=replace(request.flavor, extra_specs=specs))
    found = capacity_for(table_of(SNAPSHOT), odd, policy_of(filters=[]), now_s=NOW_S)
    assert found.total == 0


def test_shares_of_devices_are_counted_on_each_host() -> None:
    """Shares of devices are counted on each host."""
    boxes = [Box("a", children=gpus(1000, 700)), Box("b", children=gpus(300)), Box("none")]
    flavor = Flavor("1", "f", 1, 512, extra_specs={f"resources1:{GPU_MILLI}": "300"})
    found = capacity_for(table_of(snapshot_of(boxes)), asking(flavor), policy_of(), now_s=NOW_S)
    assert found.counts.tolist() == [5, 1]
    plain = Flavor("1", "f", 1, 512)
    found = capacity_for(table_of(snapshot_of(boxes)), asking(plain), policy_of(), now_s=NOW_S)
    assert found.counts.tolist() == [8, 8, 8]
    nothing = Flavor("1", "f", 0, 0)
    found = capacity_for(table_of(snapshot_of(boxes)), asking(nothing), policy_of(), now_s=NOW_S)
    assert found.counts.tolist() == [1, 1, 1]
