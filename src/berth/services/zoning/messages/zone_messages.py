"""Messages between zones as plain data that any codec can encode.

No field names a host of the sender. Input is decoded into these types only, so a parent cannot set
any other field of an instance.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.domain.compute.instance import Instance
from berth.domain.compute.request import COUNT_MAX, instance_uuid_of
from berth.domain.zones.offer import BLOB_BYTES_MAX, BLOB_BYTES_MIN, OfferRefusalReason
from berth.domain.zones.zone_orders import (
    OFFER_BYTES,
    BuildItem,
    BuildOrder,
    BuildOutcome,
    Offers,
    ReleaseOrder,
    SelectOrder,
    Withdrawal,
    ZoneCapacity,
)
from berth.services.crypto.base64url import url_text_of
from berth.services.zoning.messages.loop_tokens import read_loop_tokens
from berth.services.zoning.messages.message_parts import (
    NAMES_MAX,
    GroupMessage,
    RequestMessage,
    SurplusMessage,
    bytes_of,
    check_count,
    check_range,
)

CAPACITY_MAX = 10**15
"""The largest capacity that a zone accepts from a child; it is below 2**53, so exact in JSON."""
# The longest deadline bounds the time for which a parent's select can occupy this zone.
DEADLINE_MS_MAX = 60_000


@dataclass(frozen=True, slots=True)
class SelectMessage:
    """A request for offers.

    `deadline_ms` is the remaining time and not a time of day, because clocks of zones differ.
    `surplus` releases unused offers of earlier selects, which saves a separate message. `marks`
    are loop prevention tokens, one from each zone that the select came through.
    """

    request: RequestMessage
    num_instances: int = 1
    deadline_ms: int = 2_000
    blob_bytes: int = OFFER_BYTES
    group: GroupMessage | None = None
    hold: bool = True
    surplus: tuple[SurplusMessage, ...] = ()
    marks: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, order: SelectOrder, now_s: float, request: RequestMessage | None = None
    ) -> "SelectMessage":
        """Return the message for an order.

        `request` is the message for the order's request, if the caller already has it.
        """
        left_ms = int((order.deadline_s - now_s) * 1000)
        return cls(
            request=request or RequestMessage.of(order.request),
            num_instances=len(order.request.instance_uuids),
            deadline_ms=max(1, min(left_ms, DEADLINE_MS_MAX)),
            blob_bytes=order.blob_bytes,
            group=GroupMessage.of(order.group),
            hold=order.hold,
            surplus=tuple(map(SurplusMessage.of, order.surplus)),
            marks=tuple(map(url_text_of, order.marks)),
        )

    def order(self, audience: str, now_s: float) -> SelectOrder:
        """Return the order as a domain object; `audience` is the parent that sent it.

        Raises:
            InvalidInputError: a field is invalid; the error names it.
        """
        check_range("num_instances", self.num_instances, 1, COUNT_MAX)
        check_range("deadline_ms", self.deadline_ms, 1, DEADLINE_MS_MAX)
        check_range("blob_bytes", self.blob_bytes, BLOB_BYTES_MIN, BLOB_BYTES_MAX)
        check_count("surplus", len(self.surplus), 0, NAMES_MAX)
        # Instances of one request are equal, so an offer fits any of them and placeholder uuids
        # suffice. The `?` keeps them apart from uuids that instances could have.
        uuids = (
            instance_uuid_of(f"{self.request.request_id}?", index)
            for index in range(self.num_instances)
        )
        return SelectOrder(
            request=self.request.request(tuple(uuids)),
            audience=audience,
            deadline_s=now_s + self.deadline_ms / 1000,
            blob_bytes=self.blob_bytes,
            group=None if self.group is None else self.group.group,
            hold=self.hold,
            surplus=tuple(one.surplus for one in self.surplus),
            marks=read_loop_tokens("marks", self.marks),
        )


@dataclass(frozen=True, slots=True)
class WeightMessage:
    """One offer: its weight, and its sealed terms in base64."""

    weight: float
    blob: str


@dataclass(frozen=True, slots=True)
class OffersMessage:
    """The answer to a select: the offers, best first.

    The form `{"weights": [...]}` is that of Diablo's zones (nova-behaviour.md 1.4). With
    `is_partial`, offers of zones below may be missing; earlier versions omit this flag.
    """

    select_id: str
    weights: tuple[WeightMessage, ...]
    is_partial: bool = False

    @classmethod
    def of(cls, offers: Offers) -> "OffersMessage":
        """Return the message for offers."""
        pairs = zip(offers.weights, offers.blobs, strict=True)
        weights = tuple(WeightMessage(weight, url_text_of(blob)) for weight, blob in pairs)
        return cls(url_text_of(offers.select_id), weights, offers.is_partial)

    @property
    def offers(self) -> Offers:
        """The offers as a domain object.

        Raises:
            InvalidInputError: a blob or the select's id is not URL-safe base64.
        """
        return Offers(
            select_id=bytes_of("select_id", self.select_id),
            weights=tuple(one.weight for one in self.weights),
            blobs=tuple(bytes_of("blob", one.blob) for one in self.weights),
            is_partial=self.is_partial,
        )


@dataclass(frozen=True, slots=True)
class CapacityMessage:
    """The number of instances that fit in a zone; with `is_partial`, a lower bound."""

    total: int
    is_partial: bool = False

    @classmethod
    def of(cls, capacity: ZoneCapacity) -> "CapacityMessage":
        """Return the message for a capacity."""
        return cls(capacity.count, capacity.is_partial)

    @property
    def capacity(self) -> ZoneCapacity:
        """The capacity as a domain object.

        Raises:
            InvalidInputError: the number is negative or too large.
        """
        check_range("total", self.total, 0, CAPACITY_MAX)
        return ZoneCapacity(self.total, self.is_partial)


@dataclass(frozen=True, slots=True)
class InstanceMessage:
    """One instance to be built from an offer."""

    uuid: str
    name: str
    blob: str
    sent_ms: int
    launch_index: int = 0


@dataclass(frozen=True, slots=True)
class BuildMessage:
    """The order to build instances of one request, each from its offer."""

    request: RequestMessage
    reservation_id: str
    instances: tuple[InstanceMessage, ...]
    group: GroupMessage | None = None
    requested_zone: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    extra: Mapping[str, object] = field(default_factory=dict[str, object])
    created_at_s: float = 0.0

    @classmethod
    def of(cls, order: BuildOrder) -> "BuildMessage":
        """Return the message for an order; shared fields are taken from its first instance."""
        first = order.items[0].instance
        return cls(
            request=RequestMessage.of(order.request),
            reservation_id=first.reservation_id,
            instances=tuple(
                InstanceMessage(
                    item.instance.uuid,
                    item.instance.name,
                    url_text_of(item.blob),
                    item.sent_ms,
                    item.instance.launch_index,
                )
                for item in order.items
            ),
            group=GroupMessage.of(order.group),
            requested_zone=first.requested_zone,
            metadata=first.metadata,
            extra=first.extra,
            created_at_s=first.created_at_s,
        )

    def order(self, audience: str, now_s: float) -> BuildOrder:
        """Return the order as a domain object; `audience` is the parent that sent it.

        Raises:
            InvalidInputError: a field is invalid; the error names it.
        """
        check_count("instances", len(self.instances), 1, COUNT_MAX)
        uuids = tuple(one.uuid for one in self.instances)
        # The parent's clock may be ahead, and no record here may have a future time of creation.
        created_at_s = min(self.created_at_s, now_s) if self.created_at_s > 0 else now_s
        return BuildOrder(
            request=self.request.request(uuids),
            audience=audience,
            items=tuple(
                BuildItem(
                    self._instance(one, created_at_s), bytes_of("blob", one.blob), one.sent_ms
                )
                for one in self.instances
            ),
            group=None if self.group is None else self.group.group,
        )

    def _instance(self, one: InstanceMessage, created_at_s: float) -> Instance:
        asked = self.request
        return Instance(
            uuid=one.uuid,
            name=one.name,
            project_id=asked.project_id,
            user_id=asked.user_id,
            request_id=asked.request_id,
            reservation_id=self.reservation_id,
            flavor=asked.flavor,
            image=asked.image,
            launch_index=one.launch_index,
            requested_zone=self.requested_zone,
            group_uuid=asked.group_uuid,
            hints=asked.hints,
            metadata=self.metadata,
            extra=self.extra,
            created_at_s=created_at_s,
            updated_at_s=created_at_s,
        )


@dataclass(frozen=True, slots=True)
class OutcomeMessage:
    """The outcome of one instance; `flaw` is the reason for refusing its offer, or None."""

    uuid: str
    flaw: OfferRefusalReason | None = None


@dataclass(frozen=True, slots=True)
class OutcomesMessage:
    """The answer to a build order, with one outcome per instance."""

    reservation_id: str
    instances: tuple[OutcomeMessage, ...]

    @classmethod
    def of(cls, reservation_id: str, outcomes: tuple[BuildOutcome, ...]) -> "OutcomesMessage":
        """Return the message for outcomes."""
        messages = tuple(OutcomeMessage(one.instance_uuid, one.flaw) for one in outcomes)
        return cls(reservation_id, messages)

    @property
    def outcomes(self) -> tuple[BuildOutcome, ...]:
        """The outcomes as domain objects."""
        return tuple(BuildOutcome(one.uuid, one.flaw) for one in self.instances)


@dataclass(frozen=True, slots=True)
class WithdrawalMessage:
    """An instance that no order sent at or before `sent_ms` (Unix milliseconds) may build."""

    uuid: str
    sent_ms: int


@dataclass(frozen=True, slots=True)
class ReleaseMessage:
    """Offers and instances that a parent does not want; with `keeps_built`, built ones stay."""

    surplus: tuple[SurplusMessage, ...] = ()
    withdrawn: tuple[WithdrawalMessage, ...] = ()
    keeps_built: bool = False

    @classmethod
    def of(cls, order: ReleaseOrder) -> "ReleaseMessage":
        """Return the message for an order."""
        return cls(
            tuple(map(SurplusMessage.of, order.surplus)),
            tuple(WithdrawalMessage(one.instance_uuid, one.sent_ms) for one in order.withdrawn),
            order.keeps_built,
        )

    def order(self, audience: str, project_id: str) -> ReleaseOrder:
        """Return the order as a domain object.

        Args:
            audience: the parent that sent it.
            project_id: the tenant's project, from the parent's signed assertion.

        Raises:
            InvalidInputError: a field is invalid; the error names it.
        """
        check_count("surplus", len(self.surplus), 0, NAMES_MAX)
        check_count("withdrawn", len(self.withdrawn), 0, NAMES_MAX)
        return ReleaseOrder(
            audience=audience,
            surplus=tuple(one.surplus for one in self.surplus),
            withdrawn=tuple(Withdrawal(one.uuid, one.sent_ms) for one in self.withdrawn),
            project_id=project_id,
            keeps_built=self.keeps_built,
        )


@dataclass(frozen=True, slots=True)
class KeptMessage:
    """The answer to a release: the uuids of the instances that exist and stay.

    None of the order's other instances of this project exists in the child or will be built there.
    """

    kept: tuple[str, ...]
