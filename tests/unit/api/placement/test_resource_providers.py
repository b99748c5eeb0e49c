"""Resource providers over HTTP: creating, showing, finding, renaming, moving and deleting."""

from typing import Any

import httpx
import pytest

from tests.unit.api.cloud import NOW_S
from tests.unit.api.placement.service import Service, service_of

A = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
B = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
C = "cccccccc-cccc-4ccc-8ccc-cccccccccccc"
GROUP = "99999999-9999-4999-8999-999999999999"
ALL = "/resource_providers"

Json = dict[str, Any]


@pytest.fixture
async def service() -> Service:
    """Return a service with a (root), b (below a) and c (root)."""
    service = service_of()
    for name, uuid, parent in (("a", A, None), ("b", B, A), ("c", C, None)):
        body = {"name": name, "uuid": uuid, "parent_provider_uuid": parent}
        answer = await service.ask("POST", ALL, json=body)
        assert answer.status_code == 200
    return service


def told(answer: httpx.Response) -> tuple[int, str, str]:
    """Return the status, the last line and the code of an error."""
    (error,) = answer.json()["errors"]
    return answer.status_code, error["detail"].split("\n")[-1].strip(), error["code"]


async def found(service: Service, query: str, version: str = "1.39") -> list[str]:
    """Return the names of the providers that match a query."""
    answer = await service.ask("GET", f"{ALL}?{query}", version=version)
    assert answer.status_code == 200, answer.text
    return [one["name"] for one in answer.json()["resource_providers"]]


async def test_a_provider_is_shown_as_it_was_made(service: Service) -> None:
    """POST (from 1.20 on) and GET show the same provider."""
    url = f"{ALL}/{B}"
    names = ("inventories", "usages", "aggregates", "traits", "allocations")
    view = {
        "uuid": B,
        "name": "b",
        "generation": 0,
        "parent_provider_uuid": A,
        "root_provider_uuid": A,
        "links": [
            {"rel": "self", "href": url},
            *({"rel": name, "href": f"{url}/{name}"} for name in names),
        ],
    }
    answer = await service.ask("GET", url)
    assert answer.json() == view
    assert answer.headers["last-modified"] == "Fri, 15 Jan 2027 08:00:00 GMT"
    await service.ask("DELETE", url)
    body = {"name": "b", "uuid": B.replace("-", "").upper(), "parent_provider_uuid": A}
    again = await service.ask("POST", ALL, json=body)
    assert again.json() == view
    assert again.headers["location"] == f"http://placement{url}"


async def test_before_1_20_making_one_tells_only_where_it_is() -> None:
    """The response has only the location, with a generated uuid."""
    service = service_of()
    answer = await service.ask("POST", ALL, version="1.19", json={"name": "x"})
    assert (answer.status_code, answer.content) == (201, b"")
    (made,) = (await service.ask("GET", ALL)).json()["resource_providers"]
    assert answer.headers["location"] == f"http://placement{ALL}/{made['uuid']}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"name": "a"}, (409, "name: a already exists.", "duplicate_name")),
        ({"name": "x", "uuid": A}, (409, f"uuid: {A} already exists.", "duplicate_name")),
        (
            {"name": "x", "parent_provider_uuid": GROUP},
            (400, "parent provider UUID does not exist.", "undefined_code"),
        ),
        (
            {"name": "x", "uuid": GROUP, "parent_provider_uuid": GROUP},
            (
                400,
                "Please set parent provider UUID to None if there is no parent.",
                "undefined_code",
            ),
        ),
        ({"name": ""}, (400, "create failed because: name is required", "undefined_code")),
    ],
)
async def test_what_cannot_be_made(
    service: Service, body: Json, expected: tuple[int, str, str]
) -> None:
    """A name or uuid in use and an unknown parent are refused."""
    status, text, code = told(await service.ask("POST", ALL, json=body))
    assert (status, code) == (expected[0], f"placement.{expected[2]}")
    assert text.endswith(expected[1])


@pytest.mark.parametrize(
    ("version", "body", "expected"),
    [
        ("1.0", {"name": "c"}, (409, "Conflicting resource provider c already exists.")),
        (
            "1.36",
            {"name": "b", "parent_provider_uuid": C},
            (400, "re-parenting a provider is not "),
        ),
        ("1.36", {"name": "b", "parent_provider_uuid": None}, (400, "un-parenting a provider is ")),
        ("1.39", {"name": "b", "parent_provider_uuid": B}, (400, "creating loop in the provider ")),
        ("1.39", {"name": "b", "parent_provider_uuid": GROUP}, (400, "parent provider UUID does ")),
    ],
)
async def test_what_cannot_be_changed(
    service: Service, version: str, body: Json, expected: tuple[int, str]
) -> None:
    """Moving a provider is refused before 1.37, and so are loops."""
    answer = await service.ask("PUT", f"{ALL}/{B}", version=version, json=body)
    assert answer.status_code == expected[0]
    assert expected[1] in answer.json()["errors"][0]["detail"]


async def test_a_subtree_moves_with_its_root(service: Service) -> None:
    """Moving a provider moves its subtree and leaves the generation unchanged."""
    below_c = {"name": "a", "parent_provider_uuid": C}
    answer = await service.ask("PUT", f"{ALL}/{A}", json=below_c)
    assert answer.json()["root_provider_uuid"] == C
    assert answer.json()["generation"] == 0
    b = (await service.ask("GET", f"{ALL}/{B}")).json()
    assert (b["parent_provider_uuid"], b["root_provider_uuid"]) == (A, C)
    loop = {"name": "c", "parent_provider_uuid": B}
    assert (await service.ask("PUT", f"{ALL}/{C}", json=loop)).status_code == 400
    root = {"name": "b", "parent_provider_uuid": None}
    answer = await service.ask("PUT", f"{ALL}/{B}", json=root)
    assert (answer.json()["parent_provider_uuid"], answer.json()["root_provider_uuid"]) == (None, B)


async def test_a_new_name_leaves_the_parent_as_it_is(service: Service) -> None:
    """Renaming keeps the parent and frees the old name."""
    answer = await service.ask("PUT", f"{ALL}/{B}", json={"name": "☃"})
    assert (answer.json()["name"], answer.json()["parent_provider_uuid"]) == ("☃", A)
    assert await found(service, "name=☃") == ["☃"]
    assert (await service.ask("POST", ALL, json={"name": "b"})).status_code == 200


async def test_a_provider_is_removed_once(service: Service) -> None:
    """A provider with children cannot be deleted, and a second deletion gets 404."""
    status, text, code = told(await service.ask("DELETE", f"{ALL}/{A}"))
    assert (status, code) == (409, "placement.resource_provider.cannot_delete_parent")
    assert (
        text == f"Unable to delete parent resource provider {A}: It has child resource providers."
    )
    for uuid in (B, A):
        assert (await service.ask("DELETE", f"{ALL}/{uuid}")).status_code == 204
    status, text, _ = told(await service.ask("DELETE", f"{ALL}/{A}"))
    assert (status, text) == (404, f"No resource provider with uuid {A} found for delete")
    status, text, _ = told(await service.ask("GET", f"{ALL}/{A}"))
    assert (status, text) == (404, f"No resource provider with uuid {A} found")


async def test_providers_are_found_by_all_that_is_asked(service: Service) -> None:
    """Each filter matches individual providers, not their trees."""
    await service.ask("POST", f"{ALL}/{B}/inventories", json={"resource_class": "VCPU", "total": 4})
    traits = {"resource_provider_generation": 0, "traits": ["HW_CPU_X86_AVX"]}
    await service.ask("PUT", f"{ALL}/{C}/traits", json=traits)
    await service.ask("PUT", f"{ALL}/{A}/aggregates", version="1.18", json=[GROUP])
    assert await found(service, "") == ["a", "b", "c"]
    assert await found(service, "name=b") == ["b"]
    assert await found(service, f"uuid={C}") == ["c"]
    assert await found(service, f"uuid={C}&name=b") == []
    assert await found(service, f"in_tree={B}") == ["a", "b"]
    assert await found(service, f"in_tree={B}&name=b") == ["b"]
    assert await found(service, f"in_tree={GROUP}") == []
    assert await found(service, "resources=VCPU:4") == ["b"]
    assert await found(service, "resources=VCPU:5") == []
    assert await found(service, "required=HW_CPU_X86_AVX") == ["c"]
    assert await found(service, "required=!HW_CPU_X86_AVX") == ["a", "b"]
    assert await found(service, "required=in:HW_CPU_X86_AVX,COMPUTE_NODE") == ["c"]
    assert await found(service, f"member_of={GROUP}") == ["a"]
    assert await found(service, f"member_of=!{GROUP}") == ["b", "c"]
    assert await found(service, f"member_of={C}") == []


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (
            "resources=COW:1",
            "Invalid resource class in resources parameter: No such resource class COW.",
        ),
        ("required=COW", 'Invalid trait(s) in "required" parameter: No such trait(s): COW.'),
        ("required=!COW", 'Invalid trait(s) in "required" parameter: No such trait(s): COW.'),
    ],
)
async def test_names_that_nobody_knows_are_refused(service: Service, query: str, text: str) -> None:
    """An unknown class or trait gets 400."""
    assert told(await service.ask("GET", f"{ALL}?{query}"))[:2] == (400, text)


async def test_what_is_used_is_told_by_class(service: Service) -> None:
    """The usage is 0 for an unused class, and empty without inventories."""
    url = f"{ALL}/{A}"
    empty = await service.ask("GET", f"{url}/usages")
    assert empty.json() == {"resource_provider_generation": 0, "usages": {}}
    await service.ask("POST", f"{url}/inventories", json={"resource_class": "VCPU", "total": 4})
    answer = await service.ask("GET", f"{url}/usages")
    assert answer.json() == {"resource_provider_generation": 1, "usages": {"VCPU": 0}}
    missing = told(await service.ask("GET", f"{ALL}/{GROUP}/usages"))
    sentence = f"No resource provider with uuid {GROUP} found"
    assert missing[:2] == (404, f"{sentence}: {sentence}")


def test_the_clock_of_these_tests() -> None:
    """The expected times above are those of the fake clock."""
    assert NOW_S == 1_800_000_000.0
