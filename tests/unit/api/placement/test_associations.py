"""Traits, aggregates and resource classes over HTTP."""

from typing import Any

import httpx
import pytest

from tests.unit.api.placement.service import Service, service_of
from tests.unit.api.placement.test_resource_providers import ALL, GROUP, A, told

AGGREGATES = f"{ALL}/{A}/aggregates"
TRAITS = f"{ALL}/{A}/traits"
SEEN = "resource_provider_generation"
CHANGED = (
    "Resource provider's generation already changed. Please update the generation and try again."
)


@pytest.fixture
async def service() -> Service:
    """Return a service with one provider."""
    service = service_of()
    await service.ask("POST", ALL, json={"name": "a", "uuid": A})
    return service


# ---- aggregates ----


async def test_aggregates_keep_the_order_in_which_they_came(service: Service) -> None:
    """From 1.19 on, aggregates have a generation, which each change increases."""
    for generation in range(2):
        view = {"aggregates": [GROUP, A], SEEN: generation + 1}
        body = {**view, SEEN: generation}
        assert (await service.ask("PUT", AGGREGATES, json=body)).json() == view
        assert (await service.ask("GET", AGGREGATES)).json() == view
    refused = await service.ask("PUT", AGGREGATES, json={"aggregates": [], SEEN: 1})
    assert told(refused) == (409, CHANGED, "placement.concurrent_update")


async def test_old_clients_set_aggregates_without_a_generation(service: Service) -> None:
    """Before 1.19, the generation is neither shown nor changed."""
    answer = await service.ask("PUT", AGGREGATES, version="1.18", json=[GROUP])
    assert answer.json() == {"aggregates": [GROUP]}
    assert (await service.ask("GET", AGGREGATES)).json() == {"aggregates": [GROUP], SEEN: 0}
    assert (await service.ask("GET", AGGREGATES, version="1.0")).status_code == 404


# ---- traits of a provider ----


async def test_traits_of_a_provider_are_replaced(service: Service) -> None:
    """Standard traits come first, and equal traits leave the generation unchanged."""
    await service.ask("PUT", "/traits/CUSTOM_A")
    body = {"traits": ["CUSTOM_A", "HW_CPU_X86_AVX"], SEEN: 0}
    view = {"traits": ["HW_CPU_X86_AVX", "CUSTOM_A"], SEEN: 1}
    assert (await service.ask("PUT", TRAITS, json=body)).json() == view
    assert (await service.ask("PUT", TRAITS, json={**body, SEEN: 1})).json() == view
    assert (await service.ask("GET", TRAITS)).json() == view
    assert told(await service.ask("PUT", TRAITS, json=body)) == (
        409,
        CHANGED,
        "placement.concurrent_update",
    )
    unknown = {"traits": ["CUSTOM_Y", "CUSTOM_A", "CUSTOM_X"], SEEN: 1}
    assert told(await service.ask("PUT", TRAITS, json=unknown))[:2] == (
        400,
        "No such trait CUSTOM_Y, CUSTOM_X",
    )


async def test_traits_of_a_provider_are_removed(service: Service) -> None:
    """Removing traits increases the generation if there were any."""
    await service.ask("PUT", TRAITS, json={"traits": ["HW_CPU_X86_AVX"], SEEN: 0})
    for _ in range(2):
        assert (await service.ask("DELETE", TRAITS)).status_code == 204
        assert (await service.ask("GET", TRAITS)).json() == {"traits": [], SEEN: 2}
    sentence = f"No resource provider with uuid {GROUP} found"
    missing = await service.ask("GET", f"{ALL}/{GROUP}/traits")
    assert told(missing)[:2] == (404, f"{sentence}: {sentence}")
    assert told(await service.ask("DELETE", f"{ALL}/{GROUP}/traits"))[:2] == (404, sentence)


# ---- traits ----


async def test_a_trait_is_made_and_removed(service: Service) -> None:
    """A trait can be created repeatedly, and deleted while no provider has it."""
    url = "/traits/CUSTOM_A"
    for status in (201, 204):
        answer = await service.ask("PUT", url)
        assert (answer.status_code, answer.content) == (status, b"")
        assert answer.headers["location"] == f"http://placement{url}"
        assert "last-modified" in answer.headers
    answer = await service.ask("GET", url)
    assert (answer.status_code, answer.headers["cache-control"]) == (204, "no-cache")
    await service.ask("PUT", TRAITS, json={"traits": ["CUSTOM_A"], SEEN: 0})
    assert told(await service.ask("DELETE", url))[:2] == (
        409,
        "The trait CUSTOM_A is in use by a resource provider.",
    )
    await service.ask("DELETE", TRAITS)
    assert (await service.ask("DELETE", url)).status_code == 204
    for method in ("GET", "DELETE"):
        assert told(await service.ask(method, url))[:2] == (404, "No such trait(s): CUSTOM_A.")


@pytest.mark.parametrize("name", ["gold", "CUSTOM_", "CUSTOM_a", f"CUSTOM_{'A' * 249}", "HW_X"])
async def test_only_custom_traits_are_made(service: Service, name: str) -> None:
    """A custom name has capital letters, digits and underscores, and at most 255 characters."""
    status, text, _ = told(await service.ask("PUT", f"/traits/{name}"))
    assert status == 400
    assert text.startswith("The trait is invalid. A valid trait must be no longer than 255 ")


async def test_standard_traits_stay(service: Service) -> None:
    """A standard trait exists and cannot be deleted."""
    assert (await service.ask("GET", "/traits/HW_CPU_X86_AVX")).status_code == 204
    assert told(await service.ask("DELETE", "/traits/HW_CPU_X86_AVX"))[:2] == (
        400,
        "Cannot delete standard trait HW_CPU_X86_AVX.",
    )


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("name=startswith:CUSTOM_", ["CUSTOM_B", "CUSTOM_A"]),
        ("name=in:CUSTOM_A,HW_CPU_X86_AVX,COW", ["HW_CPU_X86_AVX", "CUSTOM_A"]),
        ("associated=true", ["CUSTOM_A"]),
        ("name=startswith:CUSTOM_&associated=False", ["CUSTOM_B"]),
        ("name=in:", []),
    ],
)
async def test_traits_are_found(service: Service, query: str, names: list[str]) -> None:
    """Custom traits are listed in the order of their creation."""
    for name in ("CUSTOM_B", "CUSTOM_A"):
        await service.ask("PUT", f"/traits/{name}")
    await service.ask("PUT", TRAITS, json={"traits": ["CUSTOM_A"], SEEN: 0})
    assert (await service.ask("GET", f"/traits?{query}")).json() == {"traits": names}


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("name=CUSTOM_A", "Badly formatted name parameter. Expected name query string parameter "),
        ("associated=yes", 'The query parameter "associated" only accepts "true" or "false"'),
    ],
)
async def test_bad_queries_for_traits_are_refused(
    service: Service, query: str, problem: str
) -> None:
    """The error says which form is correct."""
    status, text, _ = told(await service.ask("GET", f"/traits?{query}"))
    assert (status, text[: len(problem)]) == (400, problem)


# ---- resource classes ----


def view_of(name: str) -> dict[str, Any]:
    """Return a resource class as the API shows it."""
    return {"name": name, "links": [{"rel": "self", "href": f"/resource_classes/{name}"}]}


async def test_a_class_is_made_and_removed(service: Service) -> None:
    """A class is created by POST, or by PUT, which accepts an existing one."""
    url = "/resource_classes/CUSTOM_A"
    answer = await service.ask("POST", "/resource_classes", json={"name": "CUSTOM_A"})
    assert (answer.status_code, answer.headers["location"]) == (201, f"http://placement{url}")
    again = await service.ask("POST", "/resource_classes", json={"name": "CUSTOM_A"})
    assert told(again)[:2] == (409, "Conflicting resource class already exists: CUSTOM_A")
    answer = await service.ask("PUT", url)
    assert (answer.status_code, answer.headers["location"]) == (204, f"http://placement{url}")
    assert (await service.ask("GET", url)).json() == view_of("CUSTOM_A")
    listed = (await service.ask("GET", "/resource_classes")).json()["resource_classes"]
    assert (listed[0], listed[-1]) == (view_of("VCPU"), view_of("CUSTOM_A"))
    assert (await service.ask("DELETE", url)).status_code == 204
    for method in ("GET", "DELETE"):
        assert told(await service.ask(method, url))[:2] == (404, "No such resource class CUSTOM_A.")
    assert (await service.ask("PUT", url)).status_code == 201


@pytest.mark.parametrize("name", ["A", "CUSTOM_a", "CUSTOM_" + "A" * 249])
async def test_a_class_has_a_custom_name(service: Service, name: str) -> None:
    """PUT validates the name in its path as POST does that in its body."""
    status, text, _ = told(await service.ask("PUT", f"/resource_classes/{name}"))
    assert (status, text[:15]) == (400, "JSON does not v")
    assert (await service.ask("GET", f"/resource_classes/{name}")).status_code == 404


async def test_a_class_that_a_provider_has_stays(service: Service) -> None:
    """A class with inventory and a standard class cannot be deleted."""
    await service.ask("PUT", "/resource_classes/CUSTOM_A")
    body = {"resource_class": "CUSTOM_A", "total": 1}
    await service.ask("POST", f"{ALL}/{A}/inventories", json=body)
    unable = "Error in delete resource class: Cannot delete "
    assert told(await service.ask("DELETE", "/resource_classes/CUSTOM_A"))[:2] == (
        409,
        f"{unable}resource class CUSTOM_A. Class is in use in inventory.",
    )
    assert told(await service.ask("DELETE", "/resource_classes/VCPU"))[:2] == (
        400,
        f"{unable}standard resource class VCPU.",
    )


async def test_old_clients_rename_a_class(service: Service) -> None:
    """Before 1.7, PUT renames a class, also in inventories."""
    await service.ask("PUT", "/resource_classes/CUSTOM_A")
    await service.ask(
        "POST", f"{ALL}/{A}/inventories", json={"resource_class": "CUSTOM_A", "total": 3}
    )

    async def rename(old: str, new: str) -> httpx.Response:
        body = {"name": new}
        return await service.ask("PUT", f"/resource_classes/{old}", version="1.6", json=body)

    answer = await rename("CUSTOM_A", "CUSTOM_B")
    assert (answer.status_code, answer.json()) == (200, view_of("CUSTOM_B"))
    has = (await service.ask("GET", f"{ALL}/{A}/inventories")).json()
    assert (has[SEEN], has["inventories"]["CUSTOM_B"]["total"]) == (1, 3)
    await service.ask("PUT", "/resource_classes/CUSTOM_A")
    assert (await rename("CUSTOM_A", "CUSTOM_B")).status_code == 409
    assert (await rename("VCPU", "CUSTOM_C")).status_code == 400
    assert (await rename("CUSTOM_X", "CUSTOM_C")).status_code == 404
