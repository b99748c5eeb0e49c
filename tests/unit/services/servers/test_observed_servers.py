"""Servers that another cloud runs: Berth counts and shows them, and changes nothing."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import pytest

from berth.domain.compute import lifecycle
from berth.domain.compute.host import Host
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.instance_action import Caller
from berth.domain.compute.maintenance import Drain
from berth.domain.compute.observed import (
    NOVA,
    OBSERVED_IN,
    ObservedServerError,
    check_not_observed,
    is_observed,
    observer_of,
)
from berth.domain.errors import ConflictError
from berth.domain.ledger.write import Put
from berth.ports.virt import HostReport
from berth.services.maintenance.methods import Hindrance, method_of
from berth.services.requests.permissions import check_lock
from berth.services.servers.moves import MoveTarget
from berth.services.servers.operations import Operations
from berth.testing.builders import make_host, make_instance, make_provider, make_service
from tests.unit.services.wiring import Desk, open_desk

_ADMIN: Final = Caller("req-1", "admin", "admin", is_admin=True)
_SERVER: Final = replace(
    make_instance(1, host="host-9"),
    status=Status.ACTIVE,
    task=None,
    extra={OBSERVED_IN: NOVA},
    launched_at_s=1.0,
)
_HOST: Final[Host] = replace(make_host(9), stats={OBSERVED_IN: NOVA})


async def desk_with_server() -> Desk:
    """Return services whose ledger has an imported host with a server."""
    desk = await open_desk()
    service = replace(make_service(9, last_seen_s=0.0), forced_down=True)
    writes = (Put(make_provider(9)), Put(_HOST), Put(service), Put(_SERVER))
    await desk.ledger.commit([writes])
    await desk.follower.catch_up()
    return desk


def operations_of(desk: Desk) -> Operations:
    """Return the operations on instances."""
    return Operations(ledger=desk.ledger, replica=desk.replica, clock=desk.clock)


def test_a_mark_makes_a_record_observed() -> None:
    """Records without the mark, such as those of earlier versions, are Berth's own."""
    assert observer_of(_SERVER) == observer_of(_HOST) == NOVA
    assert not is_observed(make_instance(1))
    assert not is_observed(make_host(1))
    check_not_observed(make_instance(1))


def test_changes_of_its_attributes_are_refused() -> None:
    """The refusal names Nova to administrators too."""
    with pytest.raises(ObservedServerError, match=r"run by nova .* do this in nova"):
        check_lock(_SERVER, _ADMIN)


_CALLS: Final[dict[str, Callable[[Operations], Awaitable[object]]]] = {
    "stop": lambda to: to.begin(_SERVER.uuid, lifecycle.STOP, _ADMIN),
    "image": lambda to: to.begin(_SERVER.uuid, lifecycle.CREATE_IMAGE, _ADMIN),
    "migrate": lambda to: to.migrate(_SERVER.uuid, MoveTarget(), _ADMIN),
    "evacuate": lambda to: to.evacuate(
        _SERVER.uuid, MoveTarget(), _ADMIN, service_down_time_s=60.0, despite_uncertainty=True
    ),
    "soft delete": lambda to: to.soft_delete(_SERVER.uuid, _ADMIN, service_down_time_s=60.0),
    "reset": lambda to: to.reset_state(_SERVER.uuid, Status.ERROR, _ADMIN),
    "lock": lambda to: to.lock(_SERVER.uuid, None, _ADMIN),
}


@pytest.mark.parametrize("name", _CALLS)
async def test_no_operation_begins(name: str) -> None:
    """No task and no request is written, so neither a scheduler nor an agent acts."""
    desk = await desk_with_server()
    before = await desk.ledger.version()
    with pytest.raises(ObservedServerError):
        await _CALLS[name](operations_of(desk))
    assert await desk.ledger.version() == before


async def test_it_is_neither_deleted_nor_saved() -> None:
    """Its host is down, but its capacity is not freed: Nova still uses it."""
    desk = await desk_with_server()
    with pytest.raises(ObservedServerError):
        await desk.instances.delete(_SERVER.uuid, _ADMIN, service_down_time_s=60.0)
    with pytest.raises(ObservedServerError):
        await desk.instances.save(_SERVER)
    stored = await desk.ledger.get(Instance, _SERVER.uuid)
    assert stored is not None
    assert stored.status is Status.ACTIVE


def test_a_drain_leaves_it_to_nova() -> None:
    """The drain names the reason and does not wait for it to pass."""
    found = method_of(_SERVER, Drain())
    assert isinstance(found, Hindrance)
    assert not found.passes
    assert "run by nova" in found.reason


@pytest.mark.parametrize("uuid", [_HOST.uuid, make_host(8).uuid])
async def test_an_agent_is_refused_on_an_imported_host(uuid: str) -> None:
    """It would take Nova's guests for orphans, whether it has Nova's UUID or one of its own."""
    desk = await desk_with_server()
    host = replace(make_host(9), uuid=uuid)
    report = HostReport(host, replace(make_provider(9), uuid=uuid))
    with pytest.raises(ConflictError, match="imported from nova"):
        await desk.hosts.register([report])


async def test_imported_hosts_prove_nothing_by_their_silence() -> None:
    """They are forced down, so they neither count as silent nor get new servers."""
    desk = await desk_with_server()
    service = desk.replica.hosts.services.get("host-9")
    assert service is not None
    assert not service.is_up(desk.clock.now_s(), 60.0)
    row = desk.replica.hosts.row_of(_HOST.uuid)
    assert row is not None
    assert desk.replica.hosts.forced_down[row]
