"""Imports into a ledger: complete, repeatable, resumable, and never against Berth's own records."""

from dataclasses import replace

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.host import Host, Service
from berth.domain.compute.host_identity import HostIdentity
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.key_pair import KeyPair, KeyRing, KeyType
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import VCPU, Inventory
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Put
from berth.ports.nova import ImportKind, NovaCloud
from berth.services.importing.import_plan import ImportPlan, Verb
from berth.services.importing.import_units import (
    PlannedUnit,
    server_units,
    small_units,
    tree_units,
)
from berth.services.importing.verification import differences_in, host_totals
from berth.testing.builders import make_aggregate, make_flavor, make_fleet, make_uuid
from tests.unit.services.importing.clouds import (
    GPU,
    MOVE,
    ImportRig,
    holding,
    make_cloud,
    observed_host,
    observed_server,
)

FIRST, SECOND = make_uuid("host", 1), make_uuid("host", 2)
VM1, VM2, VM3 = (make_uuid("instance", number) for number in (1, 2, 3))


async def test_everything_is_created() -> None:
    """Records, usage and consumers are those of Nova, and a verification finds no difference."""
    rig = ImportRig()
    result = await rig.run(make_cloud())
    assert not result.refused
    assert not result.kept
    root = await rig.ledger.get(Provider, FIRST)
    gpu = await rig.ledger.get(Provider, GPU)
    assert root is not None
    assert gpu is not None
    assert (root.used[VCPU], gpu.used["VGPU"]) == (2, 1)
    host = await rig.ledger.get(Host, FIRST)
    assert host is not None
    assert host.child_uuids == (GPU,)
    move = await rig.ledger.get(Consumer, MOVE)
    assert move is not None
    assert move.consumer_type == "MIGRATION"
    assert differences_in(await rig.plan(make_cloud())) == []


async def test_a_server_gets_its_group_and_what_it_holds() -> None:
    """Its assignment equals Placement's amounts, not those of its flavor."""
    rig = ImportRig()
    await rig.run(make_cloud())
    server = await rig.ledger.get(Instance, VM1)
    assert server is not None
    assert server.group_uuid == make_cloud().server_groups[0].uuid
    assert server.assignment is not None
    assert server.assignment.root == {VCPU: 2}
    assert server.assignment.allocations == {GPU: {"VGPU": 1}}
    assert server.task is None


async def test_a_second_import_writes_nothing() -> None:
    """Every kind is compared with what is stored."""
    rig = ImportRig()
    await rig.run(make_cloud())
    version = await rig.ledger.version()
    assert (await rig.run(make_cloud())).written == ()
    assert await rig.ledger.version() == version


async def test_a_killed_import_is_continued() -> None:
    """After any number of units, another run completes the rest."""
    whole = ImportRig()
    await whole.run(make_cloud())
    for stop in range(await whole.ledger.version()):
        rig = ImportRig()
        plan = await rig.plan(make_cloud())
        units = [unit for _, unit in _units_of(plan)][:stop]
        await rig.ledger.commit(units)
        result = await rig.run(make_cloud())
        assert not result.refused
        assert differences_in(await rig.plan(make_cloud())) == []


def _units_of(plan: ImportPlan) -> list[PlannedUnit]:
    named = {ImportKind.RESOURCE_CLASS, ImportKind.TRAIT}
    changes = [one for one in plan.changes if one.kind not in named]
    return [*small_units(changes, plan.stored.version), *tree_units(plan), *server_units(plan)]


def moved(cloud: NovaCloud) -> NovaCloud:
    """Return a cloud whose second server has moved to the first host, and is stopped."""
    first, _second, third = cloud.servers
    gone = replace(observed_server(2, on=1), status=Status.SHUTOFF)
    held = (cloud.holdings[0], holding(VM2, {FIRST: {VCPU: 3}}))
    return replace(cloud, servers=(first, gone, third), holdings=held)


async def test_what_changed_in_nova_is_updated() -> None:
    """A server that moved frees its old host; the consumer of its migration is freed too."""
    rig = ImportRig()
    await rig.run(make_cloud())
    result = await rig.run(moved(make_cloud()))
    assert {(one.kind, one.key) for one in result.written} == {
        (ImportKind.SERVER, VM2),
        (ImportKind.ALLOCATIONS, VM2),
        (ImportKind.ALLOCATIONS, MOVE),
    }
    one, other = await rig.ledger.get(Provider, FIRST), await rig.ledger.get(Provider, SECOND)
    assert one is not None
    assert other is not None
    assert (one.used[VCPU], other.used[VCPU]) == (5, 0)


async def test_allocations_beyond_the_capacity_are_kept() -> None:
    """Nova runs the servers, so the ledger counts them; the capacity stays as it is."""
    cloud = make_cloud()
    first, gpu, second = cloud.providers
    small = replace(second, inventories={VCPU: Inventory(total=1)})
    cloud = replace(cloud, providers=(first, gpu, small))
    rig = ImportRig()
    result = await rig.run(cloud)
    assert result.overcommitted == (VM2,)
    assert not result.refused
    stored = await rig.ledger.get(Provider, SECOND)
    assert stored is not None
    assert stored.used[VCPU] == 4
    assert stored.inventories[VCPU] == Inventory(total=1)
    assert differences_in(await rig.plan(cloud)) == []


async def test_a_class_without_inventory_is_kept_while_it_is_used() -> None:
    """An allocation of a class that the provider no longer has counts, with a capacity of 0."""
    cloud = make_cloud()
    held = (*cloud.holdings[:2], holding(MOVE, {SECOND: {"CUSTOM_GOLD": 1}}))
    cloud = replace(cloud, holdings=held)
    rig = ImportRig()
    assert not (await rig.run(cloud)).refused
    assert differences_in(await rig.plan(cloud)) == []


async def test_what_nova_lost_is_removed_only_on_request() -> None:
    """Without `prunes` a server and a host that are gone stay, and are reported."""
    rig, cloud = ImportRig(), make_cloud()
    await rig.run(cloud)
    left = replace(
        cloud,
        hosts=cloud.hosts[:1],
        services=cloud.services[:1],
        providers=cloud.providers[:2],
        servers=(cloud.servers[0], cloud.servers[2]),
        holdings=cloud.holdings[:1],
    )
    kept = (await rig.run(left)).kept
    assert {(one.kind, one.key) for one in kept} == {
        (ImportKind.SERVER, VM2),
        (ImportKind.HOST, SECOND),
    }
    assert await rig.ledger.get(Service, "host-2") is not None
    assert not (await rig.run(left, prunes=True)).refused
    assert await rig.ledger.get(Host, SECOND) is None
    assert await rig.ledger.get(Service, "host-2") is None
    gone = await rig.ledger.get(Instance, VM2)
    assert gone is not None
    assert gone.status is Status.DELETED
    assert differences_in(await rig.plan(left)) == []


async def test_a_server_that_comes_back_is_imported_again() -> None:
    """A record that was removed keeps its revision, which the new one continues."""
    rig, cloud = ImportRig(), make_cloud()
    await rig.run(cloud)
    without = replace(cloud, servers=cloud.servers[:1], holdings=cloud.holdings[:1])
    await rig.run(without, prunes=True)
    assert not (await rig.run(cloud)).refused
    assert differences_in(await rig.plan(cloud)) == []


async def test_a_host_of_berth_stays_as_it_is() -> None:
    """A host with an agent of Berth is skipped with its providers, servers and allocations."""
    rig = ImportRig()
    (unit,) = make_fleet(1)
    await rig.store(*unit)
    before = await rig.ledger.get(Provider, FIRST)
    plan = await rig.plan(make_cloud())
    assert any(one.kind is ImportKind.HOST and one.key == "host-1" for one in plan.findings)
    await rig.run(make_cloud())
    assert await rig.ledger.get(Provider, FIRST) == before
    assert await rig.ledger.get(Instance, VM1) is None
    assert await rig.ledger.get(Instance, VM2) is not None


async def test_a_host_that_is_enrolled_is_not_imported() -> None:
    """Its agent is about to appear."""
    rig = ImportRig()
    await rig.store(Put(HostIdentity("host-1", created_at_s=1.0)))
    await rig.run(make_cloud())
    assert await rig.ledger.get(Host, FIRST) is None
    assert await rig.ledger.get(Host, SECOND) is not None


async def test_names_that_berth_has_are_findings() -> None:
    """A flavor or an aggregate with the name of another one is not overwritten."""
    rig = ImportRig()
    await rig.store(
        Put(replace(make_flavor(9), name=make_flavor(1).name)),
        Put(replace(make_aggregate(9), name=make_aggregate(7).name)),
    )
    plan = await rig.plan(make_cloud())
    assert {one.kind for one in plan.findings} == {ImportKind.FLAVOR, ImportKind.AGGREGATE}
    await rig.run(make_cloud())
    assert {one.flavor_id for one in await rig.ledger.all(Flavor)} == {"2", "9"}


async def test_an_aggregate_keeps_its_id_if_it_is_free() -> None:
    """The ledger's counter is raised above it, so the id is never assigned again."""
    rig = ImportRig()
    await rig.run(make_cloud())
    (stored,) = await rig.ledger.all(Aggregate)
    assert stored.aggregate_id == 7
    assert await rig.ledger.next_id(Kind.AGGREGATE) == 8


async def test_an_aggregate_whose_id_is_taken_gets_a_new_one() -> None:
    """The finding says so, and a later import keeps the new id."""
    rig = ImportRig()
    other = replace(make_aggregate(7), uuid=make_uuid("aggregate", 99), name="other")
    await rig.store(Put(other))
    await rig.run(make_cloud())
    ids = {one.uuid: one.aggregate_id for one in await rig.ledger.all(Aggregate)}
    assert ids[make_aggregate(7).uuid] != 7
    assert (await rig.run(make_cloud())).written == ()


async def test_key_pairs_of_berth_stay_beside_those_of_nova() -> None:
    """A ring is merged by name."""
    rig = ImportRig()
    own = KeyPair("own", KeyType.SSH, "ssh-rsa BBBB", "22:33")
    await rig.store(Put(KeyRing("user-1", (own,))))
    await rig.run(make_cloud())
    ring = await rig.ledger.get(KeyRing, "user-1")
    assert ring is not None
    assert [pair.name for pair in ring.key_pairs] == ["key", "own"]


async def test_heartbeats_of_a_service_stay() -> None:
    """Only the administrative state of a stored service comes from Nova."""
    rig = ImportRig()
    await rig.run(make_cloud())
    stored = await rig.ledger.get(Service, "host-1")
    assert stored is not None
    await rig.store(Put(replace(stored, failed_builds=3, disabled=True)))
    await rig.run(make_cloud())
    after = await rig.ledger.get(Service, "host-1")
    assert after is not None
    assert (after.failed_builds, after.disabled, after.forced_down) == (3, False, True)


async def test_a_change_meanwhile_is_refused_and_tried_again() -> None:
    """A record that another process changed after the comparison is not overwritten."""
    rig = ImportRig()
    await rig.run(make_cloud())
    plan = await rig.plan(moved(make_cloud()))
    stored = await rig.ledger.get(Instance, VM2)
    assert stored is not None
    await rig.store(Put(replace(stored, metadata={"changed": "yes"})))
    result = await rig._import.carry_out(plan)
    assert {one.change.key for one in result.refused} == {VM2}
    assert not (await rig.run(moved(make_cloud()))).refused


async def test_a_verification_names_each_value() -> None:
    """Counts, fields, allocations and the amounts of hosts are compared."""
    rig = ImportRig()
    await rig.run(make_cloud())
    found = differences_in(await rig.plan(moved(make_cloud())))
    told = {(one.kind, one.field, one.nova, one.berth) for one in found}
    assert ("server", "host", "host-1", "host-2") in told
    assert ("server", "status", "SHUTOFF", "ACTIVE") in told
    assert ("allocations", f"{FIRST} {VCPU}", "3", "0") in told
    assert ("amounts", f"{VCPU} used", "5", "2") in told
    assert ("amounts", f"{VCPU} used", "0", "4") in told


async def test_totals_are_computed_from_both_sides() -> None:
    """Nova's usage is the sum of allocations, Berth's the ledger's own count."""
    rig = ImportRig()
    before = host_totals(await rig.plan(make_cloud()))
    assert all(one.berth_capacity == 0 for one in before)
    await rig.run(make_cloud())
    after = host_totals(await rig.plan(make_cloud()))
    assert all(one.is_equal for one in after)
    (vcpus,) = (
        one for one in after if one.host.startswith("host-2") and one.resource_class == VCPU
    )
    assert (vcpus.nova_capacity, vcpus.nova_used) == (16, 4)


@pytest.mark.parametrize("verb", [Verb.CREATE, Verb.REMOVE])
async def test_counts_say_what_is_done(verb: Verb) -> None:
    """The counts of a kind add up to what Nova has."""
    rig, cloud = ImportRig(), make_cloud()
    if verb is Verb.REMOVE:
        await rig.run(cloud)
        cloud = replace(cloud, servers=cloud.servers[:2])
    (count,) = (one for one in (await rig.plan(cloud)).counts if one.kind is ImportKind.SERVER)
    assert count.same + count.create + count.update == count.in_nova == len(cloud.servers)
    assert (count.create, count.remove) == ((3, 0) if verb is Verb.CREATE else (0, 1))


async def test_hosts_without_providers_are_findings() -> None:
    """Their capacity is unknown, so they and their services are left out."""
    cloud = replace(make_cloud(), hosts=(*make_cloud().hosts, observed_host(3)))
    plan = await ImportRig().plan(cloud)
    (finding,) = (one for one in plan.findings if one.kind is ImportKind.HOST)
    assert finding.key == "host-3"
    assert "no resource provider" in finding.reason
