"""Tests for replays against a service that refuses a request."""

import asyncio
from collections.abc import Mapping

import pytest

from berth.lab import workload_replay
from berth.lab.service_client import ServiceClient, ServiceConnection, ServiceError
from berth.lab.workload import Arrival, FlavorSpec, FleetHost, Workload
from berth.lab.workload_replay import ReplayOptions, replay

WORKLOAD = Workload(
    name="two",
    hosts=(FleetHost("a", {"VCPU": 4}),),
    flavors={"small": FlavorSpec("small", 1, 1)},
    arrivals=(Arrival(0.0, "one", "small"), Arrival(1.0, "two", "small")),
)


class RefusingClient(ServiceClient):
    """A client of a service that knows all flavors and refuses every server."""

    async def ensure_flavor(self, spec: FlavorSpec) -> None:
        """Do nothing: the flavor exists."""

    async def create(self, body: Mapping[str, object], key: str) -> str:
        """Refuse the server."""
        raise ServiceError("quota exceeded")


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_refusal_ends_the_replay_with_its_own_error(
    monkeypatch: pytest.MonkeyPatch, concurrency: int
) -> None:
    """The replay raises the refusal itself, not an exception group."""
    monkeypatch.setattr(workload_replay, "ServiceClient", RefusingClient)
    options = ReplayOptions(concurrency=concurrency)
    with pytest.raises(ServiceError, match="quota exceeded"):
        asyncio.run(replay(WORKLOAD, ServiceConnection("http://127.0.0.1:1"), options))
