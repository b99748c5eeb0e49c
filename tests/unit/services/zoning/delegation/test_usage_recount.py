"""Tests for asking children about servers with open resizes."""

from dataclasses import replace

import pytest

from berth.domain.errors import UnavailableError
from berth.domain.ledger.write import Put
from berth.domain.zones.zone import RemoteInstance, Zone
from berth.domain.zones.zone_orders import RemoteServer
from berth.services.zoning.delegation.usage_recount import PAUSE_S, UsageRecount
from tests.unit.services.wiring import order_of, running
from tests.unit.services.zoning.zone_harness import ZoneServices, open_tree, request_of

SIZE = 1, 1024
"""The size of the servers that `request_of` requests."""


async def placed(count: int) -> tuple[ZoneServices, UsageRecount]:
    """Return a root that has sent this many servers to one child, and the service under test."""
    root = await open_tree()
    root.children[:] = [replace(root.children[1], weight_offset=100.0)]
    await root.tree.place(order_of(request_of(count)))
    here = UsageRecount(
        ledger=root.desk.ledger,
        zone_of=lambda number: next(one for one in root.children if one.zone_id == number),
        children=root.near,
        clock=root.desk.clock,
        telemetry=root.desk.told,
        timeout_s=5.0,
    )
    return root, here


async def have_resized(root: ZoneServices) -> int:
    """Open a resize to the same size for every remote server; return their number."""
    remotes = await root.desk.ledger.all(RemoteInstance)
    for one in remotes:
        assert one.counts_as is not None
        resized = replace(one, resize=(one.counts_as, one.counts_as))
        await root.desk.ledger.commit([(Put(resized),)])
    return len(remotes)


async def still_open(root: ZoneServices) -> int:
    """Return the number of open resizes."""
    return sum(one.resize is not None for one in await root.desk.ledger.all(RemoteInstance))


async def test_nothing_is_asked_where_nothing_is_open() -> None:
    """Children are not asked about servers without an open resize."""
    root, here = await placed(4)
    root.near.asked.clear()
    async with running(here.run):
        await root.desk.clock.sleep(3 * PAUSE_S)
    assert root.near.asked == []


async def test_a_child_is_asked_at_the_look_after() -> None:
    """A child is asked about open resizes at the second look, and again if it does not answer."""
    root, here = await placed(4)
    async with running(here.run):
        await root.desk.clock.sleep(1.0)
        count = await have_resized(root)
        assert count > 1
        root.near.away.add("east")
        root.near.asked.clear()
        await root.desk.clock.sleep(PAUSE_S)
        assert root.near.asked == []
        await root.desk.clock.sleep(PAUSE_S)
        assert root.near.asked == [("east", "server")]
        assert "zone_recount_failed" in root.desk.told.failed
        assert await still_open(root) == count
        root.near.away.clear()
        await root.desk.clock.sleep(PAUSE_S)
        assert await still_open(root) == 0
        root.near.asked.clear()
        await root.desk.clock.sleep(2 * PAUSE_S)
        assert root.near.asked == []


async def test_many_are_asked_for_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are too many open resizes, they are asked about in turn."""
    monkeypatch.setattr("berth.services.zoning.delegation.usage_recount._ASKED_MAX", 2)
    root, here = await placed(5)
    asked: list[str] = []

    async def server(zone: Zone, remote: RemoteInstance, *, timeout_s: float) -> RemoteServer:
        asked.append(remote.instance_uuid)
        return RemoteServer(SIZE, is_resizing=True)

    monkeypatch.setattr(root.near, "server", server)
    count = await have_resized(root)
    async with running(here.run):
        await root.desk.clock.sleep((count + 1) * PAUSE_S)
    uuids = sorted({*asked})
    assert len(uuids) == count
    assert asked[: count + 1] == [*uuids, uuids[0]]


async def test_what_could_not_be_read_is_read_at_the_next_look() -> None:
    """A failed read of the ledger is repeated at the next look."""
    root, here = await placed(2)
    await have_resized(root)
    right = root.desk.ledger.remote_instances
    async with running(here.run):
        root.desk.ledger.remote_instances = away  # type: ignore[method-assign]
        await root.desk.clock.sleep(2 * PAUSE_S)
        root.desk.ledger.remote_instances = right  # type: ignore[method-assign]
        await root.desk.clock.sleep(2 * PAUSE_S)
    assert await still_open(root) == 0
    assert "zone_recount_failed" in root.desk.told.failed


async def away(**which: object) -> list[RemoteInstance]:
    """Raise UnavailableError."""
    raise UnavailableError(str(which))
