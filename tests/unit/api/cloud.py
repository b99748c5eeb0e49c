"""The complete API on a memory ledger: real services, a scheduler on the local bus, no agents."""

import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import httpx
from starlette.types import ASGIApp

from berth.adapters.bus.local import LocalBus
from berth.adapters.ledger.memory import MemoryLedger
from berth.api.app import ApiParts, build_app
from berth.api.auth.authentication import Auth, NoAuth
from berth.api.limits import RequestLimits
from berth.config.policy_source import PolicySource
from berth.domain.compute.flavor import Image
from berth.domain.compute.host import Host
from berth.domain.compute.instance import Instance, Status
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory, StandardNames
from berth.domain.ledger.write import Put
from berth.ports.ledger import Ledger
from berth.ports.virt import HostReport
from berth.services.crypto.passwords import new_password
from berth.services.decisions.decisions import DecisionService
from berth.services.fleet.aggregates import Aggregates
from berth.services.fleet.allocation_ratios import AllocationRatios
from berth.services.fleet.hosts import Hosts
from berth.services.gateway.identities import HostIdentities
from berth.services.placement.placement import PlacementService
from berth.services.replica.follower import Follower, Subscriber
from berth.services.replica.liveness import Liveness
from berth.services.replica.provider_replica import ProviderReplica
from berth.services.replica.replica import Replica
from berth.services.requests.orders import PLACE
from berth.services.requests.quotas import CreateDefaults, QuotaLimits, Quotas
from berth.services.servers.flavors import Flavors
from berth.services.servers.instances import Instances
from berth.services.servers.key_pairs import KeyPairs
from berth.services.servers.operations import Operations
from berth.services.servers.server_groups import ServerGroups
from berth.services.servers.server_images import ServerImages
from berth.testing.builders import make_uuid

NOW_S = 1_800_000_000.0

Json = dict[str, Any]

_POLICIES = PolicySource(None, now_s=lambda: NOW_S)
"""The default policy, which never changes; to read it takes a third of the time of a stack."""


class FakeClock:
    """A clock that advances only when told to."""

    def __init__(self) -> None:
        self.seconds = NOW_S

    def now_s(self) -> float:
        """Return Unix time in seconds."""
        return self.seconds

    def ticks_ns(self) -> int:
        """Return a monotonic count of nanoseconds."""
        return int((self.seconds - NOW_S) * 1e9)

    async def sleep(self, seconds: float) -> None:
        """Advance the clock by this time."""
        self.seconds += seconds


class CountedIds:
    """Identifiers that count up."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def uuid(self) -> str:
        """Return the next uuid."""
        return f"00000000-0000-4000-8000-{next(self._numbers):012d}"

    def request_id(self) -> str:
        """Return the next request id."""
        return f"req-{self.uuid()}"


@dataclass
class Told:
    """Telemetry that records events and failures."""

    events: list[str] = field(default_factory=list)
    failures: list[tuple[str, BaseException, Mapping[str, object]]] = field(default_factory=list)

    def event(self, name: str, **fields: object) -> None:
        """Record an event."""
        self.events.append(name)

    def warning(self, name: str, **fields: object) -> None:
        """Record an event."""
        self.events.append(name)

    def failure(self, name: str, error: BaseException, **fields: object) -> None:
        """Record a failure."""
        self.failures.append((name, error, fields))


@dataclass
class Answer:
    """The answer to a request."""

    status: int
    headers: httpx.Headers
    body: Any


class Stack:
    """A deployment with an API that tests can call in one line."""

    def __init__(
        self,
        *,
        auth: Auth | None = None,
        images: Mapping[str, Image] | None = None,
        limits: RequestLimits | None = None,
        ledger: Ledger | None = None,
        has_providers: bool = True,
        clock: FakeClock | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.told = Told()
        self.ledger: Ledger = ledger or MemoryLedger(now_s=self.clock.now_s)
        self.replica = Replica()
        self.providers = ProviderReplica(StandardNames((VCPU, MEMORY_MB, DISK_GB), ()))
        self.identities = HostIdentities(self.ledger, self.clock, os.urandom)
        subscribers: list[Subscriber] = [self.replica, self.providers, self.identities]
        self.follower = Follower(self.ledger, self.clock, subscribers)
        self.policies = _POLICIES
        self.bus = LocalBus(self.told)
        ids = CountedIds()
        decision_service = DecisionService(self.replica, self.policies, self.clock)
        self.hosts = Hosts(
            ledger=self.ledger,
            follower=self.follower,
            replica=self.replica,
            ratios=AllocationRatios(ledger=self.ledger, replica=self.replica),
            clock=self.clock,
            ids=ids,
        )
        self.liveness = Liveness(
            self.ledger, self.replica, self.clock, self.told, make_uuid("gateway", 1)
        )
        self.placer = PlacementService(
            ledger=self.ledger,
            follower=self.follower,
            replica=self.replica,
            decision_service=decision_service,
            clock=self.clock,
            liveness=self.liveness,
        )
        self.stop_placing = self.bus.serve(PLACE, self.placer.place)
        quota_limits = QuotaLimits(self.replica)
        self.parts = ApiParts(
            instances=Instances(
                ledger=self.ledger,
                follower=self.follower,
                replica=self.replica,
                bus=self.bus,
                clock=self.clock,
                terms=CreateDefaults(quota_limits=quota_limits),
            ),
            bus=self.bus,
            operations=Operations(
                ledger=self.ledger,
                replica=self.replica,
                clock=self.clock,
                quota_limits=quota_limits,
                liveness=self.liveness,
            ),
            flavors=Flavors(self.ledger),
            aggregates=Aggregates(
                ledger=self.ledger,
                follower=self.follower,
                replica=self.replica,
                ratios=AllocationRatios(ledger=self.ledger, replica=self.replica),
                clock=self.clock,
                ids=ids,
            ),
            server_groups=ServerGroups(self.ledger, quota_limits),
            server_images=ServerImages(
                ledger=self.ledger,
                follower=self.follower,
                replica=self.replica,
                clock=self.clock,
                quota_limits=quota_limits,
            ),
            key_pairs=KeyPairs(ledger=self.ledger, clock=self.clock, quota_limits=quota_limits),
            quotas=Quotas(ledger=self.ledger, follower=self.follower, quota_limits=quota_limits),
            hosts=self.hosts,
            decision_service=decision_service,
            follower=self.follower,
            replica=self.replica,
            liveness=self.liveness,
            ledger=self.ledger,
            policies=self.policies,
            auth=auth or NoAuth(),
            clock=self.clock,
            ids=ids,
            telemetry=self.told,
            providers=self.providers if has_providers else None,
            identities=self.identities,
            images=images or {},
            limits=limits or RequestLimits(),
            new_password=partial(new_password, os.urandom),
        )
        self._app: ASGIApp | None = None

    @property
    def app(self) -> ASGIApp:
        """The application, built when it is first asked, so that `parts` can be replaced before."""
        if self._app is None:
            self._app = build_app(self.parts)
        return self._app

    @app.setter
    def app(self, app: ASGIApp) -> None:
        self._app = app

    async def start(self, hosts: int = 3) -> None:
        """Register hosts `host-0`, `host-1`, ... of 16 VCPU, 64 GiB and 1000 GB."""
        await self.hosts.register([report(index) for index in range(hosts)])
        await self.follower.start()

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        version: str | None = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request and return its answer."""
        sent = dict(headers or {})
        if version is not None:
            sent["OpenStack-API-Version"] = f"compute {version}"
        if token is not None:
            sent["X-Auth-Token"] = token
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://berth.test") as client:
            content: Json = {} if body is None else {"json": body}
            if isinstance(body, bytes):
                content = {"content": body}
            got = await client.request(method, path, headers=sent, **content)
        return Answer(got.status_code, got.headers, got.json() if got.content else None)

    async def flavor(self, flavor_id: str = "small", **values: object) -> Json:
        """Create a flavor, by default with 2 VCPU, 4 GiB and 20 GB, and return it."""
        flavor = {"id": flavor_id, "name": flavor_id, "vcpus": 2, "ram": 4096, "disk": 20}
        answer = await self.ask("POST", "/v2.1/flavors", {"flavor": {**flavor, **values}})
        assert answer.status == 200, answer.body
        made: Json = answer.body["flavor"]
        return made

    async def server(self, *, token: str | None = None, **values: object) -> str:
        """Create a server of the flavor `small` and return its id."""
        server = {"name": "vm", "flavorRef": "small", "networks": "none", **values}
        answer = await self.ask(
            "POST", "/v2.1/servers", {"server": server}, version="2.90", token=token
        )
        assert answer.status == 202, answer.body
        made: str = answer.body["server"]["id"]
        return made

    async def activate(self, uuid: str) -> None:
        """Report that an instance is running, as an agent does."""
        instance = await self.ledger.get(Instance, uuid)
        assert instance is not None
        running = replace(
            instance, status=Status.ACTIVE, task=None, launched_at_s=self.clock.now_s()
        )
        await self.ledger.commit([(Put(running),)])


def report(index: int) -> HostReport:
    """Return the report of one host."""
    uuid = f"11111111-0000-4000-8000-{index:012d}"
    host = Host(
        uuid=uuid,
        name=f"host-{index}",
        node=f"node-{index}",
        hypervisor_version=1,
        host_ip=f"10.0.0.{index}",
        cpu_info={"arch": "x86_64"},
        supported_instances=(("x86_64", "fake", "hvm"),),
    )
    inventories = {
        VCPU: Inventory(total=16),
        MEMORY_MB: Inventory(total=65_536, reserved=512),
        DISK_GB: Inventory(total=1_000),
    }
    return HostReport(host, Provider(uuid=uuid, name=f"node-{index}", inventories=inventories))
