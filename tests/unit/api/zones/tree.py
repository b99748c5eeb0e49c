"""Zones with an API each, which call one another in this process."""

import itertools
from dataclasses import dataclass, field, replace
from random import Random
from typing import cast

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from berth.api.auth.authentication import Auth
from berth.api.limits import RequestLimits
from berth.api.parts import ZoneParts
from berth.domain.errors import UnavailableError
from berth.domain.zones.zone import Zone
from berth.ports.zones import STATEMENT_HEADER, ForwardedRequest, ForwardedResponse, NotAskedError
from berth.services.crypto.sealing import KEY_BYTES, Sealer
from berth.services.requests.orders import PLACE
from berth.services.requests.quotas import QuotaLimits
from berth.services.zoning.children.capabilities import CapabilityReport
from berth.services.zoning.children.zone_watch import WatchSettings, ZoneWatch
from berth.services.zoning.children.zones import Zones
from berth.services.zoning.delegation.remote_usage import RemoteUsage
from berth.services.zoning.messages.assertions import (
    AssertedRequest,
    AssertionVerifier,
    AssertionWriter,
)
from berth.services.zoning.messages.child_client import ChildClient
from berth.services.zoning.messages.loop_tokens import LoopTokens
from berth.services.zoning.messages.used_assertions import UsedAssertions
from berth.services.zoning.offers.inquiry_limit import InquiryLimit
from tests.unit.api.cloud import Answer, FakeClock, Stack
from tests.unit.services.wiring import Desk
from tests.unit.services.zoning.zone_harness import FixedKeys, InProcessZones, ZoneServices

TENANT = ("p", "u")
"""The project and the user of most requests."""


@dataclass
class Seen:
    """A request between zones: the zone asked, the request, the tenant and the assertion."""

    zone: str
    asked: ForwardedRequest
    project_id: str
    user_id: str
    statement: str


@dataclass
class Net:
    """A network of zones.

    Attributes:
        away: zones that do not answer.
        lies: responses that replace those of zones, by zone and method.
        seen: the requests between zones, oldest first.
        timeouts: the timeout of each request, also to zones that are away.
    """

    clock: FakeClock = field(default_factory=FakeClock)
    zones: dict[str, "ZoneStack"] = field(default_factory=dict[str, "ZoneStack"])
    away: set[str] = field(default_factory=set[str])
    lies: dict[tuple[str, str], ForwardedResponse] = field(
        default_factory=dict[tuple[str, str], ForwardedResponse]
    )
    seen: list[Seen] = field(default_factory=list[Seen])
    timeouts: list[float] = field(default_factory=list[float])


class NearChildren:
    """Sends requests to zones in this process; see the port `ForwardsToZones`."""

    def __init__(self, net: Net, writer: AssertionWriter, parent: str) -> None:
        self._net = net
        self._writer = writer
        self._parent = parent

    async def forward(
        self,
        zone: Zone,
        asked: ForwardedRequest,
        *,
        project_id: str,
        user_id: str,
        timeout_s: float,
    ) -> ForwardedResponse:
        """Send a request to the zone's API with the parent's account and assertion."""
        net = self._net
        net.timeouts.append(timeout_s)
        if zone.name in net.away:
            raise NotAskedError(f"zone {zone.name} is away")
        statement = self._writer.write(zone.name, asked, project_id=project_id, user_id=user_id)
        net.seen.append(Seen(zone.name, asked, project_id, user_id, statement))
        lie = net.lies.get((zone.name, asked.method))
        if lie is not None:
            if len(lie.body) > asked.answer_bytes_max:
                raise UnavailableError("the answer is too long")
            return lie
        headers = {**asked.headers, STATEMENT_HEADER: statement, "X-Auth-Token": self._parent}
        transport = httpx.ASGITransport(net.zones[zone.name].app)
        async with httpx.AsyncClient(transport=transport, base_url=zone.api_url) as client:
            got = await client.request(
                asked.method, asked.path, headers=headers, content=asked.body
            )
        return ForwardedResponse(got.status_code, dict(got.headers), got.content)


class NearAsking(ChildClient):
    """The real client for children, with the attribute that test services need."""

    houses: dict[str, ZoneServices]


class ZoneStack(Stack):
    """A stack that is a zone: API, scheduler, and the services for a tree of zones."""

    def __init__(
        self,
        net: Net,
        name: str,
        *,
        number: int,
        parents: tuple[str, ...] = (),
        auth: Auth | None = None,
        limits: RequestLimits | None = None,
    ) -> None:
        super().__init__(clock=net.clock, auth=auth, limits=limits)
        self.net, self.name = net, name
        net.zones[name] = self
        self.key = key_of(name)
        numbers = itertools.count(number * 1_000_000)

        def random_bytes(length: int) -> bytes:
            return next(numbers).to_bytes(length, "big")

        self.writer = AssertionWriter(name, self.key, self.clock.now_s, random_bytes)
        self.children = NearChildren(net, self.writer, name)
        asking = NearAsking(self.children, self.clock)
        asking.houses = {}
        self.asking = asking
        self.instances = self.parts.instances
        self.house = ZoneServices(name, cast("Desk", self), cast("InProcessZones", asking))
        sealer = Sealer(FixedKeys(name.encode().ljust(KEY_BYTES, b"\1")), random_bytes)
        self.zones = Zones(self.ledger, sealer, name)
        self.watch = ZoneWatch(
            children=asking,
            clock=self.clock,
            telemetry=self.told,
            rng=Random(1),
            settings=WatchSettings(),
        )
        self.follower.subscribers.append(self.watch)
        trusted = {parent: (key_of(parent).public_key(),) for parent in parents}
        self.zone_parts = ZoneParts(
            name=name,
            zones=self.zones,
            watch=self.watch,
            info=CapabilityReport(
                name=name,
                capabilities={"hypervisor": ("kvm",)},
                told=("free.VCPU",),
                replica=self.replica,
                clock=self.clock,
            ),
            assertions=AssertionVerifier(name, lambda: trusted, self.clock.now_s),
            used_assertions=UsedAssertions(self.ledger),
            loop_tokens=LoopTokens(sealer),
            children=self.children,
            counting=RemoteUsage(
                self.ledger, self.clock, asking_s=30.0, limits=QuotaLimits(self.replica).within
            ),
            capacity=self.house.capacity,
            dry_runs=self.house.dry_runs,
            inquiry_limit=InquiryLimit(),
            select_timeout_s=2.0,
            build_timeout_s=30.0,
        )
        self.parts = replace(self.parts, zones=self.zone_parts)
        self.stop_placing()
        self.bus.serve(PLACE, self.house.tree.place)
        self.house.handlers.serve(self.bus)

    async def adopt(self, *children: "ZoneStack") -> None:
        """Make other zones children of this one and wait until it knows them."""
        for child in children:
            zone = {"name": child.name, "api_url": f"http://{child.name}.test:8774"}
            answer = await self.ask("POST", "/zones", {"zone": zone})
            assert answer.status == 201, answer.body
        await self.follower.catch_up()
        self.house.children = list(self.watch.active())

    async def stated(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        parent: str = "root",
        tenant: tuple[str, str] = TENANT,
    ) -> Answer:
        """Send a request as a parent does, with an assertion for just this request."""
        statement = self.statement(method, path, body, parent=parent, tenant=tenant)
        headers = {STATEMENT_HEADER: statement}
        return await self.ask(method, path, body or None, token="root", headers=headers)

    def statement(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        parent: str = "root",
        tenant: tuple[str, str] = TENANT,
    ) -> str:
        """Return a parent's assertion for a request to this zone."""
        asked = AssertedRequest(method, path, body)
        writer = AssertionWriter(parent, key_of(parent), self.clock.now_s, _fresh)
        project_id, user_id = tenant
        return writer.write(self.name, asked, project_id=project_id, user_id=user_id)


_NUMBERS = itertools.count(1)


def _fresh(length: int) -> bytes:
    return next(_NUMBERS).to_bytes(length, "big")


def key_of(name: str) -> Ed25519PrivateKey:
    """Return the private key of a zone."""
    return Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32, b"\0"))


async def open_ring(*names: str) -> Net:
    """Return zones of one host each that are all children of one another."""
    net = Net()
    zones = [
        ZoneStack(net, name, number=number, parents=tuple(one for one in names if one != name))
        for number, name in enumerate(names, start=1)
    ]
    for zone in zones:
        await zone.start(1)
        await zone.flavor()
    for zone in zones:
        await zone.adopt(*(one for one in zones if one is not zone))
    return net


async def open_tree() -> Net:
    """Return a tree: root over west and east, and east over deep; root and east have no hosts."""
    net = Net()
    root = ZoneStack(net, "root", number=1)
    west = ZoneStack(net, "west", number=2, parents=("root",))
    east = ZoneStack(net, "east", number=3, parents=("root",))
    deep = ZoneStack(net, "deep", number=4, parents=("east",))
    for zone, hosts in ((root, 0), (west, 1), (east, 0), (deep, 2)):
        await zone.start(hosts)
        await zone.flavor()
    await east.adopt(deep)
    await root.adopt(west, east)
    return net
