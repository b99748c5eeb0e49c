"""Zones in one process that reach each other without a network."""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from berth.domain.compute.instance import Instance
from berth.domain.compute.quota import Footprint
from berth.domain.compute.request import Request
from berth.domain.errors import UnavailableError
from berth.domain.ledger.write import QuotaCheck
from berth.domain.zones.offer import LapsedHoldAction
from berth.domain.zones.zone import RemoteInstance, Zone, ZoneInfo
from berth.domain.zones.zone_orders import (
    BuildItem,
    BuildOrder,
    BuildOutcome,
    Offers,
    ReleaseOrder,
    RemoteServer,
    SelectOrder,
    Withdrawal,
    ZoneCapacity,
)
from berth.ports.bus import Bus
from berth.ports.zones import NotAskedError
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.rules.rule import Normalisation
from berth.services.crypto.sealing import KEY_BYTES, Sealer
from berth.services.decisions.decisions import DecisionService, PolicyInForce
from berth.services.placement.placement import PlacementService
from berth.services.zoning.delegation.command_handlers import ZoneCommandHandlers
from berth.services.zoning.delegation.delegation import Delegator
from berth.services.zoning.delegation.offer_building import OfferBuilder
from berth.services.zoning.delegation.release import ReleaseHandler
from berth.services.zoning.delegation.sagas import SagaStore
from berth.services.zoning.delegation.tree_placement import TreePlacement, TreeSettings
from berth.services.zoning.delegation.withdrawal import WithdrawalWorker
from berth.services.zoning.messages.loop_tokens import LoopTokens
from berth.services.zoning.offers.child_orders import ChildOrders
from berth.services.zoning.offers.child_releases import ChildReleases
from berth.services.zoning.offers.dry_runs import TreeDryRuns
from berth.services.zoning.offers.group_homes import GroupHomes
from berth.services.zoning.offers.held_offers import HeldOffers
from berth.services.zoning.offers.hold_routing import HoldRouter, OfferReleaser
from berth.services.zoning.offers.host_offers import HostOfferMaker
from berth.services.zoning.offers.offer_seals import OfferSeals
from berth.services.zoning.offers.selection import OfferSelector
from berth.services.zoning.offers.tree_capacity import TreeCapacity
from berth.testing.builders import make_flavor
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.wiring import POLICY, Desk, Fleet, open_desk

HOLD_S = 10.0


class SharePolicy:
    """The policy of the tests, with scores that are comparable between zones."""

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return replace(POLICY, normalisation=Normalisation.SHARE)


class FixedKeys:
    """Keys that are kept in memory."""

    def __init__(self, *keys: bytes) -> None:
        self.newest_first: Sequence[bytes] = keys


class UnrenewedSagas(SagaStore):
    """A store that does not renew leases, because the tests' clock advances with every sleep."""

    async def keep_lease(self, request_id: str) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()


class StillClock(VirtualClock):
    """A clock on which no time passes."""

    async def sleep(self, seconds: float) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()


@dataclass
class ZoneServices:
    """One zone, or one scheduler of it, with the services that make it part of a tree.

    `children` are active, unless it `is_alone`; `near` reaches them. `holder` names the scheduler
    in offers, and `bus` reaches the others of the zone.
    """

    name: str
    desk: Desk
    near: "InProcessZones"
    children: list[Zone] = field(default_factory=list[Zone])
    on_gone: LapsedHoldAction = LapsedHoldAction.TAKE
    scheduler: str = "one"
    holder: bytes = b"schedule"
    bus: Bus | None = None
    is_alone: bool = False
    levels_max: int = 4
    limits: dict[str, Footprint] = field(default_factory=dict[str, Footprint])
    """The limits of projects in this zone."""
    gathers: bool = False
    """Whether releases to children are collected for the whole test."""
    down: list[Zone] = field(default_factory=list[Zone])
    """The children that are known to be down."""
    policies: PolicyInForce = field(default_factory=SharePolicy)

    def __post_init__(self) -> None:
        """Wire the services."""
        desk = self.desk
        bus = self.bus or desk.bus
        numbers = itertools.count(int.from_bytes(self.holder))

        def random_bytes(length: int) -> bytes:
            return next(numbers).to_bytes(length, "big")

        desk.decision_service = DecisionService(desk.replica, self.policies, desk.clock)
        desk.placer = PlacementService(
            ledger=desk.ledger,
            follower=desk.follower,
            replica=desk.replica,
            decision_service=desk.decision_service,
            clock=desk.clock,
        )
        self.keys = FixedKeys(self.name.encode().ljust(KEY_BYTES, b"\0"))
        sealer = Sealer(self.keys, random_bytes)
        self.seals = OfferSeals(self.name, sealer)
        homes = GroupHomes(desk.ledger, desk.replica)
        self.held = HeldOffers(desk.replica, share_max=1.0)
        self.offer_maker = HostOfferMaker(
            zone=self.name,
            replica=desk.replica,
            follower=desk.follower,
            decision_service=desk.decision_service,
            held=self.held,
            clock=desk.clock,
            random_bytes=random_bytes,
            hold_s=HOLD_S,
            life_s=60.0,
        )
        self.selector = OfferSelector(
            zone=self.name,
            local=self.offer_maker,
            zones=self,
            children=self.near,
            homes=homes,
            seals=self.seals,
            loop_tokens=LoopTokens(sealer),
            clock=desk.clock,
            telemetry=desk.told,
            scheduler=self.holder,
            child_releases=ChildReleases(
                zone=self.name,
                children=self.near,
                clock=StillClock() if self.gathers else desk.clock,
                telemetry=desk.told,
                pause_s=0.1 if self.gathers else 0.0,
            ),
        )
        self.capacity = TreeCapacity(
            zone=self.name,
            decision_service=desk.decision_service,
            orders=ChildOrders(
                zone=self.name,
                zones=self,
                loop_tokens=LoopTokens(sealer),
                clock=desk.clock,
                telemetry=desk.told,
            ),
            children=self.near,
            homes=homes,
            loop_tokens=LoopTokens(sealer),
            clock=desk.clock,
            levels_max=self.levels_max,
        )
        self.dry_runs = TreeDryRuns(
            zone=self.name,
            decision_service=desk.decision_service,
            selector=self.selector,
            homes=homes,
            name_of=self.name_of,
            clock=desk.clock,
            levels_max=self.levels_max,
        )
        self.delegator = Delegator(
            ledger=desk.ledger,
            zone_of=self.zone_of,
            children=self.near,
            clock=desk.clock,
            telemetry=desk.told,
            zone=self.name,
            timeout_s=30.0,
            limits=self.within,
        )
        self.builder = OfferBuilder(
            ledger=desk.ledger,
            replica=desk.replica,
            placer=desk.placer,
            held=self.held,
            seals=self.seals,
            homes=homes,
            delegator=self.delegator,
            clock=desk.clock,
            on_gone=self.on_gone,
            hold_router=HoldRouter(bus, self.holder),
            limits=self.within,
        )
        offer_releaser = OfferReleaser(self.selector, bus, desk.told)
        self.release_handler = ReleaseHandler(
            ledger=desk.ledger,
            selector=offer_releaser,
            instances=desk.instances,
            delegator=self.delegator,
            clock=desk.clock,
        )
        self.withdrawals = WithdrawalWorker(
            ledger=desk.ledger, delegator=self.delegator, clock=desk.clock, telemetry=desk.told
        )
        self.tree = TreePlacement(
            ledger=desk.ledger,
            replica=desk.replica,
            local=desk.placer,
            selector=self.selector,
            builder=self.builder,
            delegator=self.delegator,
            instances=desk.instances,
            zones=self,
            sagas=UnrenewedSagas(
                ledger=desk.ledger,
                clock=desk.clock,
                telemetry=desk.told,
                scheduler=self.scheduler,
                lease_s=30.0,
            ),
            clock=desk.clock,
            zone=self.name,
            settings=TreeSettings(levels_max=self.levels_max),
            on_withdrawing=self.withdrawals.note,
        )
        self.handlers = ZoneCommandHandlers(
            self.selector, self.builder, self.release_handler, offer_releaser, self.holder
        )
        self.near.houses[self.name] = self

    def within(self, project_id: str) -> QuotaCheck | None:
        """Return the quota check of a project, or None without limits."""
        limits = self.limits.get(project_id)
        return None if limits is None else QuotaCheck(project_id, limits)

    def active(self) -> Sequence[Zone]:
        """Return the children that may be asked."""
        return () if self.is_alone else [one for one in self.children if one not in self.down]

    def offline(self) -> Sequence[Zone]:
        """Return the children that are down."""
        return self.down

    def name_of(self, zone_id: int) -> str:
        """Return the name of a child."""
        zone = self.zone_of(zone_id)
        return "" if zone is None else zone.name

    def zone_of(self, zone_id: int) -> Zone | None:
        """Return a child by its id, or None."""
        return next((one for one in self.children if one.zone_id == zone_id), None)

    def adopt(self, *children: "ZoneServices") -> None:
        """Make other zones children of this one."""
        for child in children:
            number = len(self.children) + 1
            self.children.append(Zone(number, child.name, f"http://{child.name}"))

    def select_order(self, request: Request, *, audience: str = "client") -> SelectOrder:
        """Return an order for offers with a deadline in two seconds."""
        return SelectOrder(request, audience, self.desk.clock.now_s() + 2.0)


class InProcessZones:
    """Child zones in this process; implements the port `ChildZones`.

    Attributes:
        houses: the zones by name.
        away: names of zones that do not answer.
        silent: names of zones that carry out orders and whose answers are lost.
        asked: the calls, as (zone, verb).
    """

    def __init__(self) -> None:
        self.houses: dict[str, ZoneServices] = {}
        self.away: set[str] = set()
        self.silent: set[str] = set()
        self.asked: list[tuple[str, str]] = []

    async def info(self, zone: Zone, *, timeout_s: float) -> ZoneInfo:
        """Return the zone's name."""
        self._reach(zone, "info")
        return ZoneInfo(zone.name)

    async def select(self, zone: Zone, order: SelectOrder, *, timeout_s: float) -> Offers:
        """Pass the order to the zone's services."""
        offers = await self._reach(zone, "select").handlers.select(order)
        self._answer(zone)
        return offers

    async def capacity(self, zone: Zone, order: SelectOrder, *, timeout_s: float) -> ZoneCapacity:
        """Pass the order to the zone's services."""
        capacity = await self._reach(zone, "capacity").capacity.count_for_parent(order)
        self._answer(zone)
        return capacity

    async def build(
        self, zone: Zone, order: BuildOrder, *, timeout_s: float
    ) -> tuple[BuildOutcome, ...]:
        """Pass the order to the zone's services."""
        outcomes = await self._reach(zone, "build").builder.build(order)
        self._answer(zone)
        return outcomes

    async def release(self, zone: Zone, order: ReleaseOrder, *, timeout_s: float) -> frozenset[str]:
        """Pass the order to the zone's services."""
        kept = await self._reach(zone, "release").release_handler.release(order)
        self._answer(zone)
        return kept

    async def server(
        self, zone: Zone, remote: RemoteInstance, *, timeout_s: float
    ) -> RemoteServer | None:
        """Return the server from the zone or from the zones below it."""
        house = self._reach(zone, "server")
        self._answer(zone)
        found = await house.desk.ledger.get(Instance, remote.instance_uuid)
        if found is not None:
            size = found.flavor.vcpus, found.flavor.memory_mb
            return RemoteServer(size, is_resizing=False)
        further = await house.desk.ledger.get(RemoteInstance, remote.instance_uuid)
        for child in house.children:
            if further is not None and child.zone_id == further.zone_id:
                return await self.server(child, further, timeout_s=timeout_s)
        return None

    def _reach(self, zone: Zone, verb: str) -> ZoneServices:
        self.asked.append((zone.name, verb))
        if zone.name in self.away:
            raise NotAskedError(f"zone {zone.name} is away")
        return self.houses[zone.name]

    def _answer(self, zone: Zone) -> None:
        if zone.name in self.silent:
            raise UnavailableError(f"zone {zone.name}: the answer is lost")


async def open_zone_services(  # noqa: PLR0913 - each test sets a few of them
    name: str,
    near: InProcessZones,
    *,
    hosts: int = 2,
    vcpus: int = 4,
    gathers: bool = False,
    levels_max: int = 4,
    policies: PolicyInForce | None = None,
) -> ZoneServices:
    """Return a zone with some hosts."""
    desk = await open_desk(Fleet(hosts=hosts, vcpus=vcpus))
    policies = policies or SharePolicy()
    return ZoneServices(name, desk, near, gathers=gathers, levels_max=levels_max, policies=policies)


async def open_tree(*, gathers: bool = False, levels_max: int = 4) -> ZoneServices:
    """Return a root with two children, of which the second has a child of its own."""
    near = InProcessZones()
    root, west, east, deep = [
        await open_zone_services(
            name, near, hosts=hosts, vcpus=vcpus, gathers=gathers, levels_max=levels_max
        )
        for name, hosts, vcpus in (("root", 1, 2), ("west", 2, 4), ("east", 1, 8), ("deep", 3, 4))
    ]
    root.adopt(west, east)
    east.adopt(deep)
    return root


def request_of(count: int = 1, *, request_id: str = "req-1") -> Request:
    """Return a request for instances of one VCPU."""
    uuids = tuple(f"{number:08}-0000-4000-8000-000000000000" for number in range(count))
    return Request(request_id, uuids, make_flavor(), project_id="p", user_id="u")


def items_of(request: Request, blobs: Sequence[bytes]) -> tuple[BuildItem, ...]:
    """Return the build items for a request's instances, one for each blob."""
    return tuple(
        BuildItem(
            Instance(
                uuid=uuid,
                name=f"vm-{number}",
                project_id=request.project_id,
                user_id=request.user_id,
                request_id=request.request_id,
                reservation_id="r-00000001",
                flavor=request.flavor,
                launch_index=number,
            ),
            blob,
        )
        for number, (uuid, blob) in enumerate(zip(request.instance_uuids, blobs, strict=False))
    )


def build_order(
    request: Request, blobs: Sequence[bytes], *, audience: str = "client"
) -> BuildOrder:
    """Return the order to build a request from blobs."""
    return BuildOrder(request, audience, items_of(request, blobs))


def withdrawal(*uuids: str, sent_ms: int = 2**60, keeps_built: bool = False) -> ReleaseOrder:
    """Return the order that withdraws instances sent until `sent_ms`."""
    withdrawn = tuple(Withdrawal(uuid, sent_ms) for uuid in uuids)
    return ReleaseOrder("client", withdrawn=withdrawn, project_id="p", keeps_built=keeps_built)
