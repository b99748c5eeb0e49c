"""Laws of the host table: it equals the latest records, in whatever order they arrived."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Status, Task
from berth.domain.compute.migration import Place, Stage
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.change import Event, HostsAlive, RecordRemoved, Snapshot, Usage
from berth.domain.ledger.record import Kind, Record, key_of, kind_of
from berth.tables.columnar.journal import GROUPS
from berth.tables.host.feed import apply_event, table_of
from berth.tables.host.hosts import HostTable
from berth.testing.builders import make_flavor, make_migration
from berth.testing.dumping import dump
from berth.testing.fleet_strategies import HOSTS_MAX, snapshots
from berth.testing.tree_strategies import with_trees

FLAVOR = make_flavor()


def records_of(snapshot: Snapshot) -> list[Record]:
    """Return the records of a snapshot that a host table follows."""
    return [
        *snapshot.hosts,
        *snapshot.providers,
        *snapshot.services,
        *snapshot.aggregates,
        *snapshot.server_groups,
        *snapshot.instances,
        *snapshot.migrations,
    ]


@st.composite
def with_moves(draw: st.DrawFn, fleets: st.SearchStrategy[Snapshot]) -> Snapshot:
    """Draw a fleet in which some instances have a move, at any stage."""
    snapshot = draw(fleets)
    named = [Place(one.name, one.node, FLAVOR) for one in snapshot.hosts]
    places = st.sampled_from([*named, Place("elsewhere", "elsewhere", FLAVOR)])
    moves = tuple(
        replace(
            make_migration(number),
            uuid=f"move-{number}",
            instance_uuid=one.uuid,
            group_uuid=one.group_uuid,
            stage=draw(st.sampled_from(Stage)),
            source=draw(places),
            destination=draw(places),
        )
        for number, one in enumerate(snapshot.instances, 1)
        if draw(st.booleans())
    )
    return replace(snapshot, migrations=moves)


def follow(events: Sequence[Event]) -> HostTable:
    """Return a table built from these events."""
    hosts = HostTable()
    for event in events:
        apply_event(hosts, event)
    return hosts


@given(snapshot=with_moves(with_trees(snapshots())), data=st.data())
def test_events_in_any_order_make_the_table_of_the_snapshot(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    """Records in any order, some of them twice, give the table of their snapshot."""
    events = data.draw(st.permutations(records_of(snapshot)))
    assert dump(follow([*events, *events[:3]])) == dump(table_of(snapshot))


class Truth:
    """Records by kind and key, as a ledger has them, and the snapshot that they make."""

    def __init__(self) -> None:
        self.records: dict[Kind, dict[str, Record]] = {kind: {} for kind in Kind}

    def take(self, event: Event) -> None:
        """Apply an event to the records."""
        match event:
            case RecordRemoved():
                self.records[event.kind].pop(event.key, None)
            case Usage():
                provider = self.records[Kind.PROVIDER][event.provider_uuid]
                assert isinstance(provider, Provider)
                used = dict(event.used)
                self.take(replace(provider, used=used))
            case HostsAlive():
                services = self.records[Kind.SERVICE]
                for name in event.hosts:
                    service = services.get(name)
                    if isinstance(service, Service):
                        services[name] = replace(service, last_seen_s=event.at_s)
            case _:
                self.records[kind_of(event)][key_of(event)] = event

    def snapshot(self) -> Snapshot:
        """Return what a new follower would load."""
        names = {
            Kind.HOST: "hosts",
            Kind.PROVIDER: "providers",
            Kind.SERVICE: "services",
            Kind.AGGREGATE: "aggregates",
            Kind.SERVER_GROUP: "server_groups",
            Kind.INSTANCE: "instances",
            Kind.MIGRATION: "migrations",
        }
        lists = {names[kind]: tuple(self.records[kind].values()) for kind in names}
        return Snapshot(version=1, now_s=0.0, **lists)  # type: ignore[arg-type]


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Draw a history of two fleets' records, with removals, usages, heartbeats and renames."""
    first, second = (
        draw(with_moves(with_trees(snapshots(least=1)))),
        draw(with_moves(with_trees(snapshots()))),
    )
    records = [*records_of(first), *records_of(second)]
    events: list[Event] = list(draw(st.permutations(records)))
    keys = [(kind_of(record), key_of(record)) for record in records]
    name = st.sampled_from([f"Host-{number}" for number in range(HOSTS_MAX)])
    for _ in range(draw(st.integers(0, 8))):
        at = draw(st.integers(0, len(events)))
        kind, key = draw(st.sampled_from(keys))
        match draw(st.sampled_from(("gone", "gone", "usage", "alive", "rename", "task", "move"))):
            case "gone":
                events.insert(at, RecordRemoved(kind, key))
            case "usage" if known := [e for e in events[:at] if isinstance(e, Provider)]:
                provider = draw(st.sampled_from(known))
                used = {key: draw(st.integers(0, 5)) for key in provider.inventories}
                events.insert(at, Usage(provider.uuid, used))
            case "alive":
                events.insert(at, HostsAlive((draw(name), "unknown"), 77.0))
            case "rename" if hosts := [e for e in events[:at] if isinstance(e, Host)]:
                old = draw(st.sampled_from(hosts))
                # A ledger never has two hosts with the same name and node.
                events.insert(at, replace(old, name=f"{old.name}-{at}", host_ip="10.0.0.1"))
            case "task" if first.instances:
                one = draw(st.sampled_from(first.instances))
                status, task = draw(
                    st.sampled_from(((Status.DELETED, None), (Status.BUILD, Task.SPAWNING)))
                )
                events.insert(at, replace(one, status=status, task=task))
            case "move" if first.migrations:
                move = draw(st.sampled_from(first.migrations))
                events.insert(at, replace(move, stage=draw(st.sampled_from(Stage))))
            case _:
                pass
    return [
        event
        for number, event in enumerate(events)
        if not isinstance(event, Usage) or _is_known(events[:number], event.provider_uuid)
    ]


def _is_known(events: Sequence[Event], provider_uuid: str) -> bool:
    """Tell whether a provider exists after some events; the feed has no usage of any other."""
    known = False
    for event in events:
        if isinstance(event, Provider) and event.uuid == provider_uuid:
            known = True
        elif event == RecordRemoved(Kind.PROVIDER, provider_uuid):
            known = False
    return known


@given(history=histories())
def test_a_history_makes_the_table_of_its_last_state(history: list[Event]) -> None:
    """After any history, the table equals one loaded from the snapshot of its last state."""
    truth = Truth()
    hosts = HostTable()
    for event in history:
        truth.take(event)
        apply_event(hosts, event)
    assert dump(hosts) == dump(table_of(truth.snapshot()))


@given(history=histories())
def test_records_are_given_back_as_they_were_told(history: list[Event]) -> None:
    """The table returns hosts and services equal to the records that it was given."""
    truth = Truth()
    hosts = HostTable()
    for event in history:
        truth.take(event)
        apply_event(hosts, event)
    for uuid, record in truth.records[Kind.HOST].items():
        row = hosts.row_of(uuid)
        assert row is not None
        assert hosts.host(row) == record
        assert hosts.identity(row) == (hosts.name(row), hosts.node(row), uuid)
        assert hosts.identity(row) == (hosts.host(row).name, hosts.host(row).node, hosts.uuid(row))
    for name, record in truth.records[Kind.SERVICE].items():
        assert hosts.services.get(name) == record
    assert hosts.alive_rows().size == len(truth.records[Kind.HOST])


@given(history=histories())
def test_the_journal_names_every_row_that_changed(history: list[Event]) -> None:
    """For each event, the journal names every changed row and the groups of its changed columns."""
    hosts = HostTable()
    after = dump(hosts)["hosts"]
    for event in history:
        before = after
        positions = {group: hosts.journal.position(group) for group in GROUPS}
        apply_event(hosts, event)
        after = dump(hosts)["hosts"]
        assert isinstance(before, dict)
        assert isinstance(after, dict)
        named: dict[int, set[str]] = {}
        for group, position in positions.items():
            for changed_row in hosts.journal.since(group, position) or ():
                named.setdefault(changed_row, set()).add(group)
        for uuid, row in after.items():
            groups = named.get(hosts.row_of(uuid) or 0, set())
            old = before.get(uuid, {})
            keys = {key for key in row if row[key] != old.get(key)}
            if keys & HARDWARE:  # capacity is in the group "host", use in the group "instances"
                assert groups & {"host", "instances"}, (event, uuid)
            changed = {GROUP_OF[key] for key in keys - HARDWARE} - {"rank"}
            if set(named.get(hosts.row_of(uuid) or 0, ())) == {"seen"}:
                changed.discard("service")  # the record of a service holds its last heartbeat
            assert changed <= groups, (event, uuid)


HARDWARE = {"numa", "pci"}
GROUP_OF = {
    "host": "host",
    "alive": "host",
    "profile": "host",
    "rank": "rank",
    "name_hash": "host",
    "service": "service",
    "enabled": "service",
    "forced_down": "service",
    "is_served": "service",
    "created_at_s": "service",
    "last_seen_s": "seen",
    "classes": "used",
    "traits": "traits",
    "zones": "aggregates",
    "aggregates": "aggregates",
    "occupants": "instances",
    "groups": "instances",
    "children": "used",
    "child_traits": "traits",
    "failed_builds": "service",
    "failed_at_s": "service",
    "failure_level": "service",
    "hypervisor_version": "host",
    "cell": "host",
    "images": "instances",
    "metrics": "host",
    "flavors": "instances",
    "attributes": "instances",
    "attested_until_s": "service",
    "num_instances": "instances",
    "num_io_ops": "instances",
}
