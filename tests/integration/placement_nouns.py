"""A record of each kind of the Placement API, and a dump of the ledger."""

from typing import Any, Final

from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import ResourceClass, Trait
from berth.testing.builders import make_uuid
from tests.unit.api.placement.world import World, claim, consumer

PROVIDER: Final = make_uuid("provider", 1)
CHILD: Final = make_uuid("provider", 2)
GENERATION: Final = 3
"""The provider's generation after its inventories, traits and allocations were written."""

_KNOWN: Final = {
    "uuid": PROVIDER,
    "consumer_uuid": consumer(1),
    "resource_class": "VCPU",
    "name": "CUSTOM_FAST",
}


def known(name: str) -> str:
    """Return an existing value for a parameter of a path."""
    return _KNOWN[name]


async def furnish(world: World) -> None:
    """Create a record of each kind."""
    await world.done("PUT", "/traits/CUSTOM_FAST")
    await world.done("PUT", "/resource_classes/CUSTOM_FAST")
    await world.provider(1, VCPU=8, MEMORY_MB=1024)
    await world.provider(2, parent=1, CUSTOM_FAST=4)
    await world.traits(PROVIDER, "CUSTOM_FAST", "MISC_SHARES_VIA_AGGREGATE")
    await world.aggregates(PROVIDER, "00000000-0000-4000-8000-00000000000a")
    await world.done("PUT", f"/allocations/{consumer(1)}", claim({PROVIDER: {"VCPU": 2}}))
    told = await world.get(f"/resource_providers/{PROVIDER}")
    assert told["generation"] == GENERATION


async def dump(world: World) -> object:
    """Return all records and allocations of the ledger, and its version."""
    ledger = world.parts.ledger
    providers = await ledger.all(Provider)
    return (
        await ledger.version(),
        sorted(map(repr, providers)),
        [sorted(map(repr, await ledger.provider_consumers(one.uuid))) for one in providers],
        [sorted(map(repr, await ledger.all(noun))) for noun in (Consumer, ResourceClass, Trait)],
    )


def failures(world: World) -> list[object]:
    """Return the failures that the server has reported."""
    told: Any = world.parts.telemetry
    found: list[object] = told.failures
    return found
