"""The engine's law with NUMA cells and devices: its plan is that of a full evaluation."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from berth.domain.compute.request import Request
from berth.domain.inventory.resources import PCPU, Inventory
from berth.scheduling.evaluation.policy import Plan, Policy
from berth.scheduling.filters import fits_numa, has_devices
from berth.scheduling.rules.rule import resident_of
from berth.tables.host.holding import hold
from berth.testing.fleets import Box
from berth.testing.hardware_fleets import (
    ALIASES,
    random_cells,
    random_flavor,
    random_image,
    random_pools,
)
from tests.property.engine_world import World


class HardwareWorld(World):
    """A cloud of hosts with cells and devices, and requests that ask for them."""

    placed = 0

    def _policies(self, filters: Sequence[str], weighers: Sequence[str]) -> tuple[Policy, Policy]:
        fast, slow = super()._policies(filters, weighers)
        options: dict[str, Any] = {
            "pci_aliases": ALIASES,
            "numa_packing": self.random.random() < 0.5,
        }
        mine = (fits_numa.build(**options), has_devices.build(**options))
        chosen = self.random.choice((mine, mine, mine[:1], mine[1:]))
        rules = (*fast.filters, *chosen)
        return replace(fast, filters=rules), replace(slow, filters=rules)

    def _box(self, name: str, node: str = "") -> Box:
        box = super()._box(name, node)
        if self.random.random() < 0.2:
            return box
        cells = random_cells(self.random)
        inventories = {**box.inventories, PCPU: Inventory(64)}
        pools = random_pools(self.random, cells)
        return replace(box, inventories=inventories, numa_cells=cells, pci_pools=pools)

    def _request(self, number: int) -> Request:
        request = super()._request(number)
        if self.random.random() < 0.2:
            return request
        flavor = replace(random_flavor(self.random), flavor_id=f"f{number}")
        return replace(request, flavor=flavor, image=random_image(self.random))

    def _claim(self, request: Request, plan: Plan) -> None:
        for placement in plan.placements:
            row = self.hosts.row_of(placement.provider_uuid)
            uuid = placement.instance_uuid
            if row is None or self.hosts.occupants.by_uuid.get(uuid) is not None:
                continue
            # The hold counts the assignment, so the resident is added without it.
            hold(self.hosts, row, plan.amounts, placement.assignment)
            self.hosts.put_instance(placement.provider_uuid, resident_of(request, uuid))
            self.claims.append((row, request, uuid, plan))
            given_ = placement.assignment
            self.placed += given_ is not None and bool(given_.numa or given_.devices)


@pytest.mark.usefixtures("engine")
@settings(max_examples=settings().max_examples // 2)
@given(seed=st.integers(0, 2**63 - 1), steps=st.integers(1, 60))
def test_the_engine_and_a_full_evaluation_make_the_same_plans(seed: int, steps: int) -> None:
    """After random changes, both plans and their assignments are equal (see `World.decide`)."""
    world = HardwareWorld(seed, [], ["RAMWeigher", "CPUWeigher"])
    for _ in range(steps):
        world.step()
    event(f"hardware was given: {world.placed > 0}")
