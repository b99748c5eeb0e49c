"""What a host may claim in its report: itself, and nothing that belongs to others."""

from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.host import Host
from berth.domain.errors import BerthError, ConflictError, InvalidInputError
from berth.domain.inventory.provider import Provider, child_uuid
from berth.domain.inventory.resources import VCPU, Inventory
from berth.domain.ledger.write import Put
from berth.ports.virt import ChildReport, HostReport
from berth.services.fleet.report_checks import (
    CLASSES_MAX,
    NODES_MAX,
    TRAITS_MAX,
    check_report,
)
from berth.testing.builders import make_host, make_provider, make_request, make_uuid
from tests.unit.services.wiring import Desk, Fleet, open_desk, order_of

_GPU: Final = ChildReport("GPU 0", {"CUSTOM_GPU": Inventory(1)})


def report_of(number: int, *children: ChildReport) -> HostReport:
    """Return the report of a host."""
    return HostReport(make_host(number), make_provider(number), children)


async def refused(desk: Desk, report: HostReport, kind: type[BerthError], reason: str) -> None:
    """Check that a report is refused, and that nothing has changed."""
    before = await desk.ledger.version()
    with pytest.raises(kind, match=reason):
        await desk.hosts.register([report])
    assert await desk.ledger.version() == before


OWN: Final = report_of(1)


@pytest.mark.parametrize(
    ("forged", "reason"),
    [
        (
            replace(OWN, provider=replace(OWN.provider, uuid=make_uuid("host", 2))),
            "UUID of the host",
        ),
        (replace(OWN, provider=replace(OWN.provider, name="host-2")), "name of the host"),
        (replace(OWN, provider=replace(OWN.provider, parent_uuid=make_uuid("host", 2))), "besides"),
        (replace(OWN, provider=replace(OWN.provider, aggregates=(make_uuid("a", 1),))), "besides"),
        (replace(OWN, provider=replace(OWN.provider, used={VCPU: 9})), "besides"),
        (replace(OWN, provider=replace(OWN.provider, generation=9)), "besides"),
        (replace(OWN, provider=replace(OWN.provider, owned_traits=frozenset())), "besides"),
        (
            replace(
                OWN, provider=replace(OWN.provider, traits=frozenset({"MISC_SHARES_VIA_AGGREGATE"}))
            ),
            "must not be reported",
        ),
        (
            report_of(1, replace(_GPU, traits=frozenset({"MISC_SHARES_VIA_AGGREGATE"}))),
            "must not be reported",
        ),
        (replace(OWN, host=replace(OWN.host, uuid="../../etc")), "must be a UUID"),
        (replace(OWN, host=replace(OWN.host, node="a/b")), "without a slash"),
        (replace(OWN, host=replace(OWN.host, node="a\0b")), "printable"),
        (replace(OWN, host=replace(OWN.host, node="n" * 256)), "1 to 255"),
        (replace(OWN, host=replace(OWN.host, node="")), "1 to 255"),
        (replace(OWN, provider=replace(OWN.provider, traits=frozenset({"a b"}))), "A-Z"),
    ],
)
async def test_a_host_reports_only_itself(forged: HostReport, reason: str) -> None:
    """A root provider of another host, or with what only operators set, is refused."""
    desk = await open_desk(Fleet(hosts=3))
    await refused(desk, forged, InvalidInputError, reason)


async def test_a_host_cannot_take_the_provider_of_another() -> None:
    """Neither the root nor a child of another host, nor an operator's provider, becomes a host."""
    desk = await open_desk(Fleet(hosts=2))
    await desk.hosts.register([report_of(2, _GPU)])
    child = child_uuid(make_uuid("host", 2), _GPU.name)
    shared = Provider(
        make_uuid("provider", 1), "storage", traits=frozenset({"MISC_SHARES_VIA_AGGREGATE"})
    )
    below = Provider(make_uuid("provider", 2), "part", parent_uuid=shared.uuid)
    await desk.ledger.commit([(Put(shared), Put(below))])
    await desk.follower.catch_up()
    for uuid in (make_uuid("host", 2), child, shared.uuid, below.uuid):
        claimed = replace(
            OWN,
            host=replace(OWN.host, uuid=uuid, name="host-1", node="host-1"),
            provider=replace(OWN.provider, uuid=uuid, name="host-1"),
        )
        before = await desk.ledger.get(Provider, uuid)
        await refused(desk, claimed, ConflictError, "belongs to another")
        assert await desk.ledger.get(Provider, uuid) == before


async def test_a_host_cannot_take_the_name_of_another() -> None:
    """A node with the name of a registered or an enrolled host is refused."""
    desk = await open_desk(Fleet(hosts=2))
    claimed = replace(
        OWN,
        host=replace(OWN.host, uuid=make_uuid("host", 77), node="host-2"),
        provider=replace(OWN.provider, uuid=make_uuid("host", 77), name="host-2"),
    )
    await refused(desk, claimed, ConflictError, "name of another host")


def on_node(number: int, node: str, *, host: str = "host") -> HostReport:
    """Return the report of one of several nodes of a host, with a child."""
    made = replace(make_host(number), name=host, node=node)
    return HostReport(made, replace(make_provider(number), name=node), (_GPU,))


async def test_the_first_to_report_a_name_keeps_it() -> None:
    """A later provider of the same name is told apart by its UUID; the first one keeps its name."""
    desk = await open_desk(Fleet(hosts=0))
    for number in (1, 2):
        await desk.hosts.register([on_node(number, "rack", host=f"host-{number}")])
    for uuid in (make_uuid("host", 1), child_uuid(make_uuid("host", 1), _GPU.name)):
        first = await desk.ledger.get(Provider, uuid)
        assert first is not None
        assert first.name in {"rack", f"rack:{_GPU.name}"}
    for uuid in (make_uuid("host", 2), child_uuid(make_uuid("host", 2), _GPU.name)):
        second = await desk.ledger.get(Provider, uuid)
        assert second is not None
        assert second.name.endswith(f"({uuid})")


async def test_the_nodes_of_a_host_are_limited() -> None:
    """A host cannot fill the control plane with nodes."""
    desk = await open_desk(Fleet(hosts=0))

    nodes = [on_node(number, f"node-{number}") for number in range(1, NODES_MAX + 2)]
    await refused_all(desk, nodes)
    await desk.hosts.register(nodes[:-1])
    await desk.follower.catch_up()
    await refused(desk, nodes[-1], ConflictError, "another node")
    await desk.hosts.register(nodes[:1])


async def refused_all(desk: Desk, reports: list[HostReport]) -> None:
    """Check that reports of too many nodes are refused together."""
    with pytest.raises(ConflictError, match="another node"):
        await desk.hosts.register(reports)
    assert await desk.hosts.all() == []


async def test_a_host_cannot_join_an_aggregate() -> None:
    """An aggregate, and so an availability zone, has the hosts that an operator put there."""
    desk = await open_desk(Fleet(hosts=1))
    aggregate = Aggregate(1, make_uuid("aggregate", 1), "gold")
    await desk.ledger.commit([(Put(aggregate),)])
    forged = replace(OWN, provider=replace(OWN.provider, aggregates=(aggregate.uuid,)))
    await refused(desk, forged, InvalidInputError, "besides")


deep: Any = "x"
for _ in range(50):
    deep = [deep]


@pytest.mark.parametrize(
    "host",
    [
        replace(OWN.host, stats={f"s{n}": "x" for n in range(1_001)}),
        replace(OWN.host, stats={"s": "x" * 5_000}),
        replace(OWN.host, stats={"s" * 5_000: "x"}),
        replace(OWN.host, supported_instances=(("a", "b", "c"),) * 1_001),
        replace(OWN.host, cpu_info={"flags": ["f"] * 10_001}),
        replace(OWN.host, cpu_info={"flags": deep}),
        replace(OWN.host, cell="c" * 5_000),
    ],
)
def test_the_size_of_a_description_is_limited(host: Host) -> None:
    """Descriptions of hosts are kept in memory by each process, so their size has a limit."""
    with pytest.raises(InvalidInputError):
        check_report(replace(OWN, host=host))


def test_the_numbers_of_classes_and_traits_are_limited() -> None:
    """Neither the host nor a child may have many classes or traits."""
    many = {f"CUSTOM_{n}": Inventory(1) for n in range(CLASSES_MAX + 1)}
    traits = frozenset(f"CUSTOM_{n}" for n in range(TRAITS_MAX + 1))
    for forged in (
        replace(OWN, provider=replace(OWN.provider, inventories=many)),
        replace(OWN, provider=replace(OWN.provider, traits=traits)),
        report_of(1, replace(_GPU, inventories=many)),
        report_of(1, replace(_GPU, traits=traits)),
    ):
        with pytest.raises(InvalidInputError, match="at most"):
            check_report(forged)


@given(st.text(max_size=300))
def test_a_name_is_accepted_or_refused(name: str) -> None:
    """Whatever a host calls itself, an accepted name has no slash and no control character."""
    forged = replace(
        OWN, host=replace(OWN.host, node=name), provider=replace(OWN.provider, name=name)
    )
    try:
        check_report(forged)
    except InvalidInputError:
        return
    assert 0 < len(name) <= 255
    assert name.isprintable()
    assert "/" not in name


async def test_capacity_below_what_is_used_is_recorded() -> None:
    """A host may report less than its guests have: its usage stays."""
    desk = await open_desk(Fleet(hosts=1))
    await desk.placer.place(order_of(make_request(1)))
    uuid = make_uuid("host", 1)
    stored = await desk.ledger.get(Provider, uuid)
    assert stored is not None
    small = {name: replace(one, total=1, reserved=0) for name, one in stored.inventories.items()}
    own = Provider(uuid, stored.name, inventories=small, traits=stored.traits)
    host = await desk.ledger.get(Host, uuid)
    assert host is not None
    await desk.hosts.register([HostReport(replace(host, child_uuids=()), own)])
    now = await desk.ledger.get(Provider, uuid)
    assert now is not None
    assert now.used == stored.used
