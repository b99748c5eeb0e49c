"""Validates the orders of parent zones against the assertions that are sent with them.

A parent is trusted only to act for its tenants. Its messages are checked like those of clients, and
cannot refer to anything in this zone that belongs to other projects.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Final, Literal

from berth.api.assertions import zone_parts
from berth.api.codec import UNSET, Meta, UnsetType, View, decode, encode
from berth.api.compute.schemas.key_pairs import PublicKey
from berth.api.compute.schemas.servers import (
    METADATA_MAX,
    Description,
    DiskConfig,
    Metadata,
    ShortText,
    Tag,
)
from berth.api.errors import HttpError
from berth.api.limits import check_depth
from berth.api.routing import Call
from berth.api.values import Text
from berth.domain.compute.flavor import check_received
from berth.domain.compute.key_pair import KeyType
from berth.domain.compute.quota import FILE_BYTES_MAX, FILES_MAX
from berth.domain.compute.request import COUNT_MAX
from berth.domain.compute.server_group import ServerGroup
from berth.domain.errors import InvalidInputError
from berth.domain.zones.offer import BLOB_BYTES_MAX
from berth.domain.zones.zone_orders import BuildOrder, ReleaseOrder, SelectOrder
from berth.services.zoning.children.host_names_in_requests import host_naming_field
from berth.services.zoning.messages.message_parts import GroupMessage, RequestMessage
from berth.services.zoning.messages.zone_messages import BuildMessage, ReleaseMessage, SelectMessage

UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ID: Final = re.compile(r"[!-~]{1,255}")
FLAVOR_ID: Final = re.compile(r"[!-~][ -~]{0,254}")
"""Ids of flavors: 1 to 255 printable ASCII characters, of which the first is not a space."""
NAME: Final = re.compile("[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,300}")
"""Names of 1 to 300 characters without control characters or line separators.

They may be longer than the names that clients send, because the servers of one request get numbers
as suffixes.
"""
_FORMS: Final[Mapping[re.Pattern[str], str]] = {
    UUID: "be a UUID in lower case",
    ID: "consist of 1 to 255 printable ASCII characters without spaces",
    FLAVOR_ID: "consist of 1 to 255 printable ASCII characters, and not begin with a space",
    NAME: "consist of 1 to 300 characters other than control characters and line separators",
}
# Nova's internal hints, which would make the scheduler skip filters.
_OWN_HINTS: Final = "_nova_"
_SENT_MS_MAX: Final = 2**62
_POSITION_MAX: Final = 2**31 - 1
# Base64 without padding encodes 3 bytes as 4 characters.
_BLOB_CHARACTERS_MAX: Final = -(-BLOB_BYTES_MAX * 4 // 3)


class AssertedFile(View):
    """A file to inject into a server, with its contents in base64."""

    path: ShortText
    contents: Annotated[str, Meta(max_length=FILE_BYTES_MAX)]


class AssertedExtra(View):
    """The fields of a server that no rule reads, with the limits of a client's request."""

    description: Description | UnsetType | None = UNSET
    key_name: ShortText | UnsetType | None = UNSET
    key_type: KeyType | UnsetType = UNSET
    key_data: PublicKey | UnsetType = UNSET
    user_data: Text | UnsetType | None = UNSET
    files: Annotated[list[AssertedFile], Meta(max_length=FILES_MAX)] | UnsetType = UNSET
    config_drive: bool | UnsetType = UNSET
    has_config_drive: bool | UnsetType = UNSET
    tags: Annotated[list[Tag], Meta(max_length=50)] | UnsetType = UNSET
    security_groups: Annotated[list[ShortText], Meta(max_length=64)] | UnsetType = UNSET
    hostname: ShortText | UnsetType = UNSET
    trusted_image_certificates: (
        Annotated[list[ShortText], Meta(max_length=50)] | UnsetType | None
    ) = UNSET
    access_ipv4: ShortText | UnsetType = UNSET
    access_ipv6: ShortText | UnsetType = UNSET
    disk_config: DiskConfig | UnsetType = UNSET
    networks: Literal["none"] | UnsetType = UNSET


class AssertedMetadata(View):
    """The metadata of a tenant's servers, with the limits of a client's request."""

    metadata: Annotated[Metadata, Meta(max_length=METADATA_MAX)]


class AssertedTexts(AssertedMetadata):
    """The strings of a tenant that a parent passes on, with the limits of a client's request."""

    extra: AssertedExtra
    hints: Annotated[
        dict[ShortText, Annotated[list[ShortText], Meta(max_length=128)]], Meta(max_length=64)
    ]


async def select_order(call: Call) -> SelectOrder:
    """Return the order of a select, with its deadline within this zone's limit.

    Raises:
        InvalidInputError: a field is invalid; the error names it.
        HttpError: 403 when the order is not for the tenant of its assertion, or when the caller
            is not a parent; 501 when this deployment is not a zone.
    """
    message = call.body(SelectMessage)
    await _check_request(call, message.request, message.group)
    _check_texts(message.request, {}, {})
    now_s = call.parts.clock.now_s()
    order = message.order(_parent(call), now_s)
    latest_s = now_s + zone_parts(call.parts).select_timeout_s
    return order if order.deadline_s <= latest_s else replace(order, deadline_s=latest_s)


async def build_order(call: Call) -> BuildOrder:
    """Return the order of a build.

    Raises:
        InvalidInputError: a field is invalid; the error names it.
        HttpError: 403 when the order is not for the tenant of its assertion, or when the caller
            is not a parent.
    """
    # Clients create servers at the same path, so the operation declares the clients' body. A
    # parent's body therefore bypasses `Call.body`, and its depth is checked here.
    check_depth(call.raw_body, call.parts.limits.json_depth_max)
    message = decode(call.raw_body, BuildMessage)
    await _check_request(call, message.request, message.group)
    extra = _check_texts(message.request, message.metadata, message.extra)
    check_form(ID, message.reservation_id, "reservation_id")
    _check_uuids((one.uuid for one in message.instances), "instances.uuid")
    for one in message.instances:
        check_form(NAME, one.name, "instances.name")
        if len(one.blob) > _BLOB_CHARACTERS_MAX:
            reason = f"has {len(one.blob)} characters; at most {_BLOB_CHARACTERS_MAX} are allowed"
            raise InvalidInputError("instances.blob", reason)
        _check_range(one.sent_ms, _SENT_MS_MAX, "instances.sent_ms")
        _check_range(one.launch_index, COUNT_MAX, "instances.launch_index")
    if message.requested_zone is not None:
        check_form(NAME, message.requested_zone, "requested_zone")
    message = replace(message, extra=extra)
    return message.order(_parent(call), call.parts.clock.now_s())


def release_order(call: Call) -> ReleaseOrder:
    """Return the order of a release, which withdraws only instances of the assertion's tenant.

    Raises:
        InvalidInputError: a field is invalid; the error names it.
        HttpError: 403 when the order names instances although its assertion names no project, or
            when the caller is not a parent.
    """
    message = call.body(ReleaseMessage)
    if message.withdrawn and not call.identity.project_id:
        raise HttpError(
            403, "X-Berth-Zone-Statement must name the project whose instances are withdrawn."
        )
    _check_uuids((one.uuid for one in message.withdrawn), "withdrawn.uuid")
    for one in message.withdrawn:
        _check_range(one.sent_ms, _SENT_MS_MAX, "withdrawn.sent_ms")
    return message.order(_parent(call), call.identity.project_id)


def _parent(call: Call) -> str:
    """Return the name of the parent that signed the request."""
    parent = call.identity.parent
    if parent is None:
        raise HttpError(403, "Only a parent zone may send this request.")
    return parent


async def _check_request(call: Call, request: RequestMessage, group: GroupMessage | None) -> None:
    identity = call.identity
    # The caller has the rights of the tenant in the signed assertion, so the order must be for that
    # tenant.
    if (request.project_id, request.user_id) != (identity.project_id, identity.user_id):
        raise HttpError(
            403,
            "request.project_id and request.user_id must be those of X-Berth-Zone-Statement.",
        )
    check_form(ID, request.request_id, "request.request_id")
    check_received(request.flavor, request.image)
    naming = host_naming_field(request)
    if naming is not None:
        reason = "selects hosts by name, address or uuid, which a parent must not do; leave it out"
        raise InvalidInputError(f"request.{naming}", reason)
    check_form(FLAVOR_ID, request.flavor.flavor_id or "-", "request.flavor.flavor_id")
    if request.availability_zone is not None:
        check_form(NAME, request.availability_zone, "request.availability_zone")
    if request.name:
        check_form(NAME, request.name, "request.name")
    if request.metadata:
        decode(encode({"metadata": request.metadata}), AssertedMetadata)
    if request.group_uuid != (None if group is None else group.uuid):
        raise InvalidInputError(
            "group", "must be the group of request.group_uuid, or null if that is null"
        )
    if group is not None:
        await _check_group(call, group)


async def _check_group(call: Call, group: GroupMessage) -> None:
    """Refuse a malformed group, or a group that belongs to another project in either zone."""
    check_form(UUID, group.uuid, "group.uuid")
    check_form(NAME, group.name, "group.name")
    if not 1 <= group.max_server_per_host <= _POSITION_MAX:
        raise InvalidInputError(
            "group.max_server_per_host",
            f"must be between 1 and {_POSITION_MAX}, not {group.max_server_per_host}",
        )
    known = await call.parts.ledger.get(ServerGroup, group.uuid)
    owners = {group.project_id, group.project_id if known is None else known.project_id}
    if owners != {call.identity.project_id}:
        raise InvalidInputError("group", f"server group {group.uuid} could not be found")


def _check_texts(
    request: RequestMessage, metadata: Mapping[str, str], extra: Mapping[str, object]
) -> dict[str, object]:
    """Refuse strings that a client could not have sent; return the accepted part of `extra`.

    This zone also stores its own fields in `extra`, such as locks, which parents must not set.
    """
    if not (request.hints or metadata or extra):
        return {}
    for key in request.hints:
        if key.startswith(_OWN_HINTS):
            raise InvalidInputError(f"request.hints.{key[:80]}", "is reserved; leave it out")
    # The model has the limits of a client's request, and decoding drops fields that it lacks.
    texts = {"metadata": metadata, "extra": extra, "hints": request.hints}
    read = decode(encode(texts), AssertedTexts).extra
    named = ((name, getattr(read, name)) for name in read.__struct_fields__)
    return {name: value for name, value in named if value is not UNSET}


def _check_uuids(uuids: Iterable[str], field: str) -> None:
    for uuid in uuids:
        check_form(UUID, uuid, field)


def check_form(pattern: re.Pattern[str], text: str, field: str) -> None:
    """Check that a text from a parent zone matches one of the patterns of this module.

    Raises:
        InvalidInputError: it does not match; the error names `field` and describes the pattern.
    """
    if pattern.fullmatch(text) is None:
        raise InvalidInputError(field, f"{text[:80]!r} must {_FORMS[pattern]}")


def _check_range(value: int, most: int, field: str) -> None:
    if not 0 <= value <= most:
        raise InvalidInputError(field, f"must be between 0 and {most}, not {value}")
