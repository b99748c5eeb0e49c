"""Cross-origin requests of browsers."""

import pytest

from berth.api.placement.cors import Cors
from tests.unit.api.placement.service import Service, service_of

ORIGIN = "http://valid.example.com"
OTHER = "http://invalid.example.com"
ALLOWED = "access-control-allow-origin"


@pytest.fixture
def service() -> Service:
    """Return a service that allows one origin and one header."""
    return service_of(cors=Cors([ORIGIN], ["OpenStack-API-Version"]))


async def test_a_preflight_of_a_known_origin(service: Service) -> None:
    """A preflight needs no token and returns the allowed methods and headers."""
    answer = await service.ask(
        "OPTIONS",
        "/resource_providers",
        headers={
            "origin": ORIGIN,
            "access-control-request-method": "GET",
            "access-control-request-headers": "openstack-api-version, accept",
            "x-auth-token": None,
        },
    )
    assert answer.status_code == 200
    assert answer.content == b""
    assert answer.headers[ALLOWED] == ORIGIN
    assert answer.headers["access-control-allow-methods"] == "GET"
    assert answer.headers["access-control-allow-headers"] == "openstack-api-version,accept"
    assert answer.headers["access-control-allow-credentials"] == "true"
    assert answer.headers["vary"] == "origin"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": OTHER, "access-control-request-method": "GET"},
        {"access-control-request-method": "GET"},
        {"origin": ORIGIN},
        {"origin": ORIGIN, "access-control-request-method": "BREW"},
        {
            "origin": ORIGIN,
            "access-control-request-method": "GET",
            "access-control-request-headers": "x-other",
        },
    ],
)
async def test_any_other_preflight_tells_nothing(service: Service, headers: dict[str, str]) -> None:
    """A preflight that is not allowed gets 200 without CORS headers."""
    answer = await service.ask("OPTIONS", "/", headers=headers)
    assert answer.status_code == 200
    assert ALLOWED not in answer.headers


@pytest.mark.parametrize(("origin", "told"), [(ORIGIN, ORIGIN), (OTHER, None), (None, None)])
@pytest.mark.parametrize("path", ["/", "/nowhere", "/resource_providers?x=y"])
async def test_an_answer_tells_known_origins(
    service: Service, origin: str | None, told: str | None, path: str
) -> None:
    """Responses and errors have CORS headers for allowed origins."""
    answer = await service.ask("GET", path, headers={"origin": origin})
    assert answer.headers.get(ALLOWED) == told
    assert ("access-control-expose-headers" in answer.headers) is (told is not None)
    assert "openstack-api-version" in answer.headers["vary"]


async def test_everybody_may_be_allowed_without_credentials() -> None:
    """With the origin `*`, any origin is allowed without credentials."""
    service = service_of(cors=Cors(["*"], []))
    answer = await service.ask("GET", "/", headers={"origin": OTHER})
    assert answer.headers[ALLOWED] == "*"
    assert "access-control-allow-credentials" not in answer.headers


async def test_without_origins_options_is_no_method() -> None:
    """Without allowed origins, OPTIONS gets 405 and there are no CORS headers."""
    service = service_of()
    headers = {"origin": ORIGIN, "access-control-request-method": "GET"}
    assert (await service.ask("OPTIONS", "/", headers=headers)).status_code == 405
    assert ALLOWED not in (await service.ask("GET", "/", headers=headers)).headers
