"""The reshaper over HTTP: its bodies and its errors."""

import pytest

from tests.unit.api.placement.world import Json, World, claim, consumer, refusal

HOST = "70726f76-0000-4000-8000-000000000001"
PART = "70726f76-0000-4000-8000-000000000002"
WHERE = f"on resource provider '{HOST}'"


@pytest.fixture
async def world() -> World:
    """Return a service with a provider, whose disk a consumer uses, and a child of the provider."""
    world = World()
    await world.provider(1, VCPU=8, DISK_GB=100)
    await world.provider(2, parent=1)
    held = {HOST: {"VCPU": 1, "DISK_GB": 40}}
    await world.done("PUT", f"/allocations/{consumer()}", claim(held))
    return world


def inventories(seen: int, **totals: int) -> Json:
    """Return the inventories of a provider with its expected generation."""
    has = {name: {"total": total} for name, total in totals.items()}
    return {"resource_provider_generation": seen, "inventories": has}


def body(**changed: object) -> Json:
    """Return a body that moves the disk to the child, with some fields replaced."""
    held = {HOST: {"VCPU": 1}, PART: {"DISK_GB": 40}}
    return {
        "inventories": {HOST: inventories(2, VCPU=8), PART: inventories(0, DISK_GB=100)},
        "allocations": {consumer(): claim(held, consumer_generation=1)},
        **changed,
    }


async def test_a_disk_moves_while_it_is_in_use(world: World) -> None:
    """One request moves the inventory and its allocation to the child."""
    await world.done("POST", "/reshaper", body())
    shown = await world.get(f"/allocations/{consumer()}")
    assert shown["allocations"] == {
        HOST: {"resources": {"VCPU": 1}, "generation": 5},
        PART: {"resources": {"DISK_GB": 40}, "generation": 3},
    }
    has = await world.get(f"/resource_providers/{PART}/inventories")
    assert has["inventories"]["DISK_GB"]["max_unit"] == 2_147_483_647
    assert (await world.get(f"/resource_providers/{HOST}/usages"))["usages"] == {"VCPU": 1}


@pytest.mark.parametrize("version", ["1.30", "1.34", "1.38"])
async def test_every_form_of_a_reshape(world: World, version: str) -> None:
    """Allocations have the form of each version."""
    told = body()
    one = told["allocations"][consumer()]
    if version < "1.38":
        del one["consumer_type"]
    if version >= "1.34":
        one["mappings"] = {"": [HOST]}
    await world.done("POST", "/reshaper", told, version)
    assert (await world.ask("POST", "/reshaper", told, version="1.29")).status_code == 404


NOBODY = consumer(9)
NOT_FOUND = (
    f"Resource provider {NOBODY} in inventories not found: "
    f"No resource provider with uuid {NOBODY} found"
)
TOO_MUCH = (
    f"Unable to allocate inventory: Unable to create allocation for 'VCPU' {WHERE}. "
    "The requested amount would exceed the capacity."
)
NOT_GIVEN = (
    f"Unable to allocate inventory: Inventory for 'VCPU' on resource provider '{PART}' invalid."
)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"inventories": {HOST: inventories(7)}},
            (
                409,
                "concurrent_update",
                f"resource provider generation conflict for provider {HOST}: actual: 2, given: 7",
            ),
        ),
        (
            {"inventories": {NOBODY: inventories(0)}},
            (
                400,
                "resource_provider.not_found",
                NOT_FOUND,
            ),
        ),
        (
            {"inventories": {HOST: inventories(2, CUSTOM_NO=1)}, "allocations": {}},
            (400, "undefined_code", "malformed reshaper data: No such resource class CUSTOM_NO."),
        ),
        (
            {"inventories": {HOST: inventories(2)}, "allocations": {}},
            (
                409,
                "inventory.inuse",
                f"update conflict: Inventory for 'VCPU, DISK_GB' {WHERE} in use.",
            ),
        ),
        (
            {"allocations": {consumer(): claim({HOST: {"CUSTOM_NO": 1}}, consumer_generation=1)}},
            (400, "undefined_code", "malformed reshaper data: No such resource class CUSTOM_NO."),
        ),
        (
            {"allocations": {consumer(): claim({HOST: {"VCPU": 1}})}},
            (
                409,
                "concurrent_update",
                "consumer generation conflict - expected 1 but got None",
            ),
        ),
        (
            {
                "allocations": {
                    consumer(): claim(
                        {HOST: {"DISK_GB": 5}, PART: {"VCPU": 1}}, consumer_generation=1
                    )
                }
            },
            (409, "undefined_code", NOT_GIVEN),
        ),
        (
            {"allocations": {consumer(): claim({HOST: {"VCPU": 9}}, consumer_generation=1)}},
            (
                409,
                "undefined_code",
                TOO_MUCH,
            ),
        ),
    ],
)
async def test_what_is_refused_changes_nothing(
    world: World, changed: Json, told: tuple[int, str, str]
) -> None:
    """A refusal has Placement's message, and a correct reshape succeeds after it."""
    answer = await world.ask("POST", "/reshaper", body(**changed))
    assert refusal(answer) == told
    await world.done("POST", "/reshaper", body())
