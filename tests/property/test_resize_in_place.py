"""The law of resizes in place: a server counts once, and claims both flavors until the end."""

from dataclasses import replace
from random import Random

from hypothesis import event, given
from hypothesis import strategies as st

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration, Place, Stage
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.ledger.change import Usage
from berth.scheduling.filters import below_host_limits, similar_instances
from berth.scheduling.plan.capacity import capacity_for
from berth.tables.host.feed import apply_event, table_of
from berth.tables.host.hosts import HostTable
from berth.testing.builders import make_migration
from berth.testing.fleets import (
    NOW_S,
    Box,
    all_filters,
    asking,
    policy_of,
    resident,
    sized,
    snapshot_of,
)

FLAVORS = [Flavor(f"f{n}", f"f{n}", n, 512 * n, n) for n in (1, 2, 3)]
GROUPS = [
    ServerGroup("g-apart", "apart", GroupPolicy.ANTI_AFFINITY, max_server_per_host=2),
    ServerGroup("g-together", "together", GroupPolicy.AFFINITY),
]
POLICY = policy_of(
    filters=(
        *all_filters(),
        below_host_limits.build_num_instances(max_instances_per_host=4),
        similar_instances.build(max_similar_instances_per_host=3),
    )
)


class World:
    """Servers on hosts, some of them resized in place, and a table that follows their changes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.boxes = [
            Box(name, inventories=sized(self.random.randint(4, 12), 8192, 50))
            for name in ("a", "b", "c")[: self.random.randint(1, 3)]
        ]
        self.servers: dict[str, Instance] = {}
        self.moves: dict[str, Migration] = {}
        self.hosts = table_of(snapshot_of(self.boxes, groups=GROUPS))

    def step(self) -> str:
        """Create or delete a server, or begin or end a resize of one; return what was done."""
        draw = self.random
        uuid = f"vm-{draw.randrange(6)}"
        server, move = self.servers.get(uuid), self.moves.get(uuid)
        if server is None:
            self._create(uuid)
            return "create"
        if move is None:
            self._resize(server)
            return "resize"
        return self._end(server, move, confirms=draw.random() < 0.5)

    def _create(self, uuid: str) -> None:
        draw = self.random
        self._put(
            replace(
                resident(uuid, draw.choice(self.boxes)),
                flavor=draw.choice(FLAVORS),
                group_uuid=draw.choice((None, "g-apart", "g-together")),
                project_id=draw.choice(("p1", "p2")),
            )
        )

    def _resize(self, server: Instance) -> None:
        here = Place(server.host or "", server.node or "", server.flavor)
        target = replace(here, flavor=self.random.choice(FLAVORS))
        move = replace(
            make_migration(1),
            uuid=f"move-{server.uuid}",
            instance_uuid=server.uuid,
            stage=self.random.choice((Stage.LEAVING, Stage.ARRIVING)),
            source=here,
            destination=target,
            project_id=server.project_id,
            user_id=server.user_id,
            group_uuid=server.group_uuid,
        )
        self.moves[server.uuid] = move
        apply_event(self.hosts, move)
        self._use(server)
        if self.random.random() < 0.7:
            # The guest has its new flavor; the move holds the former one until it is confirmed.
            move = replace(move, stage=Stage.ARRIVED)
            self.moves[server.uuid] = move
            apply_event(self.hosts, move)
            self._put(replace(server, flavor=target.flavor))

    def _end(self, server: Instance, move: Migration, *, confirms: bool) -> str:
        del self.moves[server.uuid]
        stage = Stage.CONFIRMED if confirms else Stage.REVERTED
        apply_event(self.hosts, replace(move, stage=stage))
        place = move.destination if confirms else move.source
        self._put(replace(server, flavor=place.flavor))
        return str(stage)

    def _put(self, server: Instance) -> None:
        self.servers[server.uuid] = server
        apply_event(self.hosts, server)
        self._use(server)

    def _use(self, server: Instance) -> None:
        box = next(one for one in self.boxes if one.name == server.host)
        apply_event(self.hosts, Usage(box.providers[0].uuid, self.used_on(box)))

    def used_on(self, box: Box) -> dict[str, int]:
        """Return what the servers on a host claim; a resize claims both flavors."""
        used = dict.fromkeys(box.inventories, 0)
        for server in self.servers.values():
            move = self.moves.get(server.uuid)
            held = (
                [server.flavor] if move is None else [move.source.flavor, move.destination.flavor]
            )
            for flavor in held if server.host == box.name else ():
                for name, amount in asking(flavor).needs.amounts.items():
                    used[name] += amount
        return used

    def reference(self) -> HostTable:
        """Return a new table of the same servers and amounts, in which no server is resized."""
        boxes = [replace(box, used=self.used_on(box)) for box in self.boxes]
        return table_of(snapshot_of(boxes, groups=GROUPS, instances=tuple(self.servers.values())))


@given(seed=st.integers(0, 2**63 - 1), steps=st.integers(1, 12))
def test_a_server_that_is_resized_in_place_counts_once(seed: int, steps: int) -> None:
    """Capacity is that of servers without a resize and of both claims, during it and after it."""
    world = World(seed)
    for _ in range(steps):
        event(world.step())
        plain = world.reference()
        assert world.hosts.num_instances.tolist() == plain.num_instances.tolist()
        group = world.random.choice((None, "g-apart", "g-together"))
        request = asking(world.random.choice(FLAVORS))
        request = replace(request, group_uuid=group, project_id="p1")
        found = capacity_for(world.hosts, request, POLICY, now_s=NOW_S)
        expected = capacity_for(plain, request, POLICY, now_s=NOW_S)
        assert found.rows.tolist() == expected.rows.tolist()
        assert found.counts.tolist() == expected.counts.tolist()
        assert found.on_one_host == expected.on_one_host
    assert world.hosts.num_instances[world.hosts.all_rows].sum() == len(world.servers)
