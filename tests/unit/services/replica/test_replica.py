"""Tests for the replica: the ledger's state plus this process's own decisions."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.change import Change, Event, HostsAlive, RecordRemoved, Snapshot, Usage
from berth.domain.ledger.record import Kind, Record
from berth.services.replica.replica import Hold, Replica
from berth.tables.host.feed import attributes_of, resident_of
from berth.tables.host.occupants import Resident
from berth.tables.host.resident_columns import NO_ATTRIBUTES
from berth.testing.builders import (
    make_flavor,
    make_host,
    make_instance,
    make_pending_request,
    make_provider,
    make_service,
    make_uuid,
)
from berth.testing.dumping import dump

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


EXACT = Hold(resident_of(placed()), HOST_1, {VCPU: 3}, attributes_of(placed()))
"""A hold that equals what the ledger will report."""

OTHER = Hold(Resident(make_uuid("instance", 2), building=True), HOST_1, {VCPU: 1})


def counts(replica: Replica, host_uuid: str = HOST_1) -> tuple[int, int, int]:
    """Return VCPUs in use, instances and builds of a host."""
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


def apply_version(
    replica: Replica, version: int, *events: Record | Usage | HostsAlive | RecordRemoved
) -> None:
    """Apply one version with these events."""
    replica.apply([Change(version, event) for event in events])


def test_a_hold_counts_at_once(replica: Replica) -> None:
    """A hold counts as usage, instance, build and group member immediately."""
    replica.hold(HOLD)
    assert counts(replica) == (3, 1, 1)
    assert replica.hosts.occupants.groups.rows("group") == {replica.hosts.row_of(HOST_1): 1}
    assert (replica.held, replica.is_placed(VM)) == (1, True)


def test_a_released_hold_leaves_no_trace(replica: Replica) -> None:
    """Releasing a hold undoes it completely."""
    replica.hold(HOLD)
    replica.release(VM)
    assert counts(replica) == (0, 0, 0)
    assert replica.hosts.occupants.groups.rows("group") == {}
    assert (replica.held, replica.is_placed(VM)) == (0, False)


def test_releasing_twice_is_releasing_once(replica: Replica) -> None:
    """Releasing a hold twice has the effect of releasing it once."""
    replica.hold(HOLD)
    replica.hold(replace(HOLD, resident=Resident(make_uuid("instance", 2), building=True)))
    replica.release(VM)
    replica.release(VM)
    assert counts(replica) == (3, 1, 1)


def test_a_hold_ends_in_the_step_that_reports_the_instance(replica: Replica) -> None:
    """A hold ends with the version that reports its instance, which then counts once."""
    replica.hold(HOLD)
    apply_version(replica, 6, placed(), Usage(HOST_1, {VCPU: 3}))
    assert counts(replica) == (3, 1, 1)
    assert replica.held == 0
    apply_version(replica, 7, placed(task=None))
    assert counts(replica) == (3, 1, 0)


def test_a_report_with_other_attributes_than_the_hold_changes_them(replica: Replica) -> None:
    """A report that equals the hold except for the attributes ends it and sets those."""
    replica.hold(replace(EXACT, attributes=NO_ATTRIBUTES))
    assert replica.hosts.occupants.attributes(VM) == NO_ATTRIBUTES
    apply_version(replica, 6, placed(), Usage(HOST_1, {VCPU: 3}))
    assert replica.hosts.occupants.attributes(VM) == attributes_of(placed())
    assert replica.held == 0


def test_a_report_equal_to_the_hold_changes_nothing(replica: Replica) -> None:
    """A report that equals the hold ends it without a change in the journal."""
    replica.hold(EXACT)
    replica.hold(OTHER)
    step = replica.hosts.journal.step
    apply_version(replica, 6, placed(), Usage(HOST_1, {VCPU: 3}))
    assert (counts(replica), replica.held) == ((4, 2, 2), 1)
    assert replica.hosts.journal.step == step
    replica.release(OTHER.instance_uuid)
    replica.release(VM)
    assert counts(replica) == (3, 1, 1)
    apply_version(replica, 7, placed(task=None), Usage(HOST_1, {VCPU: 0}))
    assert counts(replica) == (0, 1, 0)


def test_usage_of_others_comes_with_what_was_held(replica: Replica) -> None:
    """The reported usage includes other claims and is added to the remaining holds."""
    replica.hold(EXACT)
    replica.hold(OTHER)
    apply_version(replica, 6, placed(), Usage(HOST_1, {VCPU: 5}))
    assert (counts(replica), replica.held) == ((6, 2, 2), 1)


@pytest.mark.parametrize("held", [HOLD, EXACT], ids=["similar", "exact"])
def test_held_amounts_without_usage_are_removed(replica: Replica, held: Hold) -> None:
    """A hold ends without usage if its instance is reported on a host without a claim."""
    replica.hold(held)
    replica.hold(OTHER)
    apply_version(replica, 6, placed())
    assert (counts(replica), replica.held) == ((1, 2, 2), 1)


@pytest.mark.parametrize("held", [HOLD, EXACT], ids=["similar", "exact"])
def test_a_provider_event_reports_usage_as_well(replica: Replica, held: Hold) -> None:
    """A provider event counts as a usage event."""
    replica.hold(held)
    apply_version(replica, 6, placed(), replace(make_provider(1), used={VCPU: 3}))
    assert (counts(replica), replica.held) == ((3, 1, 1), 0)


def test_a_hold_does_not_end_with_another_claim(replica: Replica) -> None:
    """Another instance on the same host counts in addition to the hold."""
    replica.hold(HOLD)
    apply_version(replica, 6, make_instance(2, host="host-1"), Usage(HOST_1, {VCPU: 1}))
    assert counts(replica)[:2] == (4, 2)
    assert replica.held == 1


def test_a_hold_on_the_wrong_host_moves_to_where_the_ledger_says(replica: Replica) -> None:
    """A hold ends if the ledger reports its instance on another host."""
    replica.hold(HOLD)
    apply_version(replica, 6, placed("host-2"), Usage(HOST_2, {VCPU: 3}))
    assert counts(replica, HOST_1) == (0, 0, 0)
    assert counts(replica, HOST_2) == (3, 1, 1)
    replica.release(VM)
    assert counts(replica, HOST_2) == (3, 1, 1)


def test_a_hold_stays_while_its_instance_only_waits(replica: Replica) -> None:
    """A hold stays if its instance is reported without a host."""
    replica.hold(HOLD)
    apply_version(replica, 6, replace(make_instance(1), name="renamed"))
    assert counts(replica) == (3, 1, 1)
    replica.release(VM)
    assert counts(replica) == (0, 0, 0)


def test_a_hold_ends_when_its_instance_is_deleted(replica: Replica) -> None:
    """A hold ends when its instance is deleted."""
    replica.hold(HOLD)
    apply_version(replica, 6, replace(make_instance(1), status=Status.DELETED, task=None))
    assert (counts(replica), replica.held) == ((0, 0, 0), 0)


def test_holding_what_runs_already_does_not_move_it(replica: Replica) -> None:
    """Holding an instance that already runs elsewhere changes nothing."""
    apply_version(replica, 6, placed("host-2", None), Usage(HOST_2, {VCPU: 3}))
    replica.hold(HOLD)
    assert counts(replica, HOST_2) == (3, 1, 0)
    replica.release(VM)
    assert counts(replica, HOST_1) == (0, 0, 0)
    assert counts(replica, HOST_2) == (3, 1, 0)
    assert replica.is_placed(VM)


def test_a_snapshot_keeps_holds_of_claims_that_it_does_not_have(replica: Replica) -> None:
    """A snapshot without the claim keeps the hold."""
    replica.hold(HOLD)
    replica.load(snapshot_of(version=9))
    assert counts(replica) == (3, 1, 1)
    replica.release(VM)
    assert counts(replica) == (0, 0, 0)


def test_a_snapshot_ends_holds_of_claims_that_it_has(replica: Replica) -> None:
    """A snapshot with the held instance ends the hold."""
    replica.hold(HOLD)
    provider = replace(make_provider(1), used={VCPU: 3})
    snapshot = replace(snapshot_of(placed()), providers=(provider, make_provider(2)))
    replica.load(snapshot)
    assert (counts(replica), replica.held) == ((3, 1, 1), 0)


def test_a_snapshot_ends_holds_of_claims_that_were_freed_before_it(replica: Replica) -> None:
    """A snapshot after the claim's version ends the hold."""
    replica.hold(HOLD)
    replica.settle([VM], 7)
    assert replica.held == 1
    replica.load(snapshot_of(version=9))
    assert (counts(replica), replica.held) == ((0, 0, 0), 0)


def test_a_snapshot_from_before_the_claim_keeps_its_hold(replica: Replica) -> None:
    """A snapshot before the claim's version keeps the hold."""
    replica.hold(HOLD)
    replica.settle([VM], 7)
    replica.load(snapshot_of(version=6))
    assert counts(replica) == (3, 1, 1)


def test_a_hold_of_a_claim_that_the_ledger_lost_ends(replica: Replica) -> None:
    """A failover may lose a claim; its hold ends when another version has its number."""
    replica.hold(HOLD)
    replica.settle([VM], 7)
    replica.load(snapshot_of(version=5))
    apply_version(replica, 6, HostsAlive((), 0.0))
    assert counts(replica) == (3, 1, 1)
    apply_version(replica, 7, HostsAlive((), 0.0))
    assert counts(replica) == (0, 0, 0)
    assert replica.held == 0


def test_settling_what_the_feed_has_passed_ends_the_hold(replica: Replica) -> None:
    """Settling a claim whose version the feed has passed ends the hold."""
    replica.hold(HOLD)
    replica.load(snapshot_of(version=9))
    replica.settle([VM], 7)
    assert (counts(replica), replica.held) == ((0, 0, 0), 0)


def test_a_hold_outlives_the_removal_of_its_host(replica: Replica) -> None:
    """A hold is kept while its host is removed and counts again when the host returns."""
    replica.hold(HOLD)
    apply_version(
        replica, 6, RecordRemoved(Kind.HOST, HOST_1), RecordRemoved(Kind.PROVIDER, HOST_1)
    )
    assert replica.held == 1
    apply_version(replica, 7, make_provider(1), make_host(1))
    assert counts(replica) == (3, 1, 1)
    apply_version(replica, 8, make_host(1))
    assert counts(replica) == (3, 1, 1)
    replica.release(VM)
    assert counts(replica) == (0, 0, 0)


def test_a_hold_released_while_its_host_is_away_is_gone(replica: Replica) -> None:
    """A hold that is released while its host is removed does not count afterwards."""
    replica.hold(HOLD)
    apply_version(
        replica, 6, RecordRemoved(Kind.HOST, HOST_1), RecordRemoved(Kind.PROVIDER, HOST_1)
    )
    replica.release(VM)
    apply_version(replica, 7, make_provider(1), make_host(1))
    assert counts(replica) == (0, 0, 0)


def test_holding_on_an_unknown_host_counts_nowhere(replica: Replica) -> None:
    """A hold on an unknown host counts nowhere and can be released."""
    replica.hold(replace(HOLD, host_uuid="nowhere"))
    assert counts(replica) == (0, 0, 0)
    replica.release(VM)
    assert replica.held == 0


def test_flavors_and_pending_requests_follow_the_feed(replica: Replica) -> None:
    """Flavors and pending requests follow the feed, and a new pending request sets the event."""
    replica.pending_arrived.clear()
    apply_version(replica, 6, make_flavor(1), make_pending_request(1))
    assert (list(replica.flavors), list(replica.pending)) == (["1"], ["req-1"])
    assert replica.pending_arrived.is_set()
    apply_version(
        replica, 7, RecordRemoved(Kind.FLAVOR, "1"), RecordRemoved(Kind.PENDING_REQUEST, "req-1")
    )
    assert (replica.flavors, replica.pending) == ({}, {})
    assert replica.hosts.version == 7


def test_a_heartbeat_outside_the_feed_outlives_the_record_and_the_table() -> None:
    """A service keeps its last heartbeat when the feed or a snapshot delivers its older record."""
    replica = Replica()
    replica.load(snapshot_of())
    old = make_service(1).last_seen_s
    replica.note_alive(["host-1"], old + 60.0)
    renewals: list[Callable[[], None]] = [
        lambda: replica.apply([Change(6, replace(make_service(1), disabled=True))]),
        lambda: replica.load(snapshot_of(version=7)),
    ]
    for renew in renewals:
        renew()
        service = replica.hosts.services.get("host-1")
        assert service is not None
        assert service.last_seen_s == old + 60.0


_MANY = range(1, 15)
_AMOUNTS = st.dictionaries(st.sampled_from((VCPU, "CUSTOM_NEW")), st.integers(0, 9), min_size=1)
_EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(lambda host, used: Usage(_host(host), used), st.sampled_from(_MANY), _AMOUNTS),
    st.builds(
        lambda number, host: replace(make_instance(number, host=f"host-{host}"), task=None),
        st.integers(1, 6),
        st.sampled_from(_MANY),
    ),
    st.builds(
        lambda host, used: replace(make_provider(host), used=used),
        st.sampled_from(_MANY),
        _AMOUNTS,
    ),
    st.builds(lambda used: Usage("child", used), _AMOUNTS),
    st.builds(lambda host: RecordRemoved(Kind.HOST, _host(host)), st.sampled_from(_MANY)),
    st.builds(make_host, st.sampled_from(_MANY)),
)


def _host(number: int) -> str:
    return make_uuid("host", number)


@given(
    versions=st.lists(st.lists(_EVENTS, min_size=1, max_size=8), min_size=1, max_size=12),
    holds=st.lists(st.tuples(st.integers(1, 6), st.sampled_from(_MANY)), max_size=6),
)
def test_many_versions_at_once_are_applied_as_one_by_one(
    versions: list[list[Event]], holds: list[tuple[int, int]]
) -> None:
    """Usage that is put in the table at the end of a call leaves the same table and holds."""
    at_once, in_turn = Replica(), Replica()
    for one in (at_once, in_turn):
        one.load(
            Snapshot(
                version=1,
                now_s=0.0,
                hosts=tuple(map(make_host, _MANY)),
                providers=(
                    *map(make_provider, _MANY),
                    replace(make_provider(99), uuid="child", parent_uuid=_host(1)),
                ),
            )
        )
        for number, host in holds:
            uuid = make_uuid("instance", number)
            one.hold(Hold(resident_of(make_instance(number)), _host(host), {VCPU: number}))
            assert one.is_placed(uuid)
    # A version that reports much usage is applied with arrays.
    everyone: list[Event] = [Usage(_host(host), {VCPU: host}) for host in _MANY]
    each = [
        [Change(number, event) for event in events]
        for number, events in enumerate([*versions, everyone, *versions], 2)
    ]
    at_once.apply([change for changes in each for change in changes])
    for changes in each:
        in_turn.apply(changes)
    assert dump(at_once.hosts) == dump(in_turn.hosts)
    assert (at_once.held, at_once.hosts.version) == (in_turn.held, in_turn.hosts.version)


@pytest.mark.parametrize("is_at_once", [True, False])
def test_usage_that_is_set_late_contains_the_holds_taken_over_before(*, is_at_once: bool) -> None:
    """The usage is absolute, whether the changes arrive together or one by one."""
    replica = Replica()
    replica.load(snapshot_of())
    replica.hold(EXACT)
    changes = [
        Change(6, Usage(HOST_1, {VCPU: 5})),
        Change(7, placed()),
        Change(7, HostsAlive(("host-1",), 1.0)),
    ]
    for batch in [changes] if is_at_once else [changes[:1], changes[1:]]:
        replica.apply(batch)
    assert counts(replica)[:2] == (5, 1)
