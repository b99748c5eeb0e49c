"""Child zones: other deployments of Berth, reached as any client reaches them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from berth.domain.errors import UnavailableError
from berth.domain.zones.zone import RemoteInstance, Zone, ZoneInfo
from berth.domain.zones.zone_orders import (
    BuildOrder,
    BuildOutcome,
    Offers,
    ReleaseOrder,
    RemoteServer,
    SelectOrder,
)

ANSWER_BYTES_MAX = 32 * 1024 * 1024
"""Longest body of an answer where nobody knows better: a full page of servers is a few MB."""
STATEMENT_HEADER = "X-Berth-Zone-Statement"
"""Header with the statement for whom a request is made, signed by the parent."""


class NotAskedError(UnavailableError):
    """A zone could not even be asked, so nothing has come of it."""


class ChildZones(Protocol):
    """Asks child zones. Any number of calls may be under way at once.

    All raise UnavailableError when the zone cannot be reached, does not answer in time, refuses
    the account or the statement, or answers with anything else than what belongs there.
    """

    async def info(self, zone: Zone, *, timeout_s: float) -> ZoneInfo:
        """Ask what the zone tells of itself."""
        ...

    async def select(self, zone: Zone, order: SelectOrder, *, timeout_s: float) -> Offers:
        """Ask for offers; the order's audience is this zone."""
        ...

    async def build(
        self, zone: Zone, order: BuildOrder, *, timeout_s: float
    ) -> tuple[BuildOutcome, ...]:
        """Have instances built by their offers; one outcome for each item, in their order.

        Raises:
            NotAskedError: the zone never got the order.
            UnavailableError: any of them may be there, or be built later.
        """
        ...

    async def release(self, zone: Zone, order: ReleaseOrder, *, timeout_s: float) -> frozenset[str]:
        """Let go what is named; return the uuids of instances that are there and stay.

        When it returns none of the others is there or will be.
        """
        ...

    async def server(
        self, zone: Zone, remote: RemoteInstance, *, timeout_s: float
    ) -> RemoteServer | None:
        """Ask what has become of a server, for its owner; None when the zone has none."""
        ...


@dataclass(frozen=True, slots=True)
class ForwardedRequest:
    """An HTTP request that goes on to a child zone.

    `path` begins with "/", has the query, and is below the root of the zone's API. `headers` are
    those to pass on, such as the microversion; who asks, for whom, and the length of the body are
    said by whoever sends it. An answer with a body above `answer_bytes_max` counts as none.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    answer_bytes_max: int = ANSWER_BYTES_MAX


@dataclass(frozen=True, slots=True)
class ForwardedResponse:
    """What a zone answered, whatever its status; `headers` have their names in small letters.

    Headers that are about the connection alone are left out.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


class TenantAssertionWriter(Protocol):
    """Says for whom something is asked of a zone."""

    def write(self, zone: str, asked: ForwardedRequest, *, project_id: str, user_id: str) -> str:
        """Return the statement for one request to a zone, to be used once."""
        ...


class ZoneForwarder(Protocol):
    """Passes HTTP requests of tenants on to child zones."""

    async def forward(
        self,
        zone: Zone,
        asked: ForwardedRequest,
        *,
        project_id: str,
        user_id: str,
        timeout_s: float,
    ) -> ForwardedResponse:
        """Ask for a tenant, with a statement that says so, and return the answer as it is.

        A redirect is an answer as any other and not followed.

        Raises:
            InvalidInputError: method, path or headers cannot be written as HTTP.
            NotAskedError: the zone never got the request.
            UnavailableError: it may have got it; no answer came in time, or one that is too long
                or no HTTP.
        """
        ...
