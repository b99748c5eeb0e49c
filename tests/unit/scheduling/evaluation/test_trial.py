"""Tests for trials, which consume capacity temporarily."""

import pytest

from berth.domain.errors import NotFoundError
from berth.scheduling.evaluation.trial import Trial
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Resident
from berth.testing.dumping import dump
from berth.testing.fleets import Box, asking, resident, snapshot_of, uuid_of

NEEDS = asking().needs


@pytest.fixture
def hosts() -> HostTable:
    """Return a table of two hosts; a member of a group runs on the second."""
    two = Box("b")
    return table_of(snapshot_of([Box("a"), two], instances=[resident("old", two, group_uuid="g")]))


def test_rules_see_what_was_placed(hosts: HostTable) -> None:
    """Placed amounts, instances and group members are visible immediately."""
    with Trial(hosts, NEEDS) as trial:
        trial.place(0, Resident("new-1", "g", building=True))
        trial.place(0, Resident("new-2", "g", building=True))
        assert hosts.used(0) == {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}
        assert hosts.num_instances.tolist() == [2, 1]
        assert hosts.num_io_ops.tolist() == [2, 0]
        assert hosts.occupants.groups.rows("g") == {0: 2, 1: 1}


def test_all_is_given_back(hosts: HostTable) -> None:
    """A trial restores the table, including earlier holds."""
    hosts.hold(0, {"VCPU": 1, "CUSTOM_GPU": 1})
    before = dump(hosts)
    with Trial(hosts, NEEDS) as trial:
        trial.place(0, Resident("new-1", "g", building=True))
        trial.place(1, Resident("new-2", "g", building=True))
    assert dump(hosts) == before


def test_all_is_given_back_after_an_error(hosts: HostTable) -> None:
    """A trial restores the table after an error."""
    before = dump(hosts)
    trial = Trial(hosts, NEEDS)
    trial.place(0, Resident("new-1", "g", building=True))
    with pytest.raises(NotFoundError), trial:
        trial.place(99, Resident("new-2", "g", building=True))
    assert dump(hosts) == before


def test_an_instance_that_runs_elsewhere_stays_there_too(hosts: HostTable) -> None:
    """An instance that runs elsewhere keeps its row and takes amounts on the new one."""
    before = dump(hosts)
    with Trial(hosts, NEEDS) as trial:
        trial.place(0, Resident("old", "g", building=True))
        assert hosts.used(0)["VCPU"] == 1
        assert hosts.occupants.groups.rows("g") == {1: 1}
    assert dump(hosts) == before
    assert hosts.find("b", None) == uuid_of("b")
