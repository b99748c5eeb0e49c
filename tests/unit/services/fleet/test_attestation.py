"""Tests for writing attestation levels to the ledger and renewing them."""

from dataclasses import replace

import numpy as np
import pytest

from berth.domain.compute.host import Attestation, Service
from berth.domain.ledger.write import Heartbeats, Put
from berth.services.fleet.attestation import ASKED_AT_ONCE, AttestationService
from berth.testing.builders import make_host, make_provider, make_service
from berth.testing.fake_attester import FakeAttester
from tests.unit.services.wiring import Desk, Fleet, open_desk, open_second, running

VALID_S = 60.0


def attestations(desk: Desk, **levels: str) -> tuple[AttestationService, FakeAttester]:
    """Return the attestation service and its fake attester; `host_1` stands for `host-1`."""
    by_node = {name.replace("_", "-"): level for name, level in levels.items()}
    attester = FakeAttester(by_node, desk.clock, valid_s=VALID_S)
    service = AttestationService(
        ledger=desk.ledger,
        follower=desk.follower,
        replica=desk.replica,
        attester=attester,
        clock=desk.clock,
        telemetry=desk.told,
    )
    return service, attester


async def levels_of(desk: Desk) -> list[str]:
    """Return the sorted names of the hosts that the replica shows as trusted."""
    await desk.follower.catch_up()
    hosts = desk.replica.hosts
    trusted = hosts.attestations.has("trusted", hosts.all_rows, desk.clock.now_s())
    return sorted(hosts.names(np.flatnonzero(trusted)))


async def test_levels_are_written_where_rules_read_them() -> None:
    """Levels are written to the services; hosts without a level are left unchanged."""
    desk = await open_desk()
    service, _ = attestations(desk, host_1="trusted")
    assert await service.renew() == 1
    assert await levels_of(desk) == ["host-1"]
    saved = await desk.ledger.get(Service, "host-1")
    assert saved is not None
    until_s = desk.clock.now_s() + VALID_S
    assert saved.attestations == {"host-1": Attestation("trusted", until_s)}
    other = await desk.ledger.get(Service, "host-2")
    assert other is not None
    assert other.attestations == {}


async def test_only_what_ends_soon_is_asked_about() -> None:
    """Only levels that expire soon are renewed, so several schedulers do not ask twice."""
    desk = await open_desk()
    service, attester = attestations(desk, host_1="trusted", host_2="trusted")
    await service.renew()
    assert await service.renew() == 0
    second = await open_second(desk)
    other, other_attester = attestations(second, host_1="trusted")
    assert await other.renew() == 0
    assert other_attester.asked == []
    attester.levels["host-1"] = "untrusted"
    await desk.clock.sleep(VALID_S / 2 + 1)
    assert await service.renew() == 2
    assert await levels_of(desk) == ["host-2"]
    assert attester.asked == [("host-1", "host-2"), ("host-1", "host-2")]


async def test_levels_run_out_while_the_attestation_service_is_away() -> None:
    """Levels expire while the attestation service is away, and the failure is reported."""
    desk = await open_desk()
    service, attester = attestations(desk, host_1="trusted")
    await service.renew()
    attester.is_away = True
    await desk.clock.sleep(VALID_S - 1)
    assert await service.renew() == 0
    assert desk.told.failed == ["attestation_failed"]
    assert await levels_of(desk) == ["host-1"]
    await desk.clock.sleep(2)
    assert await levels_of(desk) == []


async def test_what_an_operator_changes_at_the_same_time_is_kept() -> None:
    """An operator's simultaneous change is kept, and the level is written in the next renewal."""
    desk = await open_desk()
    service, _ = attestations(desk, host_1="trusted")

    async def disable(units: object) -> None:
        desk.ledger.before_commit = None
        await desk.hosts.set_service("host-1", disabled=True)

    desk.ledger.before_commit = disable
    assert await service.renew() == 0
    assert await service.renew() == 1
    saved = await desk.ledger.get(Service, "host-1")
    assert saved is not None
    assert saved.disabled
    assert saved.attestations["host-1"].level == "trusted"


async def test_heartbeats_are_not_set_back() -> None:
    """A renewal keeps the newest heartbeat."""
    desk = await open_desk()
    service, _ = attestations(desk, host_1="trusted")
    await desk.clock.sleep(30)
    await desk.ledger.write(Heartbeats(("host-1",), desk.clock.now_s()))
    await service.renew()
    saved = await desk.ledger.get(Service, "host-1")
    assert saved is not None
    assert saved.last_seen_s == desk.clock.now_s()


async def test_nodes_of_one_host_are_attested_apart() -> None:
    """Each node of a service has its own level, and levels of removed nodes are dropped."""
    desk = await open_desk(Fleet(hosts=0))
    old = {"gone": Attestation("trusted", desk.clock.now_s() + 9e9)}
    writes = [Put(replace(make_service(1), host="rack", attestations=old))]
    for number in (1, 2):
        host = replace(make_host(number), name="rack", node=f"node-{number}")
        await desk.ledger.write(Put(host), Put(make_provider(number)))
    await desk.ledger.write(*writes)
    service, attester = attestations(desk, node_1="trusted", node_2="untrusted")
    assert await service.renew() == 1
    saved = await desk.ledger.get(Service, "rack")
    assert saved is not None
    assert {node: one.level for node, one in saved.attestations.items()} == attester.levels


async def test_a_host_without_service_is_passed_over() -> None:
    """A host without a service is skipped."""
    desk = await open_desk(Fleet(hosts=0))
    await desk.ledger.write(Put(make_host(1)), Put(make_provider(1)))
    service, _ = attestations(desk, host_1="trusted")
    assert await service.renew() == 0


@pytest.mark.parametrize("count", [ASKED_AT_ONCE, ASKED_AT_ONCE + 1])
async def test_questions_are_not_too_long(count: int) -> None:
    """The attester is asked in batches."""
    desk = await open_desk(Fleet(hosts=count))
    service, attester = attestations(desk, **{f"host_{n}": "trusted" for n in range(1, count + 1)})
    assert await service.renew() == count
    assert [len(nodes) for nodes in attester.asked] == [ASKED_AT_ONCE, 1][: 1 + count % 100]


async def test_it_renews_for_ever() -> None:
    """The loop renews levels before they expire."""
    desk = await open_desk()
    service, _ = attestations(desk, host_1="trusted")
    async with running(service.run, desk.follower.run):
        for _ in range(20):
            await desk.clock.sleep(VALID_S / 4)
            assert await levels_of(desk) == ["host-1"]
