"""Usages of projects over HTTP: totals over consumers, or by consumer type."""

import pytest

from tests.unit.api.placement.world import Json, World, claim, consumer


@pytest.fixture
async def world() -> World:
    """Return a service with five consumers of two projects that use two providers."""
    world = World()
    one = await world.provider(1, VCPU=100, DISK_GB=100)
    two = await world.provider(2, VCPU=100)
    both = {one: {"VCPU": 1, "DISK_GB": 10}, two: {"VCPU": 2}}
    for number, changed in enumerate(
        (
            {},
            {"user_id": "another"},
            {"consumer_type": "MIGRATION"},
            {"project_id": "else"},
        ),
        1,
    ):
        await world.done("PUT", f"/allocations/{consumer(number)}", claim(both, **changed))
    old = claim({one: {"VCPU": 5}})
    del old["consumer_type"]
    await world.done("PUT", f"/allocations/{consumer(5)}", old, "1.28")
    return world


@pytest.mark.parametrize(
    ("query", "version", "usages"),
    [
        ("project_id=project", "1.9", {"VCPU": 14, "DISK_GB": 30}),
        ("project_id=project&user_id=another", "1.37", {"VCPU": 3, "DISK_GB": 10}),
        ("project_id=nobody", "1.37", {}),
        (
            "project_id=project",
            "1.38",
            {
                "INSTANCE": {"VCPU": 6, "DISK_GB": 20, "consumer_count": 2},
                "MIGRATION": {"VCPU": 3, "DISK_GB": 10, "consumer_count": 1},
                "unknown": {"VCPU": 5, "consumer_count": 1},
            },
        ),
        (
            "project_id=project&consumer_type=all",
            "1.38",
            {"all": {"VCPU": 14, "DISK_GB": 30, "consumer_count": 4}},
        ),
        (
            "project_id=project&consumer_type=unknown",
            "1.38",
            {"unknown": {"VCPU": 5, "consumer_count": 1}},
        ),
        (
            "project_id=project&user_id=user&consumer_type=INSTANCE",
            "1.39",
            {"INSTANCE": {"VCPU": 3, "DISK_GB": 10, "consumer_count": 1}},
        ),
        ("project_id=project&consumer_type=NONE", "1.38", {}),
        ("project_id=nobody&consumer_type=all", "1.38", {}),
    ],
)
async def test_usages(world: World, query: str, version: str, usages: Json) -> None:
    """A consumer with several providers and classes is counted once."""
    assert await world.get(f"/usages?{query}", version) == {"usages": usages}


async def test_a_query_that_is_wrong(world: World) -> None:
    """A missing project, a lower-case type or an unknown parameter gets 400."""
    for query in ("", "?user_id=x", "?project_id=p&consumer_type=instance", "?project_id=p&x=1"):
        assert (await world.ask("GET", f"/usages{query}")).status_code == 400
    assert (await world.ask("GET", "/usages?project_id=p", version="1.8")).status_code == 404
