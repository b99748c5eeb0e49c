"""Child zones: other deployments of Berth, reached through their HTTP API."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from berth.domain.errors import UnavailableError
from berth.domain.zones.zone import RemoteInstance, Zone, ZoneInfo
from berth.domain.zones.zone_orders import (
    BuildOrder,
    BuildOutcome,
    Offers,
    ReleaseOrder,
    RemoteServer,
    SelectOrder,
    ZoneCapacity,
)
from berth.former_names import former_name

if not TYPE_CHECKING:
    # Type checkers must not see this: they assume that a module with `__getattr__` has every name.
    def __getattr__(name: str) -> object:
        """Return the object that a former name of this module refers to."""
        return former_name(__name__, name)


ANSWER_BYTES_MAX = 32 * 1024 * 1024
"""Default limit on the bytes of a response body: a full page of servers has a few MB."""
STATEMENT_HEADER = "X-Berth-Zone-Statement"
"""The HTTP header for the parent's signed assertion, which names the tenant of a request."""


class NotAskedError(UnavailableError):
    """A request never reached the zone, so it had no effect."""


class ChildZones(Protocol):
    """A client of child zones. Any number of calls may run concurrently.

    All methods raise UnavailableError if the zone cannot be reached, does not answer within
    `timeout_s` seconds, rejects the account or the signed assertion, or sends an invalid answer.
    """

    async def info(self, zone: Zone, *, timeout_s: float) -> ZoneInfo:
        """Return a zone's description of itself."""
        ...

    async def select(self, zone: Zone, order: SelectOrder, *, timeout_s: float) -> Offers:
        """Return the offers of a zone; the audience of the order must be this zone, the parent."""
        ...

    async def capacity(self, zone: Zone, order: SelectOrder, *, timeout_s: float) -> ZoneCapacity:
        """Return how many instances of an order fit in a zone and the zones below it.

        The audience of the order must be this zone, the parent. The number of instances in the
        order is ignored. A zone of an earlier version cannot answer.
        """
        ...

    async def build(
        self, zone: Zone, order: BuildOrder, *, timeout_s: float
    ) -> tuple[BuildOutcome, ...]:
        """Order a zone to build instances from its offers; return one outcome per item, in order.

        Raises:
            NotAskedError: the zone never received the order.
            UnavailableError: any of the instances may exist there, or be built later.
        """
        ...

    async def release(self, zone: Zone, order: ReleaseOrder, *, timeout_s: float) -> frozenset[str]:
        """Release offers and instances; return the UUIDs of instances that exist and stay.

        When this returns, none of the other instances exists in the zone or will be built there.
        """
        ...

    async def server(
        self, zone: Zone, remote: RemoteInstance, *, timeout_s: float
    ) -> RemoteServer | None:
        """Return a server as its owner sees it, or None if it is not in the zone."""
        ...


@dataclass(frozen=True, slots=True)
class ForwardedRequest:
    """An HTTP request to forward to a child zone.

    `path` begins with "/", includes the query, and is relative to the root of the zone's API.
    `headers` are those to forward, such as the microversion; the sender adds credentials, the
    tenant's assertion and the length of the body. A response whose body exceeds `answer_bytes_max`
    bytes is rejected as if there had been no answer.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    # This bounds the memory that a faulty or hostile zone can make its parent allocate.
    answer_bytes_max: int = ANSWER_BYTES_MAX


@dataclass(frozen=True, slots=True)
class ForwardedResponse:
    """The response of a zone, whatever its status; header names are in lower case.

    Hop-by-hop headers are removed.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


class TenantAssertionWriter(Protocol):
    """Signs assertions that name the tenant on whose behalf a zone is called."""

    def write(self, zone: str, asked: ForwardedRequest, *, project_id: str, user_id: str) -> str:
        """Return the signed assertion for one request to a zone; it is valid for a single use.

        Args:
            zone: the name of the zone.
            asked: the request.
            project_id: the tenant's project.
            user_id: the tenant's user.
        """
        ...


class ZoneForwarder(Protocol):
    """Forwards HTTP requests of tenants to child zones."""

    async def forward(
        self,
        zone: Zone,
        asked: ForwardedRequest,
        *,
        project_id: str,
        user_id: str,
        timeout_s: float,
    ) -> ForwardedResponse:
        """Forward a request on behalf of a tenant and return the zone's response.

        Redirects are returned, not followed.

        Args:
            zone: the child zone.
            asked: the request.
            project_id: the tenant's project.
            user_id: the tenant's user.
            timeout_s: seconds to wait for the whole response.

        Raises:
            InvalidInputError: the method, path or headers are not valid HTTP.
            NotAskedError: the zone never received the request.
            UnavailableError: the zone may have received the request, but no valid answer of
                acceptable length arrived within `timeout_s` seconds.
        """
        ...
