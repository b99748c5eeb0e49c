"""Tests for IoOpsWeigher and NumInstancesWeigher."""

from collections.abc import Callable

import pytest

from berth.domain.compute.instance import Task
from berth.scheduling.rules.rule import Weigher
from berth.scheduling.weighers import host_load
from berth.testing.fleets import Box, asking, resident, snapshot_of
from tests.unit.scheduling.conftest import Ask

BUSY, FULL, IDLE = Box("busy"), Box("full"), Box("idle")
SNAPSHOT = snapshot_of(
    [BUSY, FULL, IDLE],
    instances=[
        *(resident(f"new-{n}", BUSY, task=Task.SPAWNING) for n in range(2)),
        *(resident(f"old-{n}", FULL) for n in range(3)),
        resident("going", FULL, task=Task.DELETING),
    ],
)


def test_builds_are_counted(ask: Ask) -> None:
    """IoOpsWeigher counts instances that are being built; the share is 1/2 at the scale."""
    asked = ask(SNAPSHOT, asking())
    assert asked.raw(host_load.build_io_ops()) == [2.0, 0.0, 0.0]
    assert asked.shares(host_load.build_io_ops(scale=2.0)) == [0.5, 0.0, 0.0]


def test_instances_are_counted(ask: Ask) -> None:
    """NumInstancesWeigher counts all instances."""
    asked = ask(SNAPSHOT, asking())
    assert asked.raw(host_load.build_num_instances()) == [2.0, 4.0, 0.0]
    assert asked.shares(host_load.build_num_instances(scale=4.0)) == [2 / 6, 0.5, 0.0]


def test_defaults_are_those_of_nova() -> None:
    """The defaults are those of Nova."""
    builds, instances = host_load.build_io_ops(), host_load.build_num_instances()
    assert (builds.name, builds.multiplier, builds.floor) == ("IoOpsWeigher", -1.0, 0.0)
    assert builds.multiplier_key == "io_ops_weight_multiplier"
    assert (instances.name, instances.multiplier) == ("NumInstancesWeigher", 0.0)
    assert instances.floor is None
    assert instances.multiplier_key == "num_instances_weight_multiplier"


@pytest.mark.parametrize("build", [host_load.build_io_ops, host_load.build_num_instances])
def test_a_scale_is_above_0(build: Callable[..., Weigher]) -> None:
    """A scale of 0 is refused."""
    with pytest.raises(ValueError, match="scale: 0"):
        build(scale=0.0)
