"""The dependencies of the Placement API."""

from dataclasses import dataclass, field

from berth.api.auth.authentication import Auth
from berth.api.limits import RequestLimits
from berth.api.placement.cors import Cors
from berth.api.placement.policy import AccessPolicy
from berth.api.placement.views.candidates import CandidateWriter
from berth.api.placement.views.providers import ProviderWriter
from berth.api.probes import AlwaysReady, Checks, MetricsPage
from berth.ports.clock import Clock, Ids
from berth.ports.ledger import Ledger
from berth.ports.telemetry import Telemetry, Tracer
from berth.services.providers.allocations import AllocationService
from berth.services.providers.inventories import Associations, Inventories
from berth.services.providers.reshape import ReshapeService
from berth.services.providers.resource_names import ResourceNames
from berth.services.providers.resource_providers import ResourceProviders
from berth.services.replica.follower import Follower
from berth.services.replica.provider_replica import ProviderReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementParts:
    """Services, tables and settings that the handlers use; there is no global state.

    `prefix` is the mount path, "" or "/placement", and starts every link. Without `cors` no CORS
    headers are sent. `checks`, `page` and `tracer` are used only in a process without any other
    API.
    """

    ledger: Ledger
    follower: Follower
    replica: ProviderReplica
    providers: ResourceProviders
    inventories: Inventories
    associations: Associations
    names: ResourceNames
    allocation_service: AllocationService
    reshape_service: ReshapeService
    writer: ProviderWriter
    candidates: CandidateWriter
    auth: Auth
    policy: AccessPolicy
    clock: Clock
    ids: Ids
    telemetry: Telemetry
    limits: RequestLimits = field(default_factory=RequestLimits)
    cors: Cors | None = None
    prefix: str = ""
    checks: Checks = field(default_factory=AlwaysReady)
    page: MetricsPage | None = None
    tracer: Tracer | None = None
