"""Inventories over HTTP, all together and one by one, with the provider's generation."""

from typing import Any

import pytest

from berth.api.placement.app import build_placement_app
from berth.api.placement.parts import PlacementParts
from berth.domain.inventory.allocation import Allocation, Claim
from berth.domain.ledger.write import Take
from berth.ports.ledger import Ledger
from tests.unit.api.placement.service import Service, parts_of
from tests.unit.api.placement.test_resource_providers import ALL, GROUP, A, told

URL = f"{ALL}/{A}/inventories"
SEEN = "resource_provider_generation"
DEFAULTS = {
    "reserved": 0,
    "min_unit": 1,
    "max_unit": 2147483647,
    "step_size": 1,
    "allocation_ratio": 1.0,
}

Json = dict[str, Any]


@pytest.fixture
def parts() -> PlacementParts:
    """Return the parts of a service."""
    return parts_of()


@pytest.fixture
def ledger(parts: PlacementParts) -> Ledger:
    """Return the ledger of the service."""
    return parts.ledger


@pytest.fixture
async def service(parts: PlacementParts) -> Service:
    """Return a service with one provider that has no inventory."""
    service = Service(build_placement_app(parts))
    await service.ask("POST", ALL, json={"name": "a", "uuid": A})
    return service


async def use(ledger: Ledger, name: str) -> None:
    """Allocate one unit of a class."""
    claim = Claim(f"claim-{name}", (Allocation(f"consumer-{name}", A, {name: 1}),))
    await ledger.commit([(Take(claim),)])


def all_of(generation: int, **totals: int) -> Json:
    """Return a body with all inventories."""
    return {SEEN: generation, "inventories": {name: {"total": n} for name, n in totals.items()}}


async def test_inventories_are_replaced_together(service: Service) -> None:
    """Missing fields get their defaults, and the generation increases by one."""
    answer = await service.ask("PUT", URL, json=all_of(0, VCPU=4, DISK_GB=9))
    view = {
        SEEN: 1,
        "inventories": {"VCPU": {"total": 4, **DEFAULTS}, "DISK_GB": {"total": 9, **DEFAULTS}},
    }
    assert (answer.status_code, answer.json()) == (200, view)
    assert (await service.ask("GET", URL)).json() == view
    answer = await service.ask("PUT", URL, json=all_of(1))
    assert answer.json() == {SEEN: 2, "inventories": {}}


async def test_one_inventory_is_added_changed_and_removed(service: Service) -> None:
    """Changing an inventory needs a generation; adding one does not."""
    body: Json = {"resource_class": "VCPU", "total": 4, "allocation_ratio": 2}
    answer = await service.ask("POST", URL, json=body)
    view = {**DEFAULTS, "total": 4, "allocation_ratio": 2.0, SEEN: 1}
    assert (answer.status_code, answer.json()) == (201, view)
    assert answer.headers["location"] == f"http://placement{URL}/VCPU"
    answer = await service.ask("PUT", f"{URL}/VCPU", json={SEEN: 1, "total": 5, "reserved": 1})
    assert answer.json() == {**DEFAULTS, "total": 5, "reserved": 1, SEEN: 2}
    assert (await service.ask("GET", f"{URL}/VCPU")).json() == answer.json()
    assert (await service.ask("DELETE", f"{URL}/VCPU")).status_code == 204
    assert (await service.ask("GET", URL)).json() == {SEEN: 3, "inventories": {}}
    assert told(await service.ask("GET", f"{URL}/VCPU"))[:2] == (
        404,
        f"No inventory of class VCPU for {A}",
    )


async def test_all_are_removed_together_from_1_5(service: Service) -> None:
    """Before 1.5, deleting all inventories gets 405."""
    await service.ask("PUT", URL, json=all_of(0, VCPU=4, DISK_GB=9))
    assert (await service.ask("DELETE", URL, version="1.4")).status_code == 405
    assert (await service.ask("DELETE", URL, version="1.5")).status_code == 204
    assert (await service.ask("GET", URL)).json() == {SEEN: 2, "inventories": {}}


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("PUT", "", all_of(0), (409, "resource provider generation conflict", "concurrent_update")),
        (
            "PUT",
            "/VCPU",
            {SEEN: 9, "total": 1},
            (409, "resource provider generation conflict", "concurrent_update"),
        ),
        (
            "PUT",
            "",
            all_of(1, VCPU=1, CUSTOM_X=1),
            (
                400,
                (
                    f"Unknown resource class in inventory for resource provider {A}: No such "
                    "resource class CUSTOM_X."
                ),
                "undefined_code",
            ),
        ),
        (
            "PUT",
            "/CUSTOM_X",
            {SEEN: 1, "total": 1},
            (404, "No such resource class CUSTOM_X.", "undefined_code"),
        ),
        (
            "PUT",
            "/DISK_GB",
            {SEEN: 1, "total": 1},
            (
                400,
                (
                    f"No inventory record with resource class for resource provider {A}: No "
                    "inventory of class DISK_GB found."
                ),
                "undefined_code",
            ),
        ),
        (
            "POST",
            "",
            {"resource_class": "CUSTOM_X", "total": 1},
            (
                400,
                (
                    f"Unable to create inventory for resource provider {A}: No such resource class "
                    "CUSTOM_X."
                ),
                "undefined_code",
            ),
        ),
        (
            "POST",
            "",
            {"resource_class": "VCPU", "total": 1},
            (
                409,
                "Update conflict: inventory of class VCPU already exists; change it with PUT",
                "concurrent_update",
            ),
        ),
        (
            "DELETE",
            "/DISK_GB",
            None,
            (
                404,
                (
                    "No inventory of class DISK_GB found for delete: No inventory of class DISK_GB "
                    "found for delete"
                ),
                "undefined_code",
            ),
        ),
        (
            "DELETE",
            "/COW",
            None,
            (
                404,
                "No inventory of class COW found for delete: No such resource class COW.",
                "undefined_code",
            ),
        ),
    ],
)
async def test_what_cannot_be_changed(
    service: Service, method: str, path: str, body: Json | None, expected: tuple[int, str, str]
) -> None:
    """A refused change has Placement's message and leaves the generation unchanged."""
    await service.ask("PUT", URL, json=all_of(0, VCPU=4))
    status, text, code = told(await service.ask(method, URL + path, json=body))
    assert (status, text, code) == (*expected[:2], f"placement.{expected[2]}")
    assert (await service.ask("GET", URL)).json()[SEEN] == 1


@pytest.mark.parametrize(
    ("version", "reserved", "ratio", "problem"),
    [
        ("1.25", 4, 1.0, "greater than or equal to total."),
        ("1.25", 3, 0.5, "greater than or equal to total."),
        ("1.26", 4, 1.0, None),
        ("1.26", 5, 1.0, "greater than total."),
        ("1.26", 5, 0.0, None),
        ("1.26", 5, -2.0, None),
        ("1.26", 3, -2.0, "greater than total."),
    ],
)
async def test_something_must_be_left_to_be_used(
    service: Service, version: str, reserved: int, ratio: float, problem: str | None
) -> None:
    """Before 1.26, the capacity must be at least 1; from then on, at least 0."""
    body = {"resource_class": "VCPU", "total": 4, "reserved": reserved, "allocation_ratio": ratio}
    answer = await service.ask("POST", URL, version=version, json=body)
    assert answer.status_code == (201 if problem is None else 400)
    if problem is not None:
        unable = f"Unable to create inventory for resource provider {A}: "
        invalid = f"Invalid inventory for 'VCPU' on resource provider '{A}'. "
        (error,) = answer.json()["errors"]
        assert error["detail"].strip().endswith(f"{unable}{invalid}The reserved value is {problem}")


async def test_what_is_used_stays(service: Service, ledger: Ledger) -> None:
    """Used inventories and their provider cannot be deleted, but can be reduced."""
    await service.ask("PUT", URL, json=all_of(0, DISK_GB=9, VCPU=4, MEMORY_MB=8))
    for name in ("DISK_GB", "VCPU"):
        await use(ledger, name)
    for method, body in (("PUT", all_of(3, MEMORY_MB=8)), ("DELETE", None)):
        status, text, code = told(await service.ask(method, URL, json=body))
        assert (status, code) == (409, "placement.inventory.inuse")
        assert text.endswith(f"Inventory for 'VCPU, DISK_GB' on resource provider '{A}' in use.")
    status, text, code = told(await service.ask("DELETE", f"{URL}/VCPU"))
    assert (status, code) == (409, "placement.concurrent_update")
    assert text == (
        f"Unable to delete inventory of class VCPU: Inventory for 'VCPU' on resource provider "
        f"'{A}' in use."
    )
    assert (await service.ask("DELETE", f"{URL}/MEMORY_MB")).status_code == 204
    answer = await service.ask("PUT", URL, json=all_of(4, DISK_GB=9, VCPU=1))
    assert answer.json()[SEEN] == 5
    status, text, code = told(await service.ask("DELETE", f"{ALL}/{A}"))
    assert (status, code) == (409, "placement.resource_provider.inuse")
    assert text == f"Unable to delete resource provider {A}: Resource provider has allocations."


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/inventories", {"nonsense": 1}),
        ("POST", "/inventories", {"nonsense": 1}),
        ("PUT", "/inventories/VCPU", {"nonsense": 1}),
        ("PUT", "/aggregates", []),
        ("PUT", "", {"nonsense": 1}),
    ],
)
async def test_a_provider_that_is_not_there_is_told_before_a_bad_body(
    service: Service, method: str, path: str, body: object
) -> None:
    """An unknown provider gets 404 before the body is validated, as in Placement."""
    answer = await service.ask(method, f"{ALL}/{GROUP}{path}", json=body)
    assert answer.status_code == 404
    assert (await service.ask(method, f"{ALL}/{A}{path}", json=body)).status_code == 400


async def test_two_spellings_of_what_is_not_there(service: Service) -> None:
    """The message repeats its sentence where Placement's does."""
    sentence = f"No resource provider with uuid {GROUP} found"
    for path in ("inventories", "inventories/VCPU"):
        answer = await service.ask("GET", f"{ALL}/{GROUP}/{path}")
        assert told(answer)[:2] == (404, f"{sentence} : {sentence}")
    answer = await service.ask("DELETE", f"{ALL}/{GROUP}/inventories")
    assert told(answer)[:2] == (404, sentence)
