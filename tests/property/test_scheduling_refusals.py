"""Laws of refusals: they are right, and the relaxations that they suggest work."""

import re
from collections.abc import Callable
from dataclasses import replace

from hypothesis import assume, event, given
from hypothesis import strategies as st

from berth.domain.compute.decision import Refusal, RefusalCode, Relaxation
from berth.domain.compute.host import Service
from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.change import Snapshot
from berth.scheduling.evaluation.policy import Plan
from berth.tables.host.feed import table_of
from berth.testing.fleet_strategies import requests, snapshots
from berth.testing.fleets import NOW_S, policy_of
from tests.property.reference_model import Model
from tests.property.relaxation_worlds import followed_in

POLICY = policy_of()


def decide(snapshot: Snapshot, request: Request) -> Plan:
    """Return the plan; discard the example when the request contradicts itself."""
    try:
        return POLICY.driver.plan(table_of(snapshot), request, POLICY, now_s=NOW_S, seed=0)
    except InvalidInputError:
        assume(False)
        raise


def refusal_of(snapshot: Snapshot, request: Request) -> Refusal:
    """Return the refusal of a request; discard the example when the request is not refused."""
    refusal = decide(snapshot, request).refusal
    assume(refusal is not None)
    assert refusal is not None
    return refusal


# ---- applying a relaxation --------------------------------------------------------------------


def without_names(request: Request, subject: str) -> Request:
    """Return the request without the restrictions on host names that the subject lists."""
    for what in subject.split(" and "):
        request = NAMELESS[what](request)
    return request


NAMELESS: dict[str, Callable[[Request], Request]] = {
    "requested destination": lambda request: replace(request, destination=None),
    "ignored hosts": lambda request: replace(request, ignore_hosts=()),
    "forced hosts": lambda request: replace(request, force_hosts=()),
    "forced nodes": lambda request: replace(request, force_nodes=()),
}


def with_fewer(request: Request, relaxation: Relaxation) -> Request:
    """Return the request for fewer instances, as the relaxation says."""
    assert relaxation.change is not None
    fewer = len(request.instance_uuids) + relaxation.change
    return replace(request, instance_uuids=request.instance_uuids[:fewer])


def relaxed(request: Request, relaxation: Relaxation) -> Request:
    """Return the request changed as a relaxation says."""
    if relaxation.filter == "reduction":
        return without_names(request, relaxation.subject)
    if relaxation.filter == "count":
        return with_fewer(request, relaxation)
    if relaxation.filter == "ComputeFilter":
        return request
    return followed_in(request, relaxation.what)


def repaired(snapshot: Snapshot, relaxation: Relaxation) -> Snapshot:
    """Return the snapshot with the example hosts' services as ComputeFilter's relaxation says."""
    if relaxation.filter != "ComputeFilter":
        return snapshot
    state = re.fullmatch(r"[\d,]+ more compute services? (.*)", relaxation.text)
    assert state is not None
    services = {service.host: service for service in snapshot.services}
    for name in relaxation.examples:
        service = services.get(name, Service(name, "new", disabled=True, forced_down=True))
        if "enabled" in state[1]:
            service = replace(service, disabled=False)
        if "up" in state[1]:
            service = replace(service, forced_down=False, last_seen_s=NOW_S)
        services[name] = service
    return replace(snapshot, services=tuple(services.values()))


# ---- the laws ---------------------------------------------------------------------------------


def changed_by(
    snapshot: Snapshot, request: Request, relaxation: Relaxation
) -> tuple[Snapshot, Request]:
    """Return snapshot and request after the change, or pair of changes, of a relaxation."""
    for part in relaxation.parts or (relaxation,):
        snapshot, request = repaired(snapshot, part), relaxed(request, part)
    return snapshot, request


@given(snapshot=snapshots(least=1), request=requests(count_max=1))
def test_each_relaxation_is_true(snapshot: Snapshot, request: Request) -> None:
    """After the change of a relaxation, its examples fit, and as many hosts as it counts."""
    refusal = refusal_of(snapshot, request)
    for relaxation in refusal.relaxations:
        event(relaxation.filter)
        plan = decide(*changed_by(snapshot, request, relaxation))
        assert plan.refusal is None, relaxation
        (first,) = plan.placements
        fits = [one.host for one in (first.chosen, *first.runners_up)]
        assert set(relaxation.examples) <= set(fits), relaxation
        assert relaxation.examples
        if relaxation.filter != "ComputeFilter" and not relaxation.parts:
            assert len(fits) == relaxation.hosts, relaxation


@given(snapshot=snapshots(least=1, stepped=False), request=requests(count_max=8, grouped=False))
def test_a_relaxation_of_many_wins_room_for_one_more(snapshot: Snapshot, request: Request) -> None:
    """After each relaxation of a request for many, one more instance fits, or the reduced count."""
    refusal = refusal_of(snapshot, request)
    for relaxation in refusal.relaxations:
        uuids = request.instance_uuids[: refusal.placed + (relaxation.filter != "count")]
        event(relaxation.filter)
        changed, asked = changed_by(snapshot, request, relaxation)
        plan = decide(changed, replace(asked, instance_uuids=uuids))
        assert plan.refusal is None, relaxation


@given(snapshot=snapshots(), request=requests(count_max=5))
def test_every_refusal_is_right(snapshot: Snapshot, request: Request) -> None:
    """The number of instances that fit, counted host by host, is `placed` and less than `asked`.

    Partly placed requests with affinity are left out: their instances follow the first one, and
    another first host might have taken all of them.
    """
    refusal = refusal_of(snapshot, request)
    policies = {group.uuid: group.policy for group in snapshot.server_groups}
    assume(refusal.placed == 0 or policies.get(request.group_uuid or "") != "affinity")
    room = 0
    for host in snapshot.hosts:
        model = Model(snapshot, request, {}, NOW_S)
        key = (host.name, host.node)
        for uuid in request.instance_uuids:
            if key in model.step(uuid).survivors:
                room += 1
                model.consume(key, uuid)
    assert room == refusal.placed < refusal.asked


@given(snapshot=snapshots(), request=requests(count_max=3))
def test_the_counts_of_a_refusal_add_up(snapshot: Snapshot, request: Request) -> None:
    """Filter counts continue each other down to 0, and filters name examples of removed hosts."""
    refusal = refusal_of(snapshot, request)
    assert refusal.hosts_total == len(snapshot.hosts)
    if refusal.filters:
        assert refusal.filters[0].before == refusal.hosts_total
        assert refusal.filters[-1].after == 0
    for count, following in zip(refusal.filters, refusal.filters[1:], strict=False):
        assert count.after == following.before
    for count in refusal.filters:
        removed = count.before - count.after
        named = any(count.name.startswith(word) for word in ("requested", "ignored", "forced"))
        assert len(count.removed_examples) == (0 if named else min(removed, 3))
        assert all(re.match(r"Host-\d: \S", text) for text in count.removed_examples)
    has_hosts = bool(refusal.hosts_total) and refusal.code is not RefusalCode.NO_HOSTS
    assert (refusal.code is RefusalCode.NOT_ENOUGH) == bool(refusal.placed)
    assert has_hosts or refusal.placed == 0
    assert not any(host.name in refusal.message for host in snapshot.hosts)
    assert "  " not in refusal.message


@given(snapshot=snapshots(least=1), request=requests(count_max=4), data=st.data())
def test_a_refusal_does_not_depend_on_the_order_of_rows(
    snapshot: Snapshot, request: Request, data: st.DataObject
) -> None:
    """A refusal is equal for hosts in another order."""
    hosts = tuple(data.draw(st.permutations(snapshot.hosts)))
    refusal = refusal_of(snapshot, request)
    assert refusal_of(replace(snapshot, hosts=hosts), request) == refusal
