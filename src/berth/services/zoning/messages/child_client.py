"""The client of child zones, which sends orders over HTTP and reads the answers strictly.

A child's answer is not trusted. Its length is bounded, it is decoded into message types only, and
it is rejected when it does not match the order. Errors never quote an answer, because that would
disclose details of one zone in the logs of another.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from math import isfinite
from typing import Final, TypeVar

import msgspec

from berth.domain.compute.request import Request
from berth.domain.errors import BerthError, UnavailableError
from berth.domain.zones.offer import SELECT_ID_BYTES
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
from berth.ports.clock import Clock
from berth.ports.zones import ForwardedRequest, ForwardedResponse, ZoneForwarder
from berth.services.zoning.messages.message_parts import RequestMessage
from berth.services.zoning.messages.zone_messages import (
    BuildMessage,
    CapacityMessage,
    KeptMessage,
    OffersMessage,
    OutcomesMessage,
    ReleaseMessage,
    SelectMessage,
)

INFO_PATH: Final = "/zones/info"
SELECT_PATH: Final = "/zones/select"
CAPACITY_PATH: Final = "/zones/capacity"
RELEASE_PATH: Final = "/zones/release"
BUILD_PATH: Final = "/v2.1/servers"

_JSON: Final[Mapping[str, str]] = {
    "Accept": "application/json",
    "Content-Type": "application/json",
}
# The length limit of an answer is a base plus a part for each instance that the order names.
_ANSWER_BYTES: Final = 64 * 1024
_EACH_BYTES: Final = 256
# The length limit of an answer about one server, whose metadata and addresses may be long.
_SERVER_BYTES: Final = 1024 * 1024
# Since microversion 2.47 a server's answer includes its size.
_SHOWN: Final[Mapping[str, str]] = {
    "Accept": "application/json",
    "OpenStack-API-Version": "compute 2.96",
}
_REASONS: Final[Mapping[int, str]] = {
    401: "it rejects the account or the assertion; check the username, the password, its copy of "
    "this zone's keys, and the clocks",
    403: "it rejects the account or the assertion; check its copy of this zone's keys",
    404: "it does not serve the requested path; check its URL and its version",
    405: "it does not serve the requested path; check its URL and its version",
    501: "it is not a zone; set zones.name in its settings",
}

_RESIZING: Final = frozenset({"RESIZE", "VERIFY_RESIZE", "REVERT_RESIZE"})
_GOOD: Final = range(200, 300)

_encoder: Final = msgspec.json.Encoder()
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _InfoMessage:
    """The answer to `GET /zones/info`."""

    zone: ZoneInfo


@dataclass(frozen=True, slots=True)
class FlavorShown:
    """The size of a server in a child's answer; `ram` is in MiB."""

    vcpus: int
    ram: int


@dataclass(frozen=True, slots=True)
class ServerShown:
    """A server in the form of the compute API, reduced to the fields that a parent reads."""

    id: str
    tenant_id: str
    status: str
    flavor: FlavorShown

    @property
    def below(self) -> RemoteServer:
        """The server's size and resize state."""
        size = self.flavor.vcpus, self.flavor.ram
        return RemoteServer(size, is_resizing=self.status in _RESIZING)


@dataclass(frozen=True, slots=True)
class ServerMessage:
    """The answer to `GET /servers/{id}`."""

    server: ServerShown


class ChildClient:
    """Sends orders to child zones; implements the port `ChildZones`.

    Args:
        forwards: sends HTTP requests to zones.
        clock: provides the time of day.
    """

    def __init__(self, forwards: ZoneForwarder, clock: Clock) -> None:
        self._forwards = forwards
        self._clock = clock
        # A select sends one request to all children, so the latest message is reused.
        self._latest: tuple[Request, RequestMessage] | None = None

    async def info(self, zone: Zone, *, timeout_s: float) -> ZoneInfo:
        """See `ChildZones.info`."""
        asked = ForwardedRequest("GET", INFO_PATH, _JSON, answer_bytes_max=_ANSWER_BYTES)
        info = (await self._ask(zone, asked, _InfoMessage, timeout_s=timeout_s)).zone
        if not all(isfinite(one) for pair in info.ranges.values() for one in pair):
            raise _odd(zone)
        return info

    async def select(self, zone: Zone, order: SelectOrder, *, timeout_s: float) -> Offers:
        """See `ChildZones.select`."""
        request = order.request
        message = self._message_of(order)
        each_bytes = 2 * order.blob_bytes + _EACH_BYTES
        asked = _post(SELECT_PATH, message, message.num_instances * each_bytes)
        answer = await self._ask(
            zone,
            asked,
            OffersMessage,
            timeout_s=timeout_s,
            project_id=request.project_id,
            user_id=request.user_id,
        )
        try:
            offers = answer.offers
        except BerthError as error:
            raise _odd(zone) from error
        if len(offers.select_id) != SELECT_ID_BYTES or not all(map(isfinite, offers.weights)):
            raise _odd(zone)
        return offers

    async def capacity(self, zone: Zone, order: SelectOrder, *, timeout_s: float) -> ZoneCapacity:
        """See `ChildZones.capacity`."""
        request = order.request
        answer = await self._ask(
            zone,
            _post(CAPACITY_PATH, self._message_of(order), 0),
            CapacityMessage,
            timeout_s=timeout_s,
            project_id=request.project_id,
            user_id=request.user_id,
        )
        try:
            return answer.capacity
        except BerthError as error:
            raise _odd(zone) from error

    def _message_of(self, order: SelectOrder) -> SelectMessage:
        request = order.request
        if self._latest is None or self._latest[0] is not request:
            self._latest = (request, RequestMessage.of(request))
        return SelectMessage.of(order, self._clock.now_s(), self._latest[1])

    async def build(
        self, zone: Zone, order: BuildOrder, *, timeout_s: float
    ) -> tuple[BuildOutcome, ...]:
        """See `ChildZones.build`."""
        asked = _post(BUILD_PATH, BuildMessage.of(order), len(order.items) * _EACH_BYTES)
        request = order.request
        answer = await self._ask(
            zone,
            asked,
            OutcomesMessage,
            timeout_s=timeout_s,
            project_id=request.project_id,
            user_id=request.user_id,
        )
        outcomes = answer.outcomes
        if [one.instance_uuid for one in outcomes] != [one.instance.uuid for one in order.items]:
            raise _odd(zone)
        return outcomes

    async def release(self, zone: Zone, order: ReleaseOrder, *, timeout_s: float) -> frozenset[str]:
        """See `ChildZones.release`."""
        asked = _post(RELEASE_PATH, ReleaseMessage.of(order), len(order.withdrawn) * _EACH_BYTES)
        answer = await self._ask(
            zone, asked, KeptMessage, timeout_s=timeout_s, project_id=order.project_id
        )
        kept = frozenset(answer.kept)
        if not kept <= {one.instance_uuid for one in order.withdrawn}:
            raise _odd(zone)
        return kept

    async def server(
        self, zone: Zone, remote: RemoteInstance, *, timeout_s: float
    ) -> RemoteServer | None:
        """See `ChildZones.server`."""
        uuid = remote.instance_uuid
        asked = ForwardedRequest("GET", f"{BUILD_PATH}/{uuid}", _SHOWN, b"", _SERVER_BYTES)
        answer = await self._forwards.forward(
            zone,
            asked,
            project_id=remote.project_id,
            user_id=remote.user_id,
            timeout_s=timeout_s,
        )
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        shown = _read(zone, _good(zone, answer), ServerMessage).server
        if shown.id != uuid or shown.tenant_id != remote.project_id:
            raise _odd(zone)
        return shown.below

    async def _ask(
        self,
        zone: Zone,
        asked: ForwardedRequest,
        kind: type[T],
        *,
        timeout_s: float,
        project_id: str = "",
        user_id: str = "",
    ) -> T:
        answer = await self._forwards.forward(
            zone, asked, project_id=project_id, user_id=user_id, timeout_s=timeout_s
        )
        return _read(zone, _good(zone, answer), kind)


def _post(path: str, message: object, answer_bytes: int) -> ForwardedRequest:
    body = _encoder.encode(message)
    return ForwardedRequest("POST", path, _JSON, body, _ANSWER_BYTES + answer_bytes)


def _good(zone: Zone, answer: ForwardedResponse) -> ForwardedResponse:
    """Return an answer if its status is 2xx.

    Raises:
        UnavailableError: the status is not 2xx.
    """
    if answer.status not in _GOOD:
        reason = _REASONS.get(answer.status, "it could not carry out the order; see its log")
        raise UnavailableError(f"zone {zone.name} answered {answer.status}: {reason}")
    return answer


def _read(zone: Zone, answer: ForwardedResponse, kind: type[T]) -> T:
    """Return a decoded answer; unknown fields are ignored, because newer children may send more.

    Raises:
        UnavailableError: the answer cannot be decoded as this type.
    """
    try:
        return msgspec.json.decode(answer.body, type=kind)
    # A hostile answer of deeply nested lists raises RecursionError.
    except (msgspec.MsgspecError, UnicodeDecodeError, BerthError, RecursionError) as error:
        raise _odd(zone) from error


def _odd(zone: Zone) -> UnavailableError:
    return UnavailableError(
        f"zone {zone.name} gave an answer that does not match the order; check its URL and version"
    )
