"""Tests of moves between two machines that a cable connects, for any driver."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.guest_cloud import ComputeHost, GuestCloud, wait_until
from tests.e2e.namespaces import Machines

_LIVE = {"host": None, "block_migration": "auto"}


class TwoMachines:
    """Tests of moves over the cable; a subclass module provides the shared fixtures.

    `machines` are the two machines, `running` is the cloud whose hosts they are, in the same order.
    """

    @pytest.fixture
    def cloud(self, running: GuestCloud, machines: Machines) -> Iterator[GuestCloud]:
        """Yield the cloud without servers; afterwards audit it and delete all servers."""
        yield running
        machines.join()
        running.check_audit()
        running.check_hosts_agree()
        running.delete_all()
        running.check_audit()

    def test_a_guest_goes_there_and_back(self, cloud: GuestCloud) -> None:
        """A live migration keeps the guest running; a cold one starts it again on the target."""
        uuid = cloud.create("traveller", flavor="disk")
        here = cloud.host_of(uuid)
        there = cloud.other_than(here)
        cloud.act(uuid, "os-migrateLive", _LIVE)
        cloud.settled(uuid)
        assert cloud.host_of(uuid) is there
        cloud.check_is_only_at(uuid, there)
        assert there.starts(uuid) == 0
        cloud.act(uuid, "migrate")
        cloud.settled(uuid, "VERIFY_RESIZE")
        assert cloud.where(uuid) == [here]
        wait_until(lambda: here.starts(uuid) == 1)
        cloud.act(uuid, "confirmResize")
        cloud.settled(uuid)
        cloud.check_is_only_at(uuid, here)

    def test_what_moved_outlives_the_agent_that_took_it_in(self, cloud: GuestCloud) -> None:
        """The target's next agent adopts a migrated guest and migrates it back."""
        uuid = cloud.create("survivor")
        here = cloud.host_of(uuid)
        there = cloud.other_than(here)
        cloud.act(uuid, "os-migrateLive", _LIVE)
        cloud.settled(uuid)
        before = there.running()[uuid]
        there.kill_agent()
        cloud.start_agent(there)
        cloud.act(uuid, "os-migrateLive", _LIVE)
        cloud.settled(uuid)
        cloud.check_is_only_at(uuid, here)
        assert here.starts(uuid) == 0
        assert not before.is_alive()

    def test_a_move_over_a_cable_that_is_cut_fails(
        self, cloud: GuestCloud, machines: Machines
    ) -> None:
        """The move fails and the guest keeps running; once the cable is back, a move succeeds."""
        uuid = cloud.create("cut-off")
        here = cloud.host_of(uuid)
        before = here.running()[uuid]
        machines.cut(cloud.hosts.index(cloud.other_than(here)))
        cloud.act(uuid, "os-migrateLive", _LIVE)
        cloud.settled(uuid)
        assert cloud.moves(uuid)[0]["status"] == "failed"
        assert here.running()[uuid] == before
        cloud.check_is_only_at(uuid, here)
        machines.join()
        cloud.act(uuid, "os-migrateLive", _LIVE)
        cloud.settled(uuid)
        cloud.check_is_only_at(uuid, cloud.other_than(here))


class TwoMachinesCutMidway(TwoMachines):
    """The same tests, and some in which the cable is cut while the memory is transferred.

    The target's process is suspended before the source begins, so the move cannot end early.
    """

    def test_a_move_waits_for_the_cable(self, cloud: GuestCloud, machines: Machines) -> None:
        """A move continues while the cable is cut, and ends once the cable is back."""
        uuid, here, there = self._cut_midway(cloud, machines)
        assert self._stage(cloud, uuid) == "running"
        assert cloud.host_of(uuid) is here
        machines.join()
        cloud.settled(uuid)
        cloud.check_is_only_at(uuid, there)
        assert there.starts(uuid) == 0

    def test_a_move_that_waits_can_be_given_up(self, cloud: GuestCloud, machines: Machines) -> None:
        """A move that waits for the cable can be cancelled; the guest continues on its source."""
        uuid, here, _ = self._cut_midway(cloud, machines)
        cloud.give_up_move(uuid)
        cloud.settled(uuid)
        assert cloud.host_of(uuid) is here
        assert cloud.moves(uuid)[0]["status"] == "cancelled"
        cloud.check_is_only_at(uuid, here)
        assert here.starts(uuid) == 1
        machines.join()
        cloud.act(uuid, "os-stop")
        cloud.settled(uuid, "SHUTOFF")
        assert "BERTH-GUEST off" in here.console(uuid)

    def test_the_next_agent_takes_up_a_move(self, cloud: GuestCloud, machines: Machines) -> None:
        """The source's next agent completes a move whose agent died while the cable was cut."""
        uuid, here, there = self._cut_midway(cloud, machines)
        here.kill_agent()
        cloud.start_agent(here)
        machines.join()
        cloud.settled(uuid)
        cloud.check_is_only_at(uuid, there)
        assert there.starts(uuid) == 0

    def _cut_midway(
        self, cloud: GuestCloud, machines: Machines
    ) -> tuple[str, ComputeHost, ComputeHost]:
        """Begin a live migration and cut the cable midway; return the uuid, source and target."""
        uuid = cloud.create("midway")
        here = cloud.host_of(uuid)
        there = cloud.other_than(here)
        with here.agent_stopped():
            cloud.act(uuid, "os-migrateLive", _LIVE)
            wait_until(lambda: self._stage(cloud, uuid) == "running")
            waiting = there.running()[uuid]
            os.kill(waiting.pid, signal.SIGSTOP)
        try:
            # The source sends memory now, and the suspended target does not read it.
            wait_until(lambda: here.is_connected(uuid))
            machines.cut(cloud.hosts.index(there))
        finally:
            os.kill(waiting.pid, signal.SIGCONT)
        return uuid, here, there

    @staticmethod
    def _stage(cloud: GuestCloud, uuid: str) -> Any:  # noqa: ANN401 - of JSON
        moves = cloud.moves(uuid)  # none until a scheduler has decided
        return moves[0]["status"] if moves else None
