"""The ways in which agents reach the control plane: every test of this folder runs on each."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.conformance.gateway.cloud import FarWay, NearWay, Way
from tests.conformance.gateway.transports import PipeTransport, Transport, WebSocketTransport
from tests.unit.adapters.gateway.rig import Plane, open_plane
from tests.unit.services.wiring import running

NEAR = "memory"
FAR = ["pipe", "websocket", "websocket-tls"]


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncGenerator[Plane]:
    """Yield a control plane with two hosts that follows its ledger."""
    plane = await open_plane(tmp_path)
    async with running(plane.desk.follower.run):
        yield plane


async def _transport(name: str, plane: Plane, folder: Path, stack: AsyncExitStack) -> Transport:
    if name == "pipe":
        return PipeTransport(plane.sessions)
    transport = WebSocketTransport(plane.sessions, folder if name == "websocket-tls" else None)
    stack.push_async_callback(transport.close)
    return transport


@pytest.fixture(params=FAR)
async def far(
    request: pytest.FixtureRequest, plane: Plane, tmp_path: Path
) -> AsyncGenerator[FarWay]:
    """Yield each transport of sessions, started."""
    async with AsyncExitStack() as stack:
        transport = await _transport(str(request.param), plane, tmp_path, stack)
        await transport.start()
        yield FarWay(plane, transport)


@pytest.fixture(params=[NEAR, *FAR])
async def way(request: pytest.FixtureRequest, plane: Plane, tmp_path: Path) -> AsyncGenerator[Way]:
    """Yield each way, the one in memory among them."""
    if request.param == NEAR:
        yield NearWay(plane)
        return
    async with AsyncExitStack() as stack:
        transport = await _transport(str(request.param), plane, tmp_path, stack)
        await transport.start()
        yield FarWay(plane, transport)
