"""What holds for guests on two machines that only a cable joins, whatever runs the guests."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.guest_cloud import ComputeHost, GuestCloud, wait_until
from tests.e2e.namespaces import Machines

_LIVE = {"host": None, "block_migration": "auto"}


class TwoMachines:
    """Moves over the cable; a subclass has fixtures that live as long as the class.

    `machines` are the two, `running` the cloud whose hosts they are, in the same order.
    """

    @pytest.fixture
    def cloud(self, running: GuestCloud, machines: Machines) -> Iterator[GuestCloud]:
        """Give the cloud without servers; afterwards nothing may be lost or doubled."""
        yield running
        machines.join()
        running.check_audit()
        running.check_hosts_agree()
        running.delete_all()
        running.check_audit()

    def test_a_guest_goes_there_and_back(self, cloud: GuestCloud) -> None:
        """Live it does not notice, cold it begins anew there; its disk goes along."""
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
        """The next agent goes on with it, and lets it go again."""
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
        """The guest stays, running; with the cable in again it moves."""
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
    """The same, and what becomes of a move whose memory is under way when the cable is cut.

    The target's process stands still before the source begins, so that it cannot end.
    """

    def test_a_move_waits_for_the_cable(self, cloud: GuestCloud, machines: Machines) -> None:
        """It neither fails nor ends while the cable is out, and ends when that is in again."""
        uuid, here, there = self._cut_midway(cloud, machines)
        assert self._stage(cloud, uuid) == "running"
        assert cloud.host_of(uuid) is here
        machines.join()
        cloud.settled(uuid)
        cloud.check_is_only_at(uuid, there)
        assert there.starts(uuid) == 0

    def test_a_move_that_waits_can_be_given_up(self, cloud: GuestCloud, machines: Machines) -> None:
        """Without the cable: the guest goes on where it was, and nothing waits for it any more."""
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
        """The one that began it was killed while the cable was out."""
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
        """Begin a live migration, and cut the cable when it cannot end without it."""
        uuid = cloud.create("midway")
        here = cloud.host_of(uuid)
        there = cloud.other_than(here)
        with here.agent_stopped():
            cloud.act(uuid, "os-migrateLive", _LIVE)
            wait_until(lambda: self._stage(cloud, uuid) == "running")
            waiting = there.running()[uuid]
            os.kill(waiting.pid, signal.SIGSTOP)
        try:
            # Its memory is under way then, and nobody takes it.
            wait_until(lambda: here.is_connected(uuid))
            machines.cut(cloud.hosts.index(there))
        finally:
            os.kill(waiting.pid, signal.SIGCONT)
        return uuid, here, there

    @staticmethod
    def _stage(cloud: GuestCloud, uuid: str) -> Any:  # noqa: ANN401 - of JSON
        moves = cloud.moves(uuid)  # none until a scheduler has decided
        return moves[0]["status"] if moves else None
