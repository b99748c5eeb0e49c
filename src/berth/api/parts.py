"""What the API is built from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from berth.api.auth.authentication import Auth
from berth.api.auth.directory import Directory, OpenDirectory
from berth.api.auth.tokens import Tokens
from berth.api.limits import RequestLimits
from berth.api.probes import AlwaysReady, Checks, MetricsPage
from berth.domain.compute.flavor import Image
from berth.ports.bus import Bus
from berth.ports.clock import Clock, Ids
from berth.ports.ledger import Ledger
from berth.ports.telemetry import Telemetry, Tracer
from berth.ports.zones import ZoneForwarder
from berth.scheduling.evaluation.policy import Policy
from berth.services.decisions.decisions import DecisionService
from berth.services.fleet.aggregates import Aggregates
from berth.services.fleet.hosts import Hosts
from berth.services.replica.follower import Follower
from berth.services.replica.provider_replica import ProviderReplica
from berth.services.replica.replica import Replica
from berth.services.requests.quotas import Quotas
from berth.services.servers.flavors import Flavors
from berth.services.servers.instances import Instances
from berth.services.servers.operations import Operations
from berth.services.servers.server_groups import ServerGroups
from berth.services.zoning.children.capabilities import CapabilityReport
from berth.services.zoning.children.zone_watch import ZoneWatch
from berth.services.zoning.children.zones import Zones
from berth.services.zoning.delegation.remote_usage import RemoteUsage
from berth.services.zoning.messages.assertions import AssertionVerifier
from berth.services.zoning.messages.loop_tokens import LoopTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneParts:
    """What a process needs that answers for a zone of a tree.

    Args:
        name: of this zone.
        zones: the records of its children.
        watch: tells which of them are up.
        info: what the zone tells of itself.
        assertions: believes what trusted parents state.
        loop_tokens: recognises lists that came back here through its children.
        children: passes requests on to children.
        counting: knows what servers in children count for here.
        select_timeout_s: longest time that a select of a parent may take.
        build_timeout_s: longest time that a build or a release may take.
    """

    name: str
    zones: Zones
    watch: ZoneWatch
    info: CapabilityReport
    assertions: AssertionVerifier
    loop_tokens: LoopTokens
    children: ZoneForwarder
    counting: RemoteUsage
    select_timeout_s: float
    build_timeout_s: float


class Policies(Protocol):
    """Holds the policy in force and reads it again when asked to."""

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        ...

    @property
    def last_error(self) -> str | None:
        """Why the policy as it is written now is not in force; None when it is."""
        ...

    def reload(self) -> bool:
        """Read it again; tell whether a changed policy came into force."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """Everything that the handlers use; nothing is global.

    `providers` is what the Placement API reads; None where that is not served.
    `images` may be empty: then any image id is taken as it is. `default_zone` is shown for hosts
    that no aggregate puts in an availability zone. With `single_shot` servers of one order are
    placed one by one. `tokens` is None where none are given; `region`
    is what the catalog calls this one. `started_ns` is when the API was built, in the
    clock's ticks; `build_app` sets it. `checks` say whether the process is ready, `page` shows
    its metrics; without a `tracer` there are no spans. `strangers_seen_s` is kept between audits.
    `zones` is None where this deployment is no zone of a tree.
    """

    instances: Instances
    operations: Operations
    bus: Bus
    flavors: Flavors
    aggregates: Aggregates
    server_groups: ServerGroups
    quotas: Quotas
    hosts: Hosts
    decision_service: DecisionService
    follower: Follower
    replica: Replica
    ledger: Ledger
    policies: Policies
    auth: Auth
    clock: Clock
    ids: Ids
    telemetry: Telemetry
    providers: ProviderReplica | None = None
    images: Mapping[str, Image] = field(default_factory=dict[str, Image])
    limits: RequestLimits = field(default_factory=RequestLimits)
    default_zone: str = "nova"
    single_shot: bool = False
    directory: Directory = field(default_factory=OpenDirectory)
    tokens: Tokens | None = None
    region: str = "RegionOne"
    started_ns: int = 0
    checks: Checks = field(default_factory=AlwaysReady)
    page: MetricsPage | None = None
    tracer: Tracer | None = None
    strangers_seen_s: dict[str, float] = field(default_factory=dict[str, float])
    zones: ZoneParts | None = None

    @property
    def service_down_time_s(self) -> float:
        """Seconds without a heartbeat after which a service counts as down, as decisions see it."""
        return self.policies.policy.service_down_time_s
