"""The recount of servers in child zones whose resize or delete has ended unnoticed."""

from dataclasses import replace

import msgspec
import pytest

from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.ledger.write import Free, Put
from berth.domain.zones.zone import RemoteInstance
from berth.ports.zones import ForwardedResponse
from berth.services.zoning.delegation.usage_recount import UsageRecount
from berth.testing.builders import make_flavor
from tests.unit.api.zones.resizing import BIG, SMALL, act, counted, resize
from tests.unit.api.zones.tree import Net, ZoneStack


def recounting(zone: ZoneStack) -> UsageRecount:
    """Return the usage recount of a zone."""
    return UsageRecount(
        ledger=zone.ledger,
        zone_of=zone.watch.zone_of,
        children=zone.asking,
        clock=zone.clock,
        telemetry=zone.told,
        timeout_s=5.0,
    )


async def is_now(
    zone: ZoneStack, uuid: str, status: Status, size: tuple[int, int], task: Task | None = None
) -> None:
    """Change a server's status and size, as its agent would."""
    found = await zone.ledger.get(Instance, uuid)
    assert found is not None
    flavor = make_flavor(vcpus=size[0], memory_mb=size[1])
    changed = replace(found, status=status, task=task, flavor=flavor)
    await zone.ledger.commit([(Put(changed),)])


async def is_gone(zone: ZoneStack, uuid: str) -> None:
    """Delete a server, as its agent would."""
    found = await zone.ledger.get(Instance, uuid)
    assert found is not None
    gone = replace(found, status=Status.DELETED, task=None)
    await zone.ledger.commit([(Put(gone), Free(uuid))])


async def errand_of(zone: ZoneStack, uuid: str) -> RemoteInstance | None:
    """Return the remote instance of a server, or None."""
    return await zone.ledger.get(RemoteInstance, uuid)


@pytest.mark.parametrize("size", [SMALL, BIG])
async def test_a_resize_that_the_child_has_ended(
    root: ZoneStack, deep: ZoneStack, far: str, size: tuple[int, int]
) -> None:
    """After two recounts, the server is charged with the size that it has."""
    here = recounting(root)
    assert await resize(root, far) == 202
    await is_now(deep, far, Status.ACTIVE, size)
    await here.recount()
    assert await counted(root) == BIG
    await here.recount()
    assert await counted(root) == size
    found = await errand_of(root, far)
    assert found is not None
    assert found.resize is None
    assert root.told.events == ["zone_instances_recounted"]


@pytest.mark.parametrize(
    ("status", "task"),
    [
        (Status.ACTIVE, Task.RESIZE_PREP),
        (Status.RESIZED, None),
        (Status.RESIZED, Task.RESIZE_REVERTING),
    ],
)
async def test_one_that_goes_on(
    root: ZoneStack, deep: ZoneStack, far: str, status: Status, task: Task | None
) -> None:
    """During a resize, the larger size is charged."""
    here = recounting(root)
    await root.flavor("tiny", vcpus=1, ram=1024)
    assert await resize(root, far, "tiny") == 202
    await is_now(deep, far, status, (1, 1024), task)
    for _ in range(3):
        await here.recount()
    assert await counted(root) == SMALL


async def test_one_that_has_just_begun(root: ZoneStack, deep: ZoneStack, far: str) -> None:
    """A resize is not taken as ended at the first recount after its start."""
    here = recounting(root)
    assert await resize(root, far) == 202
    await is_now(deep, far, Status.ACTIVE, SMALL)
    await here.recount()
    assert await act(root, far, {"confirmResize": None}) == 409
    assert await resize(root, far, "odd") == 202
    await is_now(deep, far, Status.ACTIVE, SMALL)
    await here.recount()
    assert await counted(root) == (6, 8192)
    await here.recount()
    assert await counted(root) == SMALL


async def test_one_that_begins_while_the_child_is_asked(
    net: Net, root: ZoneStack, deep: ZoneStack, far: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer from before the start of a resize does not change the charged size."""
    here, right = recounting(root), root.asking.server
    assert await resize(root, far) == 202
    await is_now(deep, far, Status.ACTIVE, SMALL)
    await here.recount()

    async def slow(*args: object, **named: object) -> object:
        answer = await right(*args, **named)  # type: ignore[arg-type]
        assert await resize(root, far) == 202
        return answer

    monkeypatch.setattr(root.asking, "server", slow)
    await here.recount()
    assert await counted(root) == BIG


ANOTHER = {"id": "a", "tenant_id": "p", "status": "ACTIVE", "flavor": {"vcpus": 2, "ram": 4096}}


@pytest.mark.parametrize("body", [b"[]", b"{}", msgspec.json.encode({"server": ANOTHER})])
async def test_what_is_not_believed(
    net: Net, root: ZoneStack, deep: ZoneStack, far: str, body: bytes
) -> None:
    """An invalid answer changes nothing and is reported."""
    here = recounting(root)
    assert await resize(root, far) == 202
    net.lies["east", "GET"] = ForwardedResponse(200, {}, body)
    await here.recount()
    await here.recount()
    assert await counted(root) == BIG
    assert root.told.failures[-1][0] == "zone_recount_failed"


async def test_a_size_that_nobody_asked_for(net: Net, root: ZoneStack, far: str) -> None:
    """A size that is neither the old nor the new one is not charged."""
    here = recounting(root)
    assert await resize(root, far) == 202
    shown = {"id": far, "tenant_id": "p", "status": "ACTIVE", "flavor": {"vcpus": 1, "ram": 9999}}
    answer = ForwardedResponse(200, {}, msgspec.json.encode({"server": shown}))
    net.lies["east", "GET"] = answer
    await here.recount()
    await here.recount()
    assert await counted(root) == BIG


async def test_a_deleted_server_is_forgotten_when_it_is_gone(
    net: Net, root: ZoneStack, deep: ZoneStack, far: str
) -> None:
    """The recount removes the remote instances once the server is gone."""
    east = net.zones["east"]
    here, below = recounting(root), recounting(east)
    assert (await root.ask("DELETE", f"/v2.1/servers/{far}", token="u:p")).status == 204
    for _ in range(3):
        await below.recount()
        await here.recount()
    assert await errand_of(root, far) is not None
    assert await errand_of(east, far) is not None
    await is_gone(deep, far)
    await below.recount()
    await here.recount()
    assert await errand_of(east, far) is None
    assert await errand_of(root, far) is None


async def test_what_its_owner_has_not_deleted_stays(
    root: ZoneStack, deep: ZoneStack, far: str
) -> None:
    """A server that is missing in the child but was not deleted here stays charged."""
    here = recounting(root)
    assert await resize(root, far) == 202
    await is_gone(deep, far)
    await here.recount()
    await here.recount()
    assert await counted(root) == BIG
