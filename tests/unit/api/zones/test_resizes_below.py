"""Resizes of servers in child zones, and their charge to the quotas."""

import pytest

from berth.domain.zones.zone import RemoteInstance
from berth.ports.zones import ForwardedResponse
from tests.unit.api.zones.resizing import BIG, SMALL, act, counted, resize
from tests.unit.api.zones.tree import Net, ZoneStack


async def limit(zone: ZoneStack, cores: int) -> None:
    """Set the limit of cores of the project in a zone."""
    answer = await zone.ask("PUT", "/v2.1/os-quota-sets/p", {"quota_set": {"cores": cores}})
    assert answer.status == 200, answer.body


async def test_it_counts_for_the_larger_size_in_each_zone(
    net: Net, root: ZoneStack, far: str
) -> None:
    """Each zone on the way charges the larger size from the request on."""
    assert await counted(root) == SMALL
    assert await resize(root, far) == 202
    assert await counted(root) == await counted(net.zones["east"]) == BIG


async def test_two_sizes_count_by_each_of_their_parts(root: ZoneStack, far: str) -> None:
    """The larger number of VCPUs and the larger memory are charged."""
    assert await resize(root, far, "odd") == 202
    assert await counted(root) == (2, 8192)


async def test_what_is_above_the_quota_is_refused(net: Net, root: ZoneStack, far: str) -> None:
    """A resize beyond the quota gets 403, and the child is not asked."""
    await limit(root, 5)
    net.seen.clear()
    assert await resize(root, far) == 403
    assert not net.seen
    assert await counted(root) == SMALL
    await limit(root, 6)
    assert await resize(root, far) == 202


async def test_what_a_zone_on_the_way_refuses_counts_nowhere(
    net: Net, root: ZoneStack, far: str
) -> None:
    """A refusal by the quota of a zone on the way leaves the charge unchanged."""
    await limit(net.zones["east"], 5)
    assert await resize(root, far) == 403
    assert await counted(root) == await counted(net.zones["east"]) == SMALL


@pytest.mark.parametrize(("end", "size"), [("confirmResize", BIG), ("revertResize", SMALL)])
async def test_the_end_of_a_resize(
    net: Net, root: ZoneStack, far: str, end: str, size: tuple[int, int]
) -> None:
    """A confirmed resize is charged with the new size, and a reverted one with the old."""
    assert await resize(root, far) == 202
    net.lies["east", "POST"] = ForwardedResponse(204 if end == "confirmResize" else 202, {}, b"")
    assert await act(root, far, {end: None}) in {202, 204}
    assert await counted(root) == size
    errand = await root.ledger.get(RemoteInstance, far)
    assert errand is not None
    assert errand.resize == (size, size)


async def test_a_smaller_size_counts_once_it_is_confirmed(
    net: Net, root: ZoneStack, far: str
) -> None:
    """Until a smaller size is confirmed, the old one is charged."""
    await root.flavor("tiny", vcpus=1, ram=1024)
    assert await resize(root, far, "tiny") == 202
    assert await counted(root) == SMALL
    net.lies["east", "POST"] = ForwardedResponse(204, {}, b"")
    await act(root, far, {"confirmResize": None})
    assert await counted(root) == (1, 1024)


@pytest.mark.parametrize("status", [400, 403, 404, 409])
async def test_what_the_child_refuses_does_not_count(
    net: Net, root: ZoneStack, far: str, status: int
) -> None:
    """A refused resize, or one that was not sent, leaves the charge unchanged."""
    net.lies["east", "POST"] = ForwardedResponse(status, {}, b"{}")
    assert await resize(root, far) == status
    assert await counted(root) == SMALL
    net.away.add("east")
    assert await resize(root, far) == 503
    assert await counted(root) == SMALL


async def test_what_may_have_been_done_counts(net: Net, root: ZoneStack, far: str) -> None:
    """After a resize of unknown outcome, the larger size is charged."""
    net.lies["east", "POST"] = ForwardedResponse(500, {}, b"{}")
    assert await resize(root, far) == 503
    assert await counted(root) == BIG


async def test_a_resize_that_is_refused_undoes_no_other(
    net: Net, root: ZoneStack, far: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second resize or a confirmation during a resize gets 409 and changes nothing."""
    right, statuses = root.children.forward, list[int]()

    async def slow(*args: object, **named: object) -> object:
        monkeypatch.setattr(root.children, "forward", right)
        statuses.append(await resize(root, far, "odd"))
        statuses.append(await act(root, far, {"confirmResize": None}))
        return await right(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(root.children, "forward", slow)
    assert await resize(root, far) == 202
    assert statuses == [409, 409]
    assert await counted(root) == BIG
    errand = await root.ledger.get(RemoteInstance, far)
    assert errand is not None
    assert errand.resize == (SMALL, BIG)


async def test_a_server_that_is_deleted_by_force_counts_no_more(root: ZoneStack, far: str) -> None:
    """After forceDelete, the server is not charged."""
    assert await act(root, far, {"forceDelete": None}) == 202
    assert await counted(root) == (0, 0)


async def test_a_deleted_server_counts_no_more(root: ZoneStack, far: str) -> None:
    """A server deleted during a resize is not charged."""
    assert await resize(root, far) == 202
    assert (await root.ask("DELETE", f"/v2.1/servers/{far}", token="u:p")).status == 204
    assert await counted(root) == (0, 0)
