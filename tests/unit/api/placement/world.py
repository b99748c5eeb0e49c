"""A fleet in the Placement API, created and read through the API itself."""

from collections.abc import Mapping
from typing import Any

import httpx

from berth.adapters.ledger.memory import MemoryLedger
from berth.api.auth.authentication import NoAuth2
from berth.api.placement.app import build_placement_app
from berth.api.placement.parts import PlacementParts
from berth.app.placement import PlacementProcess, placement_parts, provider_replica
from berth.config.settings import Settings
from berth.services.replica.follower import Follower
from berth.testing.builders import make_uuid
from tests.unit.api.cloud import FakeClock, Told
from tests.unit.api.placement.service import Service

Json = dict[str, Any]


def parts_on(ledger: MemoryLedger) -> PlacementParts:
    """Return the parts of an API on a ledger."""
    clock = FakeClock()
    follower = Follower(ledger, clock, [])
    process = PlacementProcess(
        ledger, follower, provider_replica(follower), NoAuth2(), clock, Told()
    )
    return placement_parts(Settings(), process)


class World:
    """A service and helpers that create its records."""

    def __init__(self, parts: PlacementParts | None = None) -> None:
        self.parts = parts or parts_on(MemoryLedger())
        self.service = Service(build_placement_app(self.parts))

    async def ask(
        self, method: str, path: str, data: object = None, *, version: str = "1.39"
    ) -> httpx.Response:
        """Send a request and return the response."""
        if data is None:
            return await self.service.ask(method, path, version=version)
        return await self.service.ask(method, path, version=version, json=data)

    async def get(self, path: str, version: str = "1.39") -> Json:
        """Return the document at a path."""
        answer = await self.ask("GET", path, version=version)
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    async def provider(self, number: int = 1, parent: int | None = None, **totals: int) -> str:
        """Create a provider with these totals and return its uuid."""
        uuid = make_uuid("provider", number)
        body: Json = {"name": f"provider-{number}", "uuid": uuid}
        if parent is not None:
            body["parent_provider_uuid"] = make_uuid("provider", parent)
        assert (await self.ask("POST", "/resource_providers", body)).status_code == 200
        if totals:
            has = {name: {"total": total} for name, total in totals.items()}
            told = {"resource_provider_generation": 0, "inventories": has}
            await self.done("PUT", f"/resource_providers/{uuid}/inventories", told)
        return uuid

    async def done(
        self, method: str, path: str, data: object = None, version: str = "1.39"
    ) -> None:
        """Send a request that must succeed."""
        answer = await self.ask(method, path, data, version=version)
        assert answer.is_success, answer.text

    async def traits(self, uuid: str, *traits: str) -> None:
        """Replace the traits of a provider."""
        seen = (await self.get(f"/resource_providers/{uuid}"))["generation"]
        told = {"resource_provider_generation": seen, "traits": traits}
        await self.done("PUT", f"/resource_providers/{uuid}/traits", told)

    async def aggregates(self, uuid: str, *uuids: str) -> None:
        """Replace the aggregates of a provider."""
        await self.done("PUT", f"/resource_providers/{uuid}/aggregates", uuids, "1.18")


def consumer(number: int = 1) -> str:
    """Return the uuid of a consumer."""
    return make_uuid("consumer", number)


def claim(held: Mapping[str, Mapping[str, int]], **changed: object) -> Json:
    """Return the body of a claim by a new consumer in the form of 1.38."""
    return {
        "allocations": {uuid: {"resources": amounts} for uuid, amounts in held.items()},
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
        **changed,
    }


def refusal(answer: httpx.Response) -> tuple[int, str, str]:
    """Return the status, code and message of an error."""
    (error,) = answer.json()["errors"]
    message = error["detail"].split("\n")[-1].strip()
    return answer.status_code, error.get("code", "").removeprefix("placement."), message
