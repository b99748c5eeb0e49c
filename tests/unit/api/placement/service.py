"""The Placement API in this process, which tests can call in one line."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import httpx
from starlette.types import ASGIApp

from berth.adapters.ledger.memory import MemoryLedger
from berth.api.auth.authentication import NoAuth2
from berth.api.front import Front
from berth.api.placement.actions import PlacementRoute
from berth.api.placement.answers import send_refusal
from berth.api.placement.app import build_placement_app
from berth.api.placement.dispatch import Dispatcher
from berth.api.placement.parts import PlacementParts
from berth.app.placement import PlacementProcess, placement_parts, provider_replica
from berth.config.settings import Settings
from berth.services.replica.follower import Follower
from tests.unit.api.cloud import CountedIds, FakeClock, Told


def parts_of(**changed: object) -> PlacementParts:
    """Return the parts of a service on an empty memory ledger, with some replaced."""
    clock = FakeClock()
    ledger = MemoryLedger(now_s=clock.now_s)
    follower = Follower(ledger, clock, [])
    process = PlacementProcess(
        ledger, follower, provider_replica(follower), NoAuth2(), clock, Told()
    )
    parts = placement_parts(Settings(), process)
    return replace(parts, **cast("dict[str, Any]", {"ids": CountedIds(), **changed}))


class Service:
    """A client of an application; its token is `admin` unless a request has another."""

    def __init__(self, app: ASGIApp) -> None:
        self._transport = httpx.ASGITransport(app, raise_app_exceptions=False)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        version: str | None = "1.39",
        headers: Mapping[str, str | None] | None = None,
        **more: object,
    ) -> httpx.Response:
        """Send a request, without the headers that are None, and return the response."""
        told: dict[str, str | None] = {
            "x-auth-token": "admin",
            "openstack-api-version": version and f"placement {version}",
            **(headers or {}),
        }
        url = f"http://placement{path}"
        async with httpx.AsyncClient(transport=self._transport, trust_env=False) as client:
            request = client.build_request(method, url, **cast("dict[str, Any]", more))
            for name in ("accept", *told):
                request.headers.pop(name, None)
            request.headers.update({name: value for name, value in told.items() if value})
            return await client.send(request)


def service_of(actions: Iterable[PlacementRoute] | None = None, **changed: object) -> Service:
    """Return a service with the real routes, or with the given ones."""
    parts = parts_of(**changed)
    if actions is None:
        return Service(build_placement_app(parts))
    front = Front(
        Dispatcher(parts, actions),
        parts.limits,
        parts.ids,
        parts.telemetry,
        teller_of=lambda _: send_refusal,
    )
    return Service(front)
