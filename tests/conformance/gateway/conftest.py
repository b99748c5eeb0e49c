"""The ways in which agents reach the control plane: every test of this folder runs on each."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from berth.adapters.bus.rabbitmq import RabbitBroker
from tests.conformance.gateway.cloud import FarWay, NearWay, Way
from tests.conformance.gateway.transports import (
    PipeTransport,
    RabbitTransport,
    WebSocketTransport,
)
from tests.unit.adapters.gateway.rig import Plane, open_plane
from tests.unit.services.wiring import running

NEAR = "memory"
FAR = [
    "pipe",
    "websocket",
    "websocket-tls",
    pytest.param("rabbitmq", marks=pytest.mark.rabbitmq),
]


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncGenerator[Plane]:
    """Yield a control plane with two hosts that follows its ledger."""
    plane = await open_plane(tmp_path)
    async with running(plane.desk.follower.run):
        yield plane


@dataclass(frozen=True, slots=True)
class Kind:
    """A way, and the broker that it needs."""

    name: str
    broker: RabbitBroker | None


def _kind(request: pytest.FixtureRequest) -> Kind:
    """Return the way of a fixture's parameter.

    Not all of this is done in one asynchronous fixture, because the broker is made in a loop of its
    own.
    """
    name = str(request.param)
    return Kind(name, request.getfixturevalue("broker") if name == "rabbitmq" else None)


@pytest.fixture(params=FAR)
def far_kind(request: pytest.FixtureRequest) -> Kind:
    """Return each transport of sessions."""
    return _kind(request)


@pytest.fixture(params=[NEAR, *FAR])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Return each way, the one in memory among them."""
    return _kind(request)


@asynccontextmanager
async def _started(kind: Kind, plane: Plane, folder: Path) -> AsyncGenerator[FarWay]:
    async with AsyncExitStack() as stack:
        transport: PipeTransport | RabbitTransport | WebSocketTransport
        if kind.broker is not None:
            transport = RabbitTransport(plane.sessions, kind.broker, folder)
        elif kind.name == "pipe":
            transport = PipeTransport(plane.sessions)
        else:
            tls = folder if kind.name == "websocket-tls" else None
            transport = WebSocketTransport(plane.sessions, tls)
        stack.push_async_callback(transport.close)
        await transport.start()
        yield FarWay(plane, transport)


@pytest.fixture
async def far(far_kind: Kind, plane: Plane, tmp_path: Path) -> AsyncGenerator[FarWay]:
    """Yield a transport of sessions, started."""
    async with _started(far_kind, plane, tmp_path) as far:
        yield far


@pytest.fixture
async def way(kind: Kind, plane: Plane, tmp_path: Path) -> AsyncGenerator[Way]:
    """Yield a way in which agents reach the control plane."""
    if kind.name == NEAR:
        yield NearWay(plane)
        return
    async with _started(kind, plane, tmp_path) as far:
        yield far
