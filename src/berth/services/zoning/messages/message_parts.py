"""Parts that several zone messages share, and their encoding of bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.request import COUNT_MAX, Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import InvalidInputError
from berth.domain.zones.offer import SELECT_ID_BYTES
from berth.domain.zones.zone_orders import UnusedOffers
from berth.services.crypto.base64url import raw_of, url_text_of

NAMES_MAX = 20_000
"""The maximum number of instances or selects in one message."""


@dataclass(frozen=True, slots=True)
class RequestMessage:
    """A request as a child receives it: it describes the instances and names no host."""

    request_id: str
    flavor: Flavor
    project_id: str
    user_id: str
    image: Image | None = None
    availability_zone: str | None = None
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    group_uuid: str | None = None
    name: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, request: Request) -> "RequestMessage":
        """Return the message for a request."""
        return cls(
            request_id=request.request_id,
            flavor=request.flavor,
            project_id=request.project_id,
            user_id=request.user_id,
            image=request.image,
            availability_zone=request.availability_zone,
            hints=request.hints,
            group_uuid=request.group_uuid,
            name=request.name,
            metadata=request.metadata,
        )

    def request(self, instance_uuids: tuple[str, ...]) -> Request:
        """Return the request for the given instances."""
        return Request(
            request_id=self.request_id,
            instance_uuids=instance_uuids,
            flavor=self.flavor,
            project_id=self.project_id,
            user_id=self.user_id,
            image=self.image,
            availability_zone=self.availability_zone,
            hints=self.hints,
            group_uuid=self.group_uuid,
            name=self.name,
            metadata=self.metadata,
        )


@dataclass(frozen=True, slots=True)
class GroupMessage:
    """A server group, as the sender has recorded it."""

    uuid: str
    name: str
    policy: GroupPolicy
    project_id: str = ""
    user_id: str = ""
    max_server_per_host: int = 1

    @classmethod
    def of(cls, group: ServerGroup | None) -> "GroupMessage | None":
        """Return the message for a group, or None if `group` is None."""
        if group is None:
            return None
        return cls(
            group.uuid,
            group.name,
            group.policy,
            group.project_id,
            group.user_id,
            group.max_server_per_host,
        )

    @property
    def group(self) -> ServerGroup:
        """The group as a domain object."""
        return ServerGroup(
            self.uuid,
            self.name,
            self.policy,
            self.project_id,
            self.user_id,
            self.max_server_per_host,
        )


@dataclass(frozen=True, slots=True)
class SurplusMessage:
    """The offers of a select after the first `keep`, which the sender will not use."""

    select_id: str
    keep: int = 0

    @classmethod
    def of(cls, surplus: UnusedOffers) -> "SurplusMessage":
        """Return the message for unused offers."""
        return cls(url_text_of(surplus.select_id), surplus.keep)

    @property
    def surplus(self) -> UnusedOffers:
        """The unused offers as a domain object.

        Raises:
            InvalidInputError: a field is invalid; the error names it.
        """
        select_id = bytes_of("select_id", self.select_id)
        if len(select_id) != SELECT_ID_BYTES:
            reason = f"must encode {SELECT_ID_BYTES} bytes, not {len(select_id)}"
            raise InvalidInputError("select_id", reason)
        check_range("keep", self.keep, 0, COUNT_MAX)
        return UnusedOffers(select_id, self.keep)


def bytes_of(name: str, text: str) -> bytes:
    """Return the bytes that `url_text_of` has encoded.

    Raises:
        InvalidInputError: the string is not ASCII, or no base64 string has its length; `name` is
            its field.
    """
    try:
        return raw_of(text)
    except ValueError as error:
        raise InvalidInputError(name, "is not valid URL-safe base64") from error


def check_range(name: str, value: int, least: int, most: int) -> None:
    """Reject a number outside of its range.

    Raises:
        InvalidInputError: the number is out of range; `name` is its field.
    """
    if not least <= value <= most:
        raise InvalidInputError(name, f"must be between {least} and {most}, not {value}")


def check_count(name: str, count: int, least: int, most: int) -> None:
    """Reject a list with too few or too many items.

    Raises:
        InvalidInputError: the count is out of range; `name` is the list's field.
    """
    if not least <= count <= most:
        raise InvalidInputError(name, f"must have between {least} and {most} items, not {count}")
