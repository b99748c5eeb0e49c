"""The Placement API together with the other APIs, under its own path."""

import pytest

from berth.api.app import build_app
from berth.api.limits import RequestLimits
from berth.api.placement.routes import PREFIX
from tests.unit.api.cloud import Stack
from tests.unit.api.placement.service import Service, parts_of


@pytest.fixture
async def service() -> Service:
    """Return a service with all APIs."""
    stack = Stack(limits=RequestLimits(query_bytes_max=100))
    await stack.start(0)
    return Service(build_app(stack.parts, parts_of(prefix=PREFIX)))


@pytest.mark.parametrize("path", ["/placement", "/placement/"])
async def test_its_root_is_the_versions_document(service: Service, path: str) -> None:
    """The root with and without a slash returns the versions."""
    answer = await service.ask("GET", path, headers={"x-auth-token": None})
    assert answer.status_code == 200
    assert answer.json()["versions"][0]["id"] == "v1.0"


@pytest.mark.parametrize(
    ("path", "status", "key"),
    [
        ("/placement/nowhere", 404, "errors"),
        (f"/placement?{'x' * 101}", 414, "errors"),
        ("/placements", 404, "itemNotFound"),
        ("/placementx/traits", 404, "itemNotFound"),
        ("/traits", 404, "itemNotFound"),
        (f"/?{'x' * 101}", 414, "computeFault"),
    ],
)
async def test_each_api_tells_errors_in_its_own_form(
    service: Service, path: str, status: int, key: str
) -> None:
    """The path determines the form of an error, even before a handler runs."""
    answer = await service.ask("GET", path)
    assert answer.status_code == status
    assert list(answer.json()) == [key]


async def test_the_others_are_as_they_were(service: Service) -> None:
    """The compute API has its own microversions."""
    answer = await service.ask("GET", "/v2.1/servers")
    assert answer.status_code == 200
    assert answer.headers["openstack-api-version"] == "compute 2.1"
