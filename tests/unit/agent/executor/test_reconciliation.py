"""Reconciliation: an anomaly is reported only if a second look confirms it."""

from dataclasses import dataclass, replace

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost, FakeMachine
from berth.agent.executor import HostContext
from berth.agent.executor.reconciliation import ORPHAN, REMOVED, reconcile, repair
from berth.domain.compute.instance import Instance, Status
from berth.domain.ledger.write import Put
from berth.testing.builders import make_instance, make_take
from tests.unit.services.wiring import TappedLedger, open_desk

VM = replace(make_instance(1, host="host-1"), status=Status.ACTIVE, task=None)


@dataclass(frozen=True)
class Rig:
    """A host, and the context of its agent."""

    bench: HostContext
    machine: FakeMachine
    ledger: TappedLedger

    async def write(self, instance: Instance) -> None:
        """Write an instance at its current revision."""
        before = await self.ledger.get(Instance, instance.uuid)
        revision = 0 if before is None else before.revision
        await self.ledger.commit([(Put(replace(instance, revision=revision)),)])


@pytest.fixture
async def rig() -> Rig:
    """Return a host with a guest that is not in the ledger."""
    desk = await open_desk()
    machine = FakeMachine("host-1")
    driver = FakeDriver(FakeHost("host-1"), desk.clock, machine)
    bench = HostContext("host-1", desk.gateway(), driver, desk.clock)
    await desk.ledger.write(make_take(1))
    await bench.driver.spawn(VM)
    return Rig(bench, machine, desk.ledger)


async def test_a_guest_that_nobody_knows_is_told_of(rig: Rig) -> None:
    """An unknown guest is reported and left alone, with or without a record of the driver."""
    for is_orphan in (False, True):
        rig.machine.guests[VM.uuid].is_orphan = is_orphan
        (anomaly,) = (await reconcile(rig.bench)).anomalies
        found = await repair(rig.bench, anomaly)
        assert found is not None
        assert (found.code, found.is_repaired) == (ORPHAN, False)
        assert VM.uuid in rig.machine.guests


async def test_a_guest_that_has_gone_meanwhile_is_not_told_of(rig: Rig) -> None:
    """A guest that was destroyed after the first look is not reported."""
    (anomaly,) = (await reconcile(rig.bench)).anomalies
    await rig.bench.driver.destroy(VM.uuid)
    assert await repair(rig.bench, anomaly) is None


async def test_a_guest_of_a_deleted_instance_is_destroyed(rig: Rig) -> None:
    """The repair destroys the guest once, and does nothing if the guest is gone."""
    await rig.write(replace(VM, status=Status.DELETED))
    (anomaly,) = (await reconcile(rig.bench)).anomalies
    found = await repair(rig.bench, anomaly)
    assert found is not None
    assert (found.code, found.is_repaired) == (REMOVED, True)
    assert not rig.machine.guests
    assert await repair(rig.bench, anomaly) is None


async def test_a_guest_that_should_be_off_is_stopped_if_it_still_runs(rig: Rig) -> None:
    """The repair stops the guest once, and then finds no anomaly."""
    await rig.write(replace(VM, status=Status.SHUTOFF))
    (anomaly,) = (await reconcile(rig.bench)).anomalies
    found = await repair(rig.bench, anomaly)
    assert found is not None
    assert found.code == REMOVED
    assert await repair(rig.bench, anomaly) is None
    assert not (await reconcile(rig.bench)).anomalies
