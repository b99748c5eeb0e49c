"""Allocations over HTTP: the forms of claims in each version, and their errors."""

import asyncio
from uuid import UUID

import pytest

from berth.adapters.ledger.memory import MemoryLedger
from berth.domain.inventory.allocation import ConsumerAllocations
from berth.domain.ledger.write import ConsumerUpdate, Reallocate
from berth.services.replica.follower import Follower
from tests.unit.api.placement.world import Json, World, claim, consumer, parts_on, refusal

NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
async def world() -> World:
    """Return a service with a provider of 8 VCPUs and 100 GB."""
    world = World()
    await world.provider(VCPU=8, DISK_GB=100)
    return world


@pytest.fixture
def host() -> str:
    """Return the uuid of the provider."""
    return "70726f76-0000-4000-8000-000000000001"


def body_of(version: str, host: str) -> Json:
    """Return the body of a claim in the form of a version."""
    minor = int(version.partition(".")[2])
    body = claim({host: {"VCPU": 1}})
    if minor < 12:
        provider = {"resource_provider": {"uuid": host}, "resources": {"VCPU": 1}}
        body["allocations"] = [provider]
    if minor < 8:
        del body["project_id"], body["user_id"]
    if minor < 28:
        del body["consumer_generation"]
    if minor < 38:
        del body["consumer_type"]
    if minor >= 34:
        body["mappings"] = {"": [host]}
    return body


@pytest.mark.parametrize("version", ["1.0", "1.7", "1.8", "1.11", "1.12", "1.28", "1.34", "1.38"])
async def test_every_form_of_a_claim(world: World, host: str, version: str) -> None:
    """The claim of each version is stored, with defaults for missing fields."""
    minor = int(version.partition(".")[2])
    await world.done("PUT", f"/allocations/{consumer()}", body_of(version, host), version)
    assert await world.get(f"/allocations/{consumer()}") == {
        "allocations": {host: {"resources": {"VCPU": 1}, "generation": 2}},
        "project_id": NOBODY if minor < 8 else "project",
        "user_id": NOBODY if minor < 8 else "user",
        "consumer_generation": 1,
        "consumer_type": "unknown" if minor < 38 else "INSTANCE",
    }


async def test_what_is_shown_in_each_version(world: World, host: str) -> None:
    """Each microversion shows its own fields, and the time from 1.15 on."""
    path = f"/allocations/{consumer()}"
    await world.done("PUT", path, claim({host: {"VCPU": 1}}))
    full = await world.get(path)
    shown = ("allocations",)
    owner = ("project_id", "user_id")
    for version, names in (
        ("1.0", shown),
        ("1.12", (*shown, *owner)),
        ("1.28", (*shown, *owner, "consumer_generation")),
        ("1.38", tuple(full)),
    ):
        assert await world.get(path, version) == {name: full[name] for name in names}
    answer = await world.ask("GET", path)
    assert answer.headers["last-modified"].endswith("GMT")
    assert "last-modified" not in (await world.ask("GET", path, version="1.14")).headers


async def test_who_holds_what_of_a_provider(world: World, host: str) -> None:
    """Allocations are listed by consumer, with generations from 1.28 on."""
    other = await world.provider(2, VCPU=8)
    await world.done("PUT", f"/allocations/{consumer(1)}", claim({host: {"VCPU": 1}}))
    both = claim({host: {"DISK_GB": 5}, other: {"VCPU": 2}})
    await world.done("PUT", f"/allocations/{consumer(2)}", both)
    path = f"/resource_providers/{host}/allocations"
    assert await world.get(path) == {
        "allocations": {
            consumer(1): {"resources": {"VCPU": 1}, "consumer_generation": 1},
            consumer(2): {"resources": {"DISK_GB": 5}, "consumer_generation": 1},
        },
        "resource_provider_generation": 3,
    }
    old = await world.get(path, "1.27")
    assert old["allocations"][consumer(1)] == {"resources": {"VCPU": 1}}
    missing = await world.ask("GET", f"/resource_providers/{consumer()}/allocations")
    text = f"No resource provider with uuid {consumer()} found"
    assert refusal(missing) == (
        404,
        "undefined_code",
        f"Resource provider '{consumer()}' not found: {text}",
    )


async def test_a_consumer_without_allocations(world: World) -> None:
    """An unknown consumer is shown without allocations, and deleting them gets 404."""
    for name in (consumer(), "anything"):
        assert await world.get(f"/allocations/{name}") == {"allocations": {}}
        answer = await world.ask("DELETE", f"/allocations/{name}")
        assert refusal(answer) == (404, "undefined_code", f"No allocations for consumer '{name}'")


async def test_a_uuid_may_be_written_in_any_form(world: World, host: str) -> None:
    """Every spelling of a uuid names the same consumer."""
    plain = UUID(consumer()).hex
    await world.done("PUT", f"/allocations/{plain.upper()}", claim({host: {"VCPU": 1}}))
    for name in (plain, consumer(), consumer().upper()):
        assert (await world.get(f"/allocations/{name}"))["consumer_generation"] == 1
    body = claim({host: {"VCPU": 2}}, consumer_generation=1)
    await world.done("POST", "/allocations", {consumer().upper(): body})
    twice = {consumer(): body, consumer().upper(): body}
    assert (await world.ask("POST", "/allocations", twice)).status_code == 400
    await world.done("DELETE", f"/allocations/{plain}")
    answer = await world.ask("PUT", "/allocations/no-uuid", claim({host: {"VCPU": 1}}))
    assert refusal(answer) == (400, "undefined_code", "Malformed consumer_uuid: no-uuid")


async def test_several_consumers_change_together(world: World, host: str) -> None:
    """One request moves resources between consumers, or changes nothing."""
    await world.done("PUT", f"/allocations/{consumer(1)}", claim({host: {"VCPU": 8}}))
    new = claim({host: {"VCPU": 8}})
    both = {consumer(1): claim({}, consumer_generation=1), consumer(2): new}
    assert (await world.ask("POST", "/allocations", {consumer(2): new})).status_code == 409
    await world.done("POST", "/allocations", both)
    assert await world.get(f"/allocations/{consumer(1)}") == {"allocations": {}}
    assert (await world.ask("POST", "/allocations", both, version="1.12")).status_code == 404


UNABLE = "Unable to allocate inventory: "
TOO_MUCH = (
    f"{UNABLE}Unable to create allocation for 'VCPU' on resource provider 'HOST'. "
    "The requested amount would exceed the capacity."
)
NO_CLASS = (
    f"Unable to allocate inventory for consumer {consumer()}: No such resource class CUSTOM_NO."
)


@pytest.mark.parametrize(
    ("amounts", "status", "text"),
    [
        (
            {"VCPU": 9},
            409,
            TOO_MUCH,
        ),
        (
            {"DISK_GB": 1, "MEMORY_MB": 1},
            409,
            f"{UNABLE}Inventory for 'MEMORY_MB' on resource provider 'HOST' invalid.",
        ),
        (
            {"PCPU": 1, "MEMORY_MB": 1},
            409,
            f"{UNABLE}Inventory for 'MEMORY_MB, PCPU' on resource provider 'HOST' invalid.",
        ),
        (
            {"CUSTOM_NO": 1},
            400,
            NO_CLASS,
        ),
    ],
)
async def test_what_is_refused_leaves_no_consumer(
    world: World, host: str, amounts: dict[str, int], status: int, text: str
) -> None:
    """A refusal has Placement's message and creates no consumer."""
    path = f"/allocations/{consumer()}"
    answer = await world.ask("PUT", path, claim({host: amounts}))
    assert refusal(answer) == (status, "undefined_code", text.replace("HOST", host))
    await world.done("PUT", path, claim({host: {"VCPU": 1}}))


async def test_amounts_are_held_against_units(world: World, host: str) -> None:
    """An amount outside min_unit and max_unit or not in steps gets 409."""
    units = {"total": 100, "min_unit": 4, "max_unit": 8, "step_size": 2}
    told = {"resource_provider_generation": 1, "inventories": {"VCPU": units}}
    await world.done("PUT", f"/resource_providers/{host}/inventories", told)
    text = (
        f"{UNABLE}Unable to create allocation for 'VCPU' on resource provider '{host}'. "
        "The requested amount would violate inventory constraints."
    )
    for amount in (2, 5, 10):
        answer = await world.ask(
            "PUT", f"/allocations/{consumer()}", claim({host: {"VCPU": amount}})
        )
        assert refusal(answer) == (409, "undefined_code", text)
    await world.done("PUT", f"/allocations/{consumer()}", claim({host: {"VCPU": 6}}))


async def test_providers_and_consumers_that_are_not_as_expected(world: World, host: str) -> None:
    """An unknown provider or class gets 400, and a wrong consumer generation 409."""
    nobody = consumer(9)
    answer = await world.ask("PUT", f"/allocations/{consumer()}", claim({nobody: {"VCPU": 1}}))
    text = f"Allocation for resource provider '{nobody}' that does not exist."
    assert refusal(answer) == (400, "undefined_code", text)
    many = {consumer(): claim({host: {"CUSTOM_NO": 1}})}
    answer = await world.ask("POST", "/allocations", many)
    text = "Unable to allocate inventory No such resource class CUSTOM_NO."
    assert refusal(answer) == (400, "undefined_code", text)
    for seen, expected in ((3, "expected null but got 3"), (None, "expected 1 but got None")):
        body = claim({host: {"VCPU": 1}}, consumer_generation=seen)
        answer = await world.ask("PUT", f"/allocations/{consumer()}", body)
        text = f"consumer generation conflict - {expected}"
        assert refusal(answer) == (409, "concurrent_update", text)
        body["consumer_generation"] = None
        await world.ask("PUT", f"/allocations/{consumer()}", body)


async def test_a_type_stays_below_the_version_that_tells_it(world: World, host: str) -> None:
    """A claim of an older version keeps the consumer type and replaces the owner."""
    path = f"/allocations/{consumer()}"
    await world.done("PUT", path, claim({host: {"VCPU": 1}}, consumer_type="MIGRATION"))
    old = body_of("1.28", host) | {"consumer_generation": 1, "project_id": "another"}
    await world.done("PUT", path, old, "1.28")
    shown = await world.get(path)
    assert (shown["consumer_type"], shown["project_id"]) == ("MIGRATION", "another")
    await world.done("PUT", path, claim({host: {"VCPU": 1}}, consumer_generation=2))
    assert (await world.get(path))["consumer_type"] == "INSTANCE"


async def test_claims_of_one_provider_at_once_hear_nothing_of_each_other() -> None:
    """Simultaneous claims on one provider all succeed."""
    world = World()
    host = await world.provider(VCPU=200)
    answers = await asyncio.gather(
        *(
            world.ask("PUT", f"/allocations/{consumer(n)}", claim({host: {"VCPU": 1}}))
            for n in range(200)
        )
    )
    assert {answer.status_code for answer in answers} == {204}
    usages = await world.get(f"/resource_providers/{host}/usages")
    assert usages == {"usages": {"VCPU": 200}, "resource_provider_generation": 201}


class BusyLedger(MemoryLedger):
    """A ledger in which another client replaces a consumer's allocations just after a read.

    Attributes:
        left: the number of replacements still to come.
        follower: the follower that updates the tables.
    """

    left = 0
    follower: Follower | None = None

    async def consumer_allocations(self, consumer_uuid: str) -> ConsumerAllocations | None:
        """Return allocations that have been replaced in the meantime."""
        found = await super().consumer_allocations(consumer_uuid)
        if self.left and found is not None and self.follower is not None:
            self.left -= 1
            share = ConsumerUpdate(found.consumer, found.allocations, is_checked=False)
            await self.commit([(Reallocate((share,)),)])
            await self.follower.catch_up()
        return found


@pytest.mark.parametrize("times", [0, 1, 2, 3])
async def test_generations_are_never_newer_than_what_is_held(host: str, times: int) -> None:
    """The generation that is shown is never newer than the allocations that are shown."""
    ledger = BusyLedger()
    parts = parts_on(ledger)
    world = World(parts)
    await world.provider(VCPU=8)
    await world.done("PUT", f"/allocations/{consumer()}", claim({host: {"VCPU": 1}}))
    ledger.follower, ledger.left = parts.follower, times
    shown = await world.get(f"/allocations/{consumer()}")
    assert shown["allocations"][host]["generation"] <= 1 + shown["consumer_generation"]
