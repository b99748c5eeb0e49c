"""The dependencies that the API is built from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from berth.api.auth.authentication import Auth
from berth.api.auth.directory import Directory, OpenDirectory
from berth.api.auth.tokens import Tokens
from berth.api.console_parts import ConsoleParts
from berth.api.limits import RequestLimits
from berth.api.probes import AlwaysReady, Checks, MetricsPage
from berth.domain.compute.decision import RefusalDetail
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
from berth.services.gateway.identities import HostIdentities
from berth.services.replica.follower import Follower
from berth.services.replica.liveness import Liveness
from berth.services.replica.provider_replica import ProviderReplica
from berth.services.replica.replica import Replica
from berth.services.requests.quotas import Quotas
from berth.services.servers.flavors import Flavors
from berth.services.servers.instances import Instances
from berth.services.servers.key_pairs import KeyPairs
from berth.services.servers.operations import Operations
from berth.services.servers.server_groups import ServerGroups
from berth.services.servers.server_images import ServerImages
from berth.services.zoning.children.capabilities import CapabilityReport
from berth.services.zoning.children.zone_watch import ZoneWatch
from berth.services.zoning.children.zones import Zones
from berth.services.zoning.delegation.remote_usage import RemoteUsage
from berth.services.zoning.messages.assertions import AssertionVerifier
from berth.services.zoning.messages.loop_tokens import LoopTokens
from berth.services.zoning.messages.used_assertions import UsedAssertions
from berth.services.zoning.offers.dry_runs import TreeDryRuns
from berth.services.zoning.offers.inquiry_limit import InquiryLimit
from berth.services.zoning.offers.tree_capacity import TreeCapacity


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneParts:
    """The dependencies of a process that serves a zone of a tree.

    Args:
        name: name of this zone.
        zones: records of the child zones.
        watch: reports which children are up.
        info: reports this zone's capabilities to its parents.
        assertions: verifies the signed assertions of trusted parents.
        used_assertions: records in the ledger which assertions were used.
        loop_tokens: recognises this zone's own list requests when its children send them back.
        children: forwards requests to children.
        counting: charges the servers in child zones to the quotas of this zone.
        capacity: counts the servers that fit in this zone and the zones below it.
        dry_runs: decides on requests over the tree of zones without placing them.
        inquiry_limit: limits the concurrent capacity counts and dry runs of each project.
        select_timeout_s: maximum duration of a parent's select, in seconds.
        build_timeout_s: maximum duration of a build or a release, in seconds.
    """

    name: str
    zones: Zones
    watch: ZoneWatch
    info: CapabilityReport
    assertions: AssertionVerifier
    used_assertions: UsedAssertions
    loop_tokens: LoopTokens
    children: ZoneForwarder
    counting: RemoteUsage
    capacity: TreeCapacity
    dry_runs: TreeDryRuns
    inquiry_limit: InquiryLimit
    select_timeout_s: float
    build_timeout_s: float


class Policies(Protocol):
    """Holds the policy in force, and reloads it on request."""

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        ...

    @property
    def last_error(self) -> str | None:
        """The reason why the last reload failed; None if it succeeded or there was no reload."""
        ...

    def reload(self) -> bool:
        """Read the policy file again; return whether a changed policy is now in force."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """Everything that the handlers use; nothing is global.

    `providers` is the Placement API's replica, or None when that API is not served, and
    `identities` has the keys of hosts, or is None when the process serves no agents. `control_keys`
    returns the public keys of the control plane, which hosts pin. When `images` is empty, any image
    id is accepted. `default_zone` is the availability zone of hosts whose aggregates name no zone.
    With `soft_deletes`, deleted servers can be restored for some time. With `single_shot`, the
    servers of one request are placed one by one. `new_password` returns a password for `adminPass`
    in responses, or is None when responses have no such field.
    `refusal_detail` is the part of refusals that tenants may read. `tokens` is None when no tokens
    are issued. `keystone_url` is the URL of the Keystone that validates tokens, or None when the
    API serves the Identity API itself. `region` is the region of this deployment in the catalog.
    `started_ns` is the time when the API was built, in clock ticks; `build_app` sets it. `checks`
    reports readiness, `page` serves the metrics or is None, and spans are recorded only if there is
    a `tracer`.
    `strangers_seen_s` keeps, from one audit to the next, the Unix time at which each unknown
    consumer was first seen. `zones` is None when this deployment is not a zone of a tree.
    """

    instances: Instances
    operations: Operations
    bus: Bus
    flavors: Flavors
    aggregates: Aggregates
    server_groups: ServerGroups
    key_pairs: KeyPairs
    server_images: ServerImages
    quotas: Quotas
    hosts: Hosts
    decision_service: DecisionService
    follower: Follower
    replica: Replica
    liveness: Liveness
    ledger: Ledger
    policies: Policies
    auth: Auth
    clock: Clock
    ids: Ids
    telemetry: Telemetry
    providers: ProviderReplica | None = None
    identities: HostIdentities | None = None
    control_keys: Callable[[], tuple[bytes, ...]] = tuple
    images: Mapping[str, Image] = field(default_factory=dict[str, Image])
    limits: RequestLimits = field(default_factory=RequestLimits)
    consoles: ConsoleParts = field(default_factory=ConsoleParts)
    default_zone: str = "nova"
    soft_deletes: bool = False
    single_shot: bool = False
    new_password: Callable[[], str] | None = None
    refusal_detail: RefusalDetail = RefusalDetail.RELAXATIONS
    directory: Directory = field(default_factory=OpenDirectory)
    tokens: Tokens | None = None
    keystone_url: str | None = None
    region: str = "RegionOne"
    started_ns: int = 0
    checks: Checks = field(default_factory=AlwaysReady)
    page: MetricsPage | None = None
    tracer: Tracer | None = None
    strangers_seen_s: dict[str, float] = field(default_factory=dict[str, float])
    zones: ZoneParts | None = None

    @property
    def service_down_time_s(self) -> float:
        """Seconds without a heartbeat after which decisions treat a service as down."""
        return self.policies.policy.service_down_time_s
