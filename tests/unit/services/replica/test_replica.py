"""The replica: what the ledger says, plus what this process has decided."""

from dataclasses import replace

import pytest

from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.change import Change, HostsAlive, RecordRemoved, Snapshot, Usage
from berth.domain.ledger.record import Kind, Record
from berth.services.replica.replica import Hold, Replica
from berth.tables.host.feed import resident_of
from berth.tables.host.occupants import Resident
from berth.testing.builders import (
    make_flavor,
    make_host,
    make_instance,
    make_pending_request,
    make_provider,
    make_service,
    make_uuid,
)

HOST_1, HOST_2 = make_uuid("host", 1), make_uuid("host", 2)
VM = make_uuid("instance", 1)
HOLD = Hold(Resident(VM, "group", building=True), HOST_1, {VCPU: 3})


def snapshot_of(*instances: Instance, version: int = 5) -> Snapshot:
    """Return a snapshot of two empty hosts and some instances."""
    return Snapshot(
        version=version,
        now_s=0.0,
        hosts=(make_host(1), make_host(2)),
        providers=(make_provider(1), make_provider(2)),
        services=(make_service(1), make_service(2)),
        instances=instances,
    )


def placed(host: str = "host-1", task: Task | None = Task.SPAWNING) -> Instance:
    """Return the held instance as the ledger has it after its claim."""
    return replace(make_instance(1, host=host), task=task, group_uuid="group")


EXACT = Hold(resident_of(placed()), HOST_1, {VCPU: 3})
"""Just what the ledger will tell."""

OTHER = Hold(Resident(make_uuid("instance", 2), building=True), HOST_1, {VCPU: 1})


def counts(replica: Replica, host_uuid: str = HOST_1) -> tuple[int, int, int]:
    """Return VCPUs used, instances and builds of a host."""
    hosts = replica.hosts
    row = hosts.row_of(host_uuid)
    assert row is not None
    used = hosts.used(row).get(VCPU, 0)
    return used, int(hosts.num_instances[row]), int(hosts.num_io_ops[row])


@pytest.fixture
def replica() -> Replica:
    """Return a replica of two empty hosts."""
    replica = Replica()
    replica.load(snapshot_of())
    return replica


def tell(
    replica: Replica, version: int, *events: Record | Usage | HostsAlive | RecordRemoved
) -> None:
    """Apply one version with these events."""
    replica.apply([Change(version, event) for event in events])


def test_a_hold_counts_at_once(replica: Replica) -> None:
    """Room, instance, build and group member are there before the ledger has spoken."""
    replica.hold(HOLD)
    assert counts(replica) == (3, 1, 1)
    assert replica.hosts.occupants.group_rows("group") == {replica.hosts.row_of(HOST_1): 1}
    assert (replica.held, replica.is_placed(VM)) == (1, True)


def test_a_released_hold_leaves_no_trace(replica: Replica) -> None:
    """Releasing is the exact opposite of holding."""
    replica.hold(HOLD)
    replica.release(VM)
    assert counts(replica) == (0, 0, 0)
    assert replica.hosts.occupants.group_rows("group") == {}
    assert (replica.held, replica.is_placed(VM)) == (0, False)


def test_releasing_twice_is_releasing_once(replica: Replica) -> None:
    """A hold that has ended takes nothing with it."""
    replica.hold(HOLD)
    replica.hold(replace(HOLD, resident=Resident(make_uuid("instance", 2), building=True)))
    replica.release(VM)
    replica.release(VM)
    assert counts(replica) == (3, 1, 1)


def test_a_hold_ends_in_the_step_that_tells_the_instance(replica: Replica) -> None:
    """After the version of its claim the instance counts once: as what the ledger says."""
    replica.hold(HOLD)
    tell(replica, 6, placed(), Usage(HOST_1, {VCPU: 3}))
    assert counts(replica) == (3, 1, 1)
    assert replica.held == 0
    tell(replica, 7, placed(task=None))
    assert counts(replica) == (3, 1, 0)


def test_what_the_ledger_tells_as_it_was_held_changes_nothing(replica: Replica) -> None:
    """The table keeps the hold's room and instance as the ledger's, and rules see no change."""
    replica.hold(EXACT)
    replica.hold(OTHER)
    step = replica.hosts.journal.step
    tell(replica, 6, placed(), Usage(HOST_1, {VCPU: 3}))
    assert (counts(replica), replica.held) == ((4, 2, 2), 1)
    assert replica.hosts.journal.step == step
    replica.release(OTHER.instance_uuid)
    replica.release(VM)
    assert counts(replica) == (3, 1, 1)
    tell(replica, 7, placed(task=None), Usage(HOST_1, {VCPU: 0}))
    assert counts(replica) == (0, 1, 0)


def test_usage_of_others_comes_with_what_was_held(replica: Replica) -> None:
    """The ledger's sum counts, with what others have taken before and what is held still."""
    replica.hold(EXACT)
    replica.hold(OTHER)
    tell(replica, 6, placed(), Usage(HOST_1, {VCPU: 5}))
    assert (counts(replica), replica.held) == ((6, 2, 2), 1)


@pytest.mark.parametrize("held", [HOLD, EXACT], ids=["similar", "exact"])
def test_room_that_the_ledger_does_not_count_is_not_used(replica: Replica, held: Hold) -> None:
    """An instance that is put on a host without a claim takes no room, whatever was held."""
    replica.hold(held)
    replica.hold(OTHER)
    tell(replica, 6, placed())
    assert (counts(replica), replica.held) == ((1, 2, 2), 1)


@pytest.mark.parametrize("held", [HOLD, EXACT], ids=["similar", "exact"])
def test_a_provider_that_comes_with_an_instance_says_what_is_used(
    replica: Replica, held: Hold
) -> None:
    """What a provider says of its use counts, as usage does."""
    replica.hold(held)
    tell(replica, 6, placed(), replace(make_provider(1), used={VCPU: 3}))
    assert (counts(replica), replica.held) == ((3, 1, 1), 0)


def test_a_hold_does_not_end_by_somebody_elses_claim(replica: Replica) -> None:
    """Another scheduler's instance on the same host counts beside it."""
    replica.hold(HOLD)
    tell(replica, 6, make_instance(2, host="host-1"), Usage(HOST_1, {VCPU: 1}))
    assert counts(replica)[:2] == (4, 2)
    assert replica.held == 1


def test_a_hold_on_the_wrong_host_moves_to_where_the_ledger_says(replica: Replica) -> None:
    """When another scheduler placed the instance first, only its choice counts."""
    replica.hold(HOLD)
    tell(replica, 6, placed("host-2"), Usage(HOST_2, {VCPU: 3}))
    assert counts(replica, HOST_1) == (0, 0, 0)
    assert counts(replica, HOST_2) == (3, 1, 1)
    replica.release(VM)
    assert counts(replica, HOST_2) == (3, 1, 1)


def test_a_hold_stays_while_its_instance_only_waits(replica: Replica) -> None:
    """An event of the instance without a host does not touch the hold."""
    replica.hold(HOLD)
    tell(replica, 6, replace(make_instance(1), name="renamed"))
    assert counts(replica) == (3, 1, 1)
    replica.release(VM)
    assert counts(replica) == (0, 0, 0)


def test_a_hold_ends_when_its_instance_is_deleted(replica: Replica) -> None:
    """A deleted instance needs no room."""
    replica.hold(HOLD)
    tell(replica, 6, replace(make_instance(1), status=Status.DELETED, task=None))
    assert (counts(replica), replica.held) == ((0, 0, 0), 0)


def test_holding_what_runs_already_does_not_move_it(replica: Replica) -> None:
    """An order that is repeated is decided anew, refused, and leaves everything as it was."""
    tell(replica, 6, placed("host-2", None), Usage(HOST_2, {VCPU: 3}))
    replica.hold(HOLD)
    assert counts(replica, HOST_2) == (3, 1, 0)
    replica.release(VM)
    assert counts(replica, HOST_1) == (0, 0, 0)
    assert counts(replica, HOST_2) == (3, 1, 0)
    assert replica.is_placed(VM)


def test_a_snapshot_keeps_holds_of_claims_that_it_does_not_have(replica: Replica) -> None:
    """A claim on its way to the ledger counts on the new table too."""
    replica.hold(HOLD)
    replica.load(snapshot_of(version=9))
    assert counts(replica) == (3, 1, 1)
    replica.release(VM)
    assert counts(replica) == (0, 0, 0)


def test_a_snapshot_ends_holds_of_claims_that_it_has(replica: Replica) -> None:
    """What the snapshot says of an instance is all that counts."""
    replica.hold(HOLD)
    provider = replace(make_provider(1), used={VCPU: 3})
    snapshot = replace(snapshot_of(placed()), providers=(provider, make_provider(2)))
    replica.load(snapshot)
    assert (counts(replica), replica.held) == ((3, 1, 1), 0)


def test_a_snapshot_ends_holds_of_claims_that_were_freed_before_it(replica: Replica) -> None:
    """An instance that came and went within a gap of the feed holds nothing for ever."""
    replica.hold(HOLD)
    replica.settle([VM], 7)
    assert replica.held == 1
    replica.load(snapshot_of(version=9))
    assert (counts(replica), replica.held) == ((0, 0, 0), 0)


def test_a_snapshot_from_before_the_claim_keeps_its_hold(replica: Replica) -> None:
    """A claim committed as version 7 is not in version 6."""
    replica.hold(HOLD)
    replica.settle([VM], 7)
    replica.load(snapshot_of(version=6))
    assert counts(replica) == (3, 1, 1)


def test_settling_what_the_feed_has_passed_ends_the_hold(replica: Replica) -> None:
    """The answer to a commit may come after a snapshot that has its end already."""
    replica.hold(HOLD)
    replica.load(snapshot_of(version=9))
    replica.settle([VM], 7)
    assert (counts(replica), replica.held) == ((0, 0, 0), 0)


def test_a_hold_outlives_the_removal_of_its_host(replica: Replica) -> None:
    """While the host is away nothing counts; when it is back the hold counts again."""
    replica.hold(HOLD)
    tell(replica, 6, RecordRemoved(Kind.HOST, HOST_1), RecordRemoved(Kind.PROVIDER, HOST_1))
    assert replica.held == 1
    tell(replica, 7, make_provider(1), make_host(1))
    assert counts(replica) == (3, 1, 1)
    tell(replica, 8, make_host(1))
    assert counts(replica) == (3, 1, 1)
    replica.release(VM)
    assert counts(replica) == (0, 0, 0)


def test_a_hold_released_while_its_host_is_away_is_gone(replica: Replica) -> None:
    """The host comes back empty."""
    replica.hold(HOLD)
    tell(replica, 6, RecordRemoved(Kind.HOST, HOST_1), RecordRemoved(Kind.PROVIDER, HOST_1))
    replica.release(VM)
    tell(replica, 7, make_provider(1), make_host(1))
    assert counts(replica) == (0, 0, 0)


def test_holding_on_an_unknown_host_counts_nowhere(replica: Replica) -> None:
    """A host that is not in the table cannot be used; the hold can still be released."""
    replica.hold(replace(HOLD, host_uuid="nowhere"))
    assert counts(replica) == (0, 0, 0)
    replica.release(VM)
    assert replica.held == 0


def test_flavors_and_pending_requests_follow_the_feed(replica: Replica) -> None:
    """Both come and go with their records; a pending one wakes who waits for it."""
    replica.pending_arrived.clear()
    tell(replica, 6, make_flavor(1), make_pending_request(1))
    assert (list(replica.flavors), list(replica.pending)) == (["1"], ["req-1"])
    assert replica.pending_arrived.is_set()
    tell(replica, 7, RecordRemoved(Kind.FLAVOR, "1"), RecordRemoved(Kind.PENDING_REQUEST, "req-1"))
    assert (replica.flavors, replica.pending) == ({}, {})
    assert replica.hosts.version == 7
