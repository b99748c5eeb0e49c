"""Rules about similar instances agree with a count over the records of the instances."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration, Place, Stage
from berth.domain.compute.request import Request
from berth.domain.ledger.change import RecordRemoved
from berth.domain.ledger.record import Kind
from berth.scheduling.costs import similar_instances as costs
from berth.scheduling.drivers import least_cost
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.filters import similar_instances as filters
from berth.scheduling.rules.rule import Query
from berth.scheduling.weighers import similar_instances as weighers
from berth.tables.host.feed import apply_event, table_of
from berth.tables.host.hosts import HostTable
from berth.testing.builders import make_migration
from berth.testing.fleets import NOW_S, Box, asking, policy_of, resident, snapshot_of
from tests.property.engine_world import World

ATTRIBUTES = ("project", "user", "image", "flavor", "metadata.tier")
FLAVORS = tuple(Flavor(name, name, 1, 1) for name in ("f1", "f2"))
BOXES = tuple(Box(f"h{number:02}") for number in range(12))


class Side(NamedTuple):
    """An instance on one of its hosts: the host, and what is known of the instance there."""

    uuid: str
    host: str
    project: str
    user: str
    flavor: str
    image: str = ""
    metadata: Mapping[str, str] = {}


class Fleet:
    """Hosts whose instances come, change, move and go at random, and a plain list of them."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.hosts: HostTable = table_of(snapshot_of(BOXES))
        self.instances: dict[str, Instance] = {}
        self.moves: dict[str, Migration] = {}
        for _ in range(self.draw.randint(0, 120)):
            self.step()

    def step(self) -> None:
        """Apply one random event."""
        draw = self.draw
        uuid = f"vm-{draw.randint(0, 40)}"
        known = self.instances.get(uuid)
        if known is None:
            self._put(self._changed(resident(uuid, draw.choice(BOXES))))
        elif draw.random() < 0.3:
            del self.instances[uuid]
            apply_event(self.hosts, RecordRemoved(Kind.INSTANCE, uuid))
            if self.moves.pop(uuid, None) is not None:
                apply_event(self.hosts, RecordRemoved(Kind.MIGRATION, f"move-{uuid}"))
        elif draw.random() < 0.3:
            self._move(known)
        else:
            self._put(self._changed(known))

    def _changed(self, one: Instance) -> Instance:
        draw = self.draw
        return replace(
            one,
            name=draw.choice(("a", "b")),
            project_id=draw.choice(("p1", "p2")),
            user_id=draw.choice(("u1", "u2", "")),
            flavor=draw.choice(FLAVORS),
            image=draw.choice((None, Image("i1"), Image("i2"))),
            metadata=draw.choice(({}, {"tier": "x"}, {"tier": "y", "other": "x"}, {"tier": ""})),
        )

    def _put(self, one: Instance) -> None:
        self.instances[one.uuid] = one
        apply_event(self.hosts, one)

    def _move(self, one: Instance) -> None:
        source = Place(one.host or "", one.node or "", one.flavor)
        target = self.draw.choice(BOXES)
        move = replace(
            make_migration(1),
            uuid=f"move-{one.uuid}",
            instance_uuid=one.uuid,
            stage=Stage.LEAVING,
            source=source,
            destination=Place(target.name, target.host.node, self.draw.choice(FLAVORS)),
            project_id=one.project_id,
            user_id=one.user_id,
        )
        self.moves[one.uuid] = move
        apply_event(self.hosts, move)

    def sides(self) -> list[Side]:
        """Return every instance on each host where it counts."""
        found = [
            Side(
                one.uuid,
                one.host or "",
                one.project_id,
                one.user_id,
                one.flavor.flavor_id,
                one.image.image_id if one.image else "",
                one.metadata,
            )
            for one in self.instances.values()
        ]
        for move in self.moves.values():
            place = move.destination
            if not move.is_in_place:
                flavor = place.flavor.flavor_id
                found.append(Side(move.uuid, place.host, move.project_id, move.user_id, flavor))
        return found

    def request(self, count: int = 1) -> Request:
        """Return a random request, sometimes for an instance that is in the fleet."""
        draw = self.draw
        uuids = tuple(f"new-{number}" for number in range(count))
        if self.instances and count == 1 and draw.random() < 0.3:
            uuids = (draw.choice(sorted(self.instances)),)
        return replace(
            asking(),
            instance_uuids=uuids,
            project_id=draw.choice(("p1", "p2", "")),
            user_id=draw.choice(("u1", "u2", "")),
            flavor=draw.choice(FLAVORS),
            image=draw.choice((None, Image("i1"))),
            metadata=draw.choice(({}, {"tier": "x"}, {"tier": ""})),
        )


def is_similar(one: Side, request: Request, attribute: str) -> bool:
    """Return whether an instance is similar to those of a request, by the description."""
    if one.uuid in request.instance_uuids:
        return False
    if attribute == "metadata.tier":
        same = one.metadata.get("tier") == request.metadata.get("tier") is not None
        return same and one.project == request.project_id
    mine = {
        "project": request.project_id,
        "user": request.user_id,
        "image": request.image.image_id if request.image else "",
        "flavor": request.flavor.flavor_id,
    }[attribute]
    return bool(mine) and getattr(one, attribute) == mine


def applies(request: Request, attribute: str) -> bool:
    """Return whether a request has the attribute."""
    if attribute == "metadata.tier":
        return "tier" in request.metadata
    alike = Side("", "", request.project_id, request.user_id, request.flavor.flavor_id)
    if attribute == "image":
        return request.image is not None
    return bool(getattr(alike, attribute))


@given(seed=st.integers(0, 2**63 - 1))
def test_rules_count_what_the_records_say(seed: int) -> None:
    """Filter, weigher, share and cost follow from a count over the records, however they read."""
    fleet = Fleet(seed)
    hosts, request = fleet.hosts, fleet.request()
    query = Query(request, request.needs, NOW_S, None, request.instance_uuids[0])
    rows = np.arange(len(hosts))
    few = np.array(fleet.draw.sample(rows.tolist(), 3), dtype=np.intp)
    for attribute in ATTRIBUTES:
        similar = [one for one in fleet.sides() if is_similar(one, request, attribute)]
        counts = [sum(one.host == hosts.name(row) for one in similar) for row in rows.tolist()]
        limit = fleet.draw.randint(1, 3)
        rule = filters.build(attribute=attribute, max_similar_instances_per_host=limit)
        weigher = weighers.build(attribute=attribute, scale=2.0)
        cost = costs.build(attribute=attribute)
        assert weigher.share is not None
        assert cost.cost(hosts, query, hosts.all_rows).tolist() == counts
        assert cost.cost(hosts, query, few).tolist() == [counts[row] for row in few]
        mask = rule.keep(hosts, query, hosts.all_rows)
        raw, share = weigher.raw(hosts, query, rows), weigher.share(hosts, query, few)
        if not applies(request, attribute):
            assert (mask, raw, share) == (None, None, None)
            continue
        assert mask is not None
        assert raw is not None
        assert share is not None
        assert mask.tolist() == [count < limit for count in counts]
        assert raw.tolist() == counts
        assert share.tolist() == [counts[row] / (counts[row] + 2.0) for row in few]
        for row in np.flatnonzero(~mask).tolist():
            noun = "instance" if counts[row] == 1 else "instances"
            assert rule.why(hosts, query, row).startswith(f"it has {counts[row]} {noun} of the")


def place_all(fleet: Fleet, policy: Policy, count: int) -> list[str] | None:
    """Return the hosts of a request for several instances of a new tenant, or None if refused."""
    request = replace(fleet.request(count), project_id="p9", user_id="u9")
    plan = policy.driver.plan(fleet.hosts, request, policy, now_s=NOW_S, seed=1)
    return None if plan.refusal else [one.host for one in plan.placements]


@given(seed=st.integers(0, 2**63 - 1), count=st.integers(1, len(BOXES)))
def test_instances_of_one_request_are_similar(seed: int, count: int) -> None:
    """Instances that the same request has placed count, for every rule, and leave no trace."""
    fleet = Fleet(seed)
    before = fleet.hosts.residents.count({"project": "p9"}, fleet.hosts.all_rows).tolist()
    filtered = policy_of(filters=[filters.build()], weighers=[])
    weighed = policy_of(filters=[], weighers=[weighers.build(attribute="user")])
    costed = replace(weighed, driver=least_cost.build(), costs=(costs.build(),))
    for policy in (filtered, weighed, costed):
        placed = place_all(fleet, policy, count)
        assert placed is not None
        assert len(set(placed)) == count
    assert place_all(fleet, filtered, len(BOXES) + 1) is None
    after = fleet.hosts.residents.count({"project": "p9"}, fleet.hosts.all_rows).tolist()
    assert before == after == [0] * len(BOXES)


# The engine once left the first instance of a request out of the counts for the later ones.
@example(seed=4)
@given(seed=st.integers(0, 2**63 - 1))
def test_the_engine_plans_as_a_full_evaluation_does(seed: int) -> None:
    """With these rules, the engine's plans are those of a full evaluation, after any history."""
    world = World(seed, ("SimilarInstancesFilter",), ("SimilarInstancesWeigher", "RAMWeigher"))
    for _ in range(6):
        world.step()


def test_stacking_fills_one_host_first() -> None:
    """A multiplier above 0 stacks the instances of a request on one host."""
    fleet = Fleet(0)
    policy = policy_of(filters=[], weighers=[weighers.build(multiplier=1.0)])
    placed = place_all(fleet, policy, 5)
    assert placed is not None
    assert len(set(placed)) == 1


@pytest.mark.parametrize("attribute", ["name", "metadata.", "", "tenant"])
def test_an_unknown_attribute_is_refused(attribute: str) -> None:
    """An attribute that does not exist is refused with the ones that do."""
    for build in (filters.build, weighers.build, costs.build):
        with pytest.raises(ValueError, match="must be one of project, user, image, flavor, metada"):
            build(attribute=attribute)
