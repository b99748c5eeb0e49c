"""Consumers that Placement leaves behind, which the comparison deletes after each step."""

from tests.differential.placement.real import Real
from tests.differential.placement.worlds import ask_berth
from tests.differential.placement_writes.universe import CONSUMERS, PROVIDERS
from tests.unit.api.placement.world import World, claim


async def test_consumers_are_left_behind(real: Real) -> None:
    """A refused claim of an unknown provider creates a consumer in Placement, but not in Berth."""
    real.empty()
    world, path = World(), f"/allocations/{CONSUMERS[0]}"
    nobodys = claim({PROVIDERS[0]: {"VCPU": 1}})
    assert (await ask_berth(world, "PUT", path, nobodys)).status == 400
    assert real.ask("PUT", path, nobodys).status == 400
    assert (await ask_berth(world, "PUT", path, nobodys)).status == 400
    assert real.ask("PUT", path, nobodys).status == 409, "another generation than null"
    real.sweep()
    assert real.ask("PUT", path, nobodys).status == 400
