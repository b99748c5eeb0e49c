"""Allocation candidates over HTTP: their form in each version, and claiming them."""

import json

import pytest

from berth.scheduling.candidates import arrangement_search
from tests.unit.api.placement.world import Json, World, claim, consumer, refusal

HOST = "70726f76-0000-4000-8000-000000000001"
NUMA = "70726f76-0000-4000-8000-000000000002"
FLAT = "70726f76-0000-4000-8000-000000000003"
POOL = "70726f76-0000-4000-8000-000000000004"
AGGREGATE = "00000000-0000-4000-8000-00000000000a"
FLAT_QUERY = "resources=VCPU:1,DISK_GB:5"


@pytest.fixture
async def world() -> World:
    """Return a service with a host that has a child, one without, and a sharing pool."""
    world = World()
    await world.done("PUT", "/traits/CUSTOM_FAST")
    await world.provider(1, MEMORY_MB=1024)
    await world.provider(2, parent=1, VCPU=8)
    await world.provider(3, VCPU=8, DISK_GB=100, MEMORY_MB=1024)
    await world.provider(4, DISK_GB=1000)
    await world.traits(FLAT, "CUSTOM_FAST", "COMPUTE_NODE")
    await world.traits(POOL, "MISC_SHARES_VIA_AGGREGATE")
    for uuid in (HOST, POOL):
        await world.aggregates(uuid, AGGREGATE)
    return world


async def asked(world: World, query: str, version: str = "1.39") -> Json:
    """Return the candidates of a query."""
    return await world.get(f"/allocation_candidates?{query}", version)


def resources(**amounts: int) -> Json:
    """Return the allocation from one provider."""
    return {"resources": amounts}


async def test_what_a_provider_gives_alone_and_what_several_give_together(world: World) -> None:
    """The candidates have one or several providers, and the summaries have their whole trees."""
    await world.done("PUT", f"/allocations/{consumer()}", claim({FLAT: {"VCPU": 3}}))
    found = await asked(world, FLAT_QUERY)
    key = json.dumps
    assert sorted(found["allocation_requests"], key=key) == sorted(
        [
            {"allocations": {FLAT: resources(VCPU=1, DISK_GB=5)}, "mappings": {"": [FLAT]}},
            {
                "allocations": {NUMA: resources(VCPU=1), POOL: resources(DISK_GB=5)},
                "mappings": {"": [NUMA, POOL]},
            },
        ],
        key=key,
    )
    summaries = found["provider_summaries"]
    assert summaries.keys() == {HOST, NUMA, FLAT, POOL}
    assert summaries[FLAT] == {
        "resources": {
            "VCPU": {"capacity": 8, "used": 3},
            "DISK_GB": {"capacity": 100, "used": 0},
            "MEMORY_MB": {"capacity": 1024, "used": 0},
        },
        "traits": ["COMPUTE_NODE", "CUSTOM_FAST"],
        "parent_provider_uuid": None,
        "root_provider_uuid": FLAT,
    }
    assert summaries[NUMA]["parent_provider_uuid"] == HOST
    assert summaries[NUMA]["root_provider_uuid"] == HOST


async def test_what_is_told_in_each_version(world: World) -> None:
    """Each microversion has its own fields in requests and summaries."""
    query = "resources=VCPU:1,DISK_GB:5"
    summary = (await asked(world, query))["provider_summaries"][FLAT]
    classes = {name: summary["resources"][name] for name in ("VCPU", "DISK_GB")}
    for version, told in (
        ("1.10", {"resources": classes}),
        ("1.17", {"resources": classes, "traits": summary["traits"]}),
        ("1.27", {"resources": summary["resources"], "traits": summary["traits"]}),
        ("1.29", summary),
    ):
        found = await asked(world, query, version)
        assert found["provider_summaries"][FLAT] == told
        assert (HOST in found["provider_summaries"]) is (version == "1.29")
        for request in found["allocation_requests"]:
            assert request.keys() == {"allocations"}
    gives = [{"resource_provider": {"uuid": FLAT}, "resources": {"VCPU": 1, "DISK_GB": 5}}]
    assert {"allocations": gives} in (await asked(world, query, "1.11"))["allocation_requests"]
    alone = {"allocations": {FLAT: resources(VCPU=1, DISK_GB=5)}}
    assert alone in (await asked(world, query, "1.12"))["allocation_requests"]


async def test_groups_are_mapped_to_their_providers(world: World) -> None:
    """A group without resources is mapped to a provider as well."""
    query = "resources_A=VCPU:2&resources_B=VCPU:1&required_C=CUSTOM_FAST&same_subtree=_A,_C"
    found = await asked(world, f"{query}&group_policy=none")
    assert found["allocation_requests"] == [
        {
            "allocations": {FLAT: resources(VCPU=3)},
            "mappings": {"_A": [FLAT], "_B": [FLAT], "_C": [FLAT]},
        }
    ]
    assert found["provider_summaries"].keys() == {FLAT}


async def test_nothing_found_is_no_error(world: World) -> None:
    """Without candidates, both parts of the answer are empty."""
    found = await asked(world, "resources=VCPU:100")
    assert found == {"allocation_requests": [], "provider_summaries": {}}


async def test_what_is_told_is_newest(world: World) -> None:
    """Summaries reflect all changes of traits, usage, inventories and parents."""
    query = "resources=MEMORY_MB:1"
    await asked(world, query)
    await world.done("DELETE", f"/resource_providers/{FLAT}/traits")
    await world.done("PUT", f"/allocations/{consumer()}", claim({FLAT: {"MEMORY_MB": 24}}))
    old = (await world.get(f"/resource_providers/{FLAT}"))["generation"]
    told = {"resource_provider_generation": old, "total": 9, "allocation_ratio": 1.5}
    await world.done("PUT", f"/resource_providers/{FLAT}/inventories/VCPU", told)
    summary = (await asked(world, query))["provider_summaries"][FLAT]
    assert summary["traits"] == []
    assert summary["resources"]["MEMORY_MB"] == {"capacity": 1024, "used": 24}
    assert summary["resources"]["VCPU"] == {"capacity": 13, "used": 0}
    await world.done(
        "PUT", f"/resource_providers/{POOL}", {"name": "p", "parent_provider_uuid": FLAT}
    )
    summaries = (await asked(world, query))["provider_summaries"]
    assert summaries[POOL]["root_provider_uuid"] == FLAT


async def test_every_candidate_can_be_claimed(world: World) -> None:
    """Each allocation request can be used as the body of a claim in its version."""
    query = "resources=MEMORY_MB:1&resources1=VCPU:2&resources2=DISK_GB:5&group_policy=isolate"
    found = (await asked(world, query))["allocation_requests"]
    assert found
    for number, request in enumerate(found):
        body = {**claim({}), **request}
        await world.done("PUT", f"/allocations/{consumer(number)}", body)
    old = (await asked(world, "resources=VCPU:1,DISK_GB:5", "1.11"))["allocation_requests"]
    for number, request in enumerate(old, 50):
        body = {**request, "project_id": "p", "user_id": "u"}
        await world.done("PUT", f"/allocations/{consumer(number)}", body, "1.11")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (
            "resources=CUSTOM_NO:1",
            "Invalid resource class in resources parameter: No such resource class CUSTOM_NO.",
        ),
        ("resources=VCPU:1&required=!CUSTOM_NO", "No such trait(s): CUSTOM_NO."),
        ("resources=VCPU:1&root_required=CUSTOM_NO", "No such trait(s): CUSTOM_NO."),
        ("resources1=VCPU:1&required1=in:COMPUTE_NODE,CUSTOM_NO", "No such trait(s): CUSTOM_NO."),
    ],
)
async def test_names_that_nobody_knows(world: World, query: str, text: str) -> None:
    """Unknown classes and traits get 400 in every parameter."""
    answer = await world.ask("GET", f"/allocation_candidates?{query}")
    assert refusal(answer) == (400, "undefined_code", text)


async def test_a_limit_counts_candidates(world: World) -> None:
    """With a limit, the summaries have only the providers of listed candidates."""
    found = await asked(world, f"{FLAT_QUERY}&limit=1")
    (request,) = found["allocation_requests"]
    assert len(found["provider_summaries"]) == (1 if FLAT in request["allocations"] else 3)


async def test_what_takes_too_long_to_tell_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query with too many arrangements gets 400 instead of a partial answer."""
    monkeypatch.setattr(arrangement_search, "STEPS_AT_LEAST", 0)
    monkeypatch.setattr(arrangement_search, "STEPS_AN_ANCHOR", 0)
    await world.provider(5, parent=1, VCPU=8)
    groups = "&".join(f"resources{n}=VCPU:5" for n in range(1, 4))
    query = f"/allocation_candidates?{groups}&group_policy=none"
    status, _, message = refusal(await world.ask("GET", query))
    assert status == 400
    assert "too many ways to arrange these groups" in message
