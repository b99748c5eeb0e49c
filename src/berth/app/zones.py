"""The zone parts of a process: keys, child zones, offers and delegation."""

import os
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from berth.adapters.zones import open_children
from berth.api.parts import ZoneParts
from berth.app.core import Core
from berth.app.run import Loop, make_folder
from berth.config.settings import Settings
from berth.config.zone_keys import ParentsFile, ZoneKeyFile
from berth.config.zone_settings import ZoneSettings
from berth.domain.ledger.write import QuotaCheck
from berth.ports.zones import ChildZones, ZoneForwarder
from berth.services.crypto.sealing import Sealer
from berth.services.requests.orders import Placer
from berth.services.requests.quotas import QuotaLimits
from berth.services.servers.instances import Instances
from berth.services.zoning.children.capabilities import CapabilityReport
from berth.services.zoning.children.zone_watch import WatchSettings, ZoneWatch
from berth.services.zoning.children.zones import Zones
from berth.services.zoning.delegation.command_handlers import ZoneCommandHandlers
from berth.services.zoning.delegation.delegation import Delegator
from berth.services.zoning.delegation.offer_building import OfferBuilder
from berth.services.zoning.delegation.release import ReleaseHandler
from berth.services.zoning.delegation.remote_usage import RemoteUsage
from berth.services.zoning.delegation.sagas import SagaStore
from berth.services.zoning.delegation.tree_placement import TreePlacement, TreeSettings
from berth.services.zoning.delegation.usage_recount import UsageRecount
from berth.services.zoning.delegation.withdrawal import WithdrawalWorker
from berth.services.zoning.messages.assertions import AssertionVerifier, AssertionWriter
from berth.services.zoning.messages.child_client import ChildClient
from berth.services.zoning.messages.loop_tokens import LoopTokens
from berth.services.zoning.messages.used_assertions import UsedAssertions
from berth.services.zoning.offers.child_orders import ChildOrders
from berth.services.zoning.offers.child_releases import ChildReleases
from berth.services.zoning.offers.dry_runs import TreeDryRuns
from berth.services.zoning.offers.group_homes import GroupHomes
from berth.services.zoning.offers.held_offers import HeldOffers
from berth.services.zoning.offers.hold_routing import HoldRouter, OfferReleaser
from berth.services.zoning.offers.host_offers import HostOfferMaker, incomparable_reason
from berth.services.zoning.offers.inquiry_limit import InquiryLimit
from berth.services.zoning.offers.offer_seals import OfferSeals
from berth.services.zoning.offers.selection import OfferSelector
from berth.services.zoning.offers.tree_capacity import TreeCapacity

_KEY_FILE = "zone-keys"
_PARENTS_FILE = "zone-parents"
_SCHEDULER_BYTES = 8
_RESEAL_S = 600.0
# Releases are collected for this many seconds, and then sent to each child zone in one request.
_RELEASE_PAUSE_S = 0.1
# The seconds of a saga's lease, after which another scheduler continues the saga of a dead one.
_LEASE_S = 30.0


@dataclass(frozen=True, slots=True)
class ZoneContext:
    """The zone parts of a process.

    `forwards` sends clients' requests to child zones, and `children` sends this zone's own requests
    to child zones.
    """

    settings: ZoneSettings
    keys: ZoneKeyFile
    parents: ParentsFile
    zones: Zones
    forwards: ZoneForwarder
    children: ChildZones
    watch: ZoneWatch


@asynccontextmanager
async def open_zone(core: Core) -> AsyncGenerator[ZoneContext | None]:
    """Open a process's zone parts before its follower starts; yield None if `zones.name` is unset.

    Raises:
        InvalidInputError: a file of keys or certificates is invalid, or the data folder cannot be
            created.
    """
    settings = core.settings.zones
    if not settings.is_on:
        yield None
        return
    # The files are read here, so that an invalid one stops the start instead of each request.
    keys = ZoneKeyFile(key_file_of(core.settings), core.clock, core.telemetry)
    parents = ParentsFile(parents_file_of(core.settings), core.clock, core.telemetry)
    zones = Zones(core.ledger, Sealer(keys.passwords, os.urandom), settings.name)
    writer = AssertionWriter(settings.name, keys, core.clock.now_s, os.urandom)
    async with open_children(
        writer, password_of=zones.password, ca_file=settings.ca_file
    ) as forwards:
        children = ChildClient(forwards, core.clock)
        watch = ZoneWatch(
            children=children,
            clock=core.clock,
            telemetry=core.telemetry,
            rng=random.Random(),  # noqa: S311 - it only spreads the polls of zones over time
            settings=WatchSettings(
                interval_s=settings.poll_interval_s,
                timeout_s=settings.poll_timeout_s,
                failures_to_offline=settings.failures_to_offline,
                pause_max_s=settings.poll_pause_max_s,
            ),
        )
        # The feed delivers the child zones, so a zone added through the API is polled immediately.
        core.follower.subscribers.append(watch)
        core.health.further.append(watch.read)
        yield ZoneContext(settings, keys, parents, zones, forwards, children, watch)


def zone_loops(zone: ZoneContext | None) -> list[Loop]:
    """Return the background loops that every process of a zone runs; none if there is no zone."""
    return [] if zone is None else [("zones", zone.watch.run)]


def key_file_of(settings: Settings) -> Path:
    """Return the path of the zone's private keys.

    Raises:
        InvalidInputError: no path is configured, and the data folder cannot be created.
    """
    if settings.zones.key_file is not None:
        return settings.zones.key_file
    make_folder(settings.ledger.data_dir)
    return settings.ledger.data_dir / _KEY_FILE


def parents_file_of(settings: Settings) -> Path:
    """Return the path of the public keys of the zone's parents."""
    return settings.zones.parents_file or settings.ledger.data_dir / _PARENTS_FILE


def zone_parts(core: Core, zone: ZoneContext | None) -> ZoneParts | None:
    """Return the parts that the API's routes for other zones use; None if there is no zone.

    Raises:
        InvalidInputError: the settings publish a host value whose name is malformed.
    """
    if zone is None:
        return None
    settings = zone.settings
    homes = GroupHomes(core.ledger, core.replica)
    loop_tokens = LoopTokens(Sealer(zone.keys.offers, os.urandom))
    return ZoneParts(
        name=settings.name,
        zones=zone.zones,
        watch=zone.watch,
        info=CapabilityReport(
            name=settings.name,
            capabilities=settings.values_by_name,
            told=settings.told_capabilities,
            replica=core.replica,
            clock=core.clock,
            stale_s=core.policies.policy.service_down_time_s,
        ),
        assertions=AssertionVerifier(settings.name, zone.parents.trusted, core.clock.now_s),
        used_assertions=UsedAssertions(core.ledger),
        loop_tokens=loop_tokens,
        children=zone.forwards,
        counting=RemoteUsage(
            core.ledger, core.clock, asking_s=settings.build_timeout_s, limits=_limits(core)
        ),
        capacity=TreeCapacity(
            zone=settings.name,
            decision_service=core.decision_service,
            orders=ChildOrders(
                zone=settings.name,
                zones=zone.watch,
                loop_tokens=loop_tokens,
                clock=core.clock,
                telemetry=core.telemetry,
            ),
            children=zone.children,
            homes=homes,
            loop_tokens=loop_tokens,
            clock=core.clock,
            select_s=settings.select_timeout_s,
            levels_max=settings.levels_max,
        ),
        dry_runs=_dry_runs(core, zone, homes),
        inquiry_limit=InquiryLimit(),
        select_timeout_s=settings.select_timeout_s,
        build_timeout_s=settings.build_timeout_s,
    )


def _dry_runs(core: Core, zone: ZoneContext, homes: GroupHomes) -> TreeDryRuns:
    # Only dry runs use the API's selector, so its offers hold no capacity. Schedulers make the
    # offers for parents.
    held = HeldOffers(core.replica)
    selector = _selector(core, zone, homes, held, os.urandom(_SCHEDULER_BYTES), hold_s=0.0)

    def name_of(zone_id: int) -> str:
        child = zone.watch.zone_of(zone_id)
        return f"zone {zone_id}" if child is None else child.name

    return TreeDryRuns(
        zone=zone.settings.name,
        decision_service=core.decision_service,
        selector=selector,
        homes=homes,
        name_of=name_of,
        clock=core.clock,
        select_s=zone.settings.select_timeout_s,
        levels_max=zone.settings.levels_max,
    )


def _selector(
    core: Core,
    zone: ZoneContext,
    homes: GroupHomes,
    held: HeldOffers,
    scheduler: bytes,
    *,
    hold_s: float,
) -> OfferSelector:
    """Return the selector of a process.

    Its offers name `scheduler` as their maker, and hold their capacity for `hold_s` seconds.
    """
    # Offers and loop tokens share the zone's offer keys, but are sealed for different purposes.
    sealer = Sealer(zone.keys.offers, os.urandom)
    offer_maker = HostOfferMaker(
        zone=zone.settings.name,
        replica=core.replica,
        follower=core.follower,
        decision_service=core.decision_service,
        held=held,
        clock=core.clock,
        random_bytes=os.urandom,
        hold_s=hold_s,
        life_s=zone.settings.offer_life_s,
    )
    return OfferSelector(
        zone=zone.settings.name,
        local=offer_maker,
        zones=zone.watch,
        children=zone.children,
        homes=homes,
        seals=OfferSeals(zone.settings.name, sealer),
        loop_tokens=LoopTokens(sealer),
        clock=core.clock,
        telemetry=core.telemetry,
        scheduler=scheduler,
        child_releases=ChildReleases(
            zone=zone.settings.name,
            children=zone.children,
            clock=core.clock,
            telemetry=core.telemetry,
            pause_s=_RELEASE_PAUSE_S,
        ),
    )


class ZoneScheduler:
    """The scheduler's part in a zone: placement over the tree of zones, and service to parents.

    Args:
        core: the parts of the process.
        zone: the zone's parts in the process.
        name: the scheduler's unique name.
        local: places requests on this zone's own hosts.
        claims: places instances on the hosts of the offers that a parent accepts.
    """

    def __init__(
        self, core: Core, zone: ZoneContext, *, name: str, local: Placer, claims: Placer
    ) -> None:
        self._core = core
        self._zone = zone
        # The parts that make offers and those that claim them share one set of held offers, so that
        # all count the same holds.
        self._held = HeldOffers(core.replica, share_max=zone.settings.held_share_max)
        self._homes = GroupHomes(core.ledger, core.replica)
        self._seals = OfferSeals(zone.settings.name, Sealer(zone.keys.offers, os.urandom))
        self._scheduler = os.urandom(_SCHEDULER_BYTES)
        self._limits = _limits(core)
        self._name = name
        self._instances = Instances(
            ledger=core.ledger,
            follower=core.follower,
            replica=core.replica,
            bus=core.messaging.bus,
            clock=core.clock,
        )
        self._delegator = self._make_delegator()
        self._withdrawals = WithdrawalWorker(
            ledger=core.ledger,
            delegator=self._delegator,
            clock=core.clock,
            telemetry=core.telemetry,
        )
        self._recounting = UsageRecount(
            ledger=core.ledger,
            zone_of=zone.watch.zone_of,
            children=zone.children,
            clock=core.clock,
            telemetry=core.telemetry,
            timeout_s=zone.settings.build_timeout_s,
        )
        self._selector = _selector(
            core,
            zone,
            self._homes,
            self._held,
            self._scheduler,
            hold_s=zone.settings.offer_hold_s,
        )
        self._builder = self._make_builder(claims)
        self.places: Placer = self._make_tree(local)
        self.withdrawn = self._withdrawals.note

    def serve(self) -> list[Loop]:
        """Serve the zone's commands on the bus; return the scheduler's background loops."""
        core = self._core
        core.health.further += [self._held.read, self._withdrawals.read]
        offer_releaser = OfferReleaser(self._selector, core.messaging.bus, core.telemetry)
        release_handler = ReleaseHandler(
            ledger=core.ledger,
            selector=offer_releaser,
            instances=self._instances,
            delegator=self._delegator,
            clock=core.clock,
        )
        handlers = ZoneCommandHandlers(
            self._selector, self._builder, release_handler, offer_releaser, self._scheduler
        )
        handlers.serve(core.messaging.bus)
        loops: list[Loop] = [
            ("comparing", self._compare),
            ("taking_back", self._withdrawals.run),
            ("recounting", self._recounting.run),
            ("passwords", self._reseal),
        ]
        # If the hold time is 0, no offer is held, so no hold has to be ended.
        if self._zone.settings.offer_hold_s:
            loops.append(("holds", self._end_holds))
        return loops

    async def _compare(self) -> None:
        """Log an event for each new policy whose scores other zones cannot compare with theirs."""
        core, seen = self._core, None
        while True:
            policy = core.policies.policy
            why = None if policy is seen else incomparable_reason(policy)
            if why is not None:
                core.telemetry.event("zone_weights_incomparable", policy=policy.name, why=why)
            seen = policy
            await core.clock.sleep(core.settings.policy.watch_interval_s)

    async def _end_holds(self) -> None:
        await self._held.run(self._core.clock, self._zone.settings.offer_hold_s)

    async def _reseal(self) -> None:
        """Seal the passwords of child zones anew, whenever there is a newer key."""
        while True:
            count = await self._zone.zones.reseal()
            if count:
                self._core.telemetry.event("zone_passwords_resealed", passwords=count)
            await self._core.clock.sleep(_RESEAL_S)

    def _make_delegator(self) -> Delegator:
        core, zone = self._core, self._zone
        return Delegator(
            ledger=core.ledger,
            zone_of=zone.watch.zone_of,
            children=zone.children,
            clock=core.clock,
            telemetry=core.telemetry,
            zone=zone.settings.name,
            timeout_s=zone.settings.build_timeout_s,
            limits=self._limits,
        )

    def _make_builder(self, claims: Placer) -> OfferBuilder:
        core = self._core
        return OfferBuilder(
            ledger=core.ledger,
            replica=core.replica,
            placer=claims,
            held=self._held,
            seals=self._seals,
            homes=self._homes,
            delegator=self._delegator,
            clock=core.clock,
            on_gone=self._zone.settings.on_gone,
            hold_router=HoldRouter(core.messaging.bus, self._scheduler),
            limits=self._limits,
        )

    def _make_tree(self, local: Placer) -> TreePlacement:
        core, zone = self._core, self._zone
        settings = zone.settings
        return TreePlacement(
            ledger=core.ledger,
            replica=core.replica,
            local=local,
            selector=self._selector,
            builder=self._builder,
            delegator=self._delegator,
            instances=self._instances,
            zones=zone.watch,
            sagas=SagaStore(
                ledger=core.ledger,
                clock=core.clock,
                telemetry=core.telemetry,
                scheduler=self._name,
                lease_s=_LEASE_S,
            ),
            clock=core.clock,
            zone=settings.name,
            settings=TreeSettings(
                select_s=settings.select_timeout_s,
                attempts_max=settings.attempts_max,
                settle_s=settings.settle_s,
                levels_max=settings.levels_max,
            ),
            on_withdrawing=self._withdrawals.note,
        )


def _limits(core: Core) -> Callable[[str], QuotaCheck | None]:
    return QuotaLimits(core.replica, core.settings.quota.limits).within
