"""Translates the body of POST /servers into a `CreateOrder`."""

import uuid
from collections.abc import Mapping
from typing import Final, NamedTuple

from berth.api.codec import UNSET, UnsetType
from berth.api.compute.handlers.servers.server_keys import key_called, with_config_drive
from berth.api.compute.handlers.servers.server_values import (
    check_attachments,
    check_disk_config,
    check_metadata_quota,
    check_values,
    files_of,
    is_partitioned,
    stored_values,
)
from berth.api.compute.schemas.servers import BlockDevice, NewServer, NewServerBody
from berth.api.compute.views.servers import Extra, InjectedFile
from berth.api.errors import HttpError
from berth.api.fleet import host_of_node
from berth.api.microversion import Version, text_of
from berth.api.routing import Call
from berth.api.values import Flag, flag, whole
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import COUNT_MAX, HIDDEN_ID, Destination
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.domain.uuids import canonical_uuid, is_uuid
from berth.domain.zones.zone import RemoteInstance
from berth.services.servers.instances import CreateOrder

# The namespace of the request ids that are derived from idempotency keys. If it changed, a repeated
# request would no longer find the servers of the first one.
_KEYS = uuid.UUID("b3f0a1de-6a0e-5f0c-9a53-0a6f3a7a1c55")
_KEY_MAX = 255
# The prefix of Nova's internal hints, such as `_nova_check_type` (nova-behaviour.md 2.2).
_OWN_HINTS = "_nova_"
_SERVER_HINTS = frozenset({"same_host", "different_host"})
_HINTS = "hints."
_NETWORKS_REQUIRED = (2, 37)
_NO_NETWORKS: Final = "none"
_PERSONALITY_GONE = (2, 57)
# Attributes of `NewServer`, the fields that they stand for, and the microversions that add these.
_SINCE: tuple[tuple[str, str, Version], ...] = (
    ("description", "description", (2, 19)),
    ("tags", "tags", (2, 52)),
    ("trusted_image_certificates", "trusted_image_certificates", (2, 63)),
    ("host", "host", (2, 74)),
    ("hypervisor_hostname", "hypervisor_hostname", (2, 74)),
    ("hostname", "hostname", (2, 90)),
)
_NEWEST = max(since for _, _, since in _SINCE)
# The names of fields in the request, by their names in the service's errors.
_SERVICE_FIELDS = {
    "flavorRef": "server.flavorRef",
    "availability_zone": "server.availability_zone",
    "host": "server.host",
    "count": "server.max_count",
}


class Asked(NamedTuple):
    """An order, and the parts of its request that the response depends on.

    `hint_fields` maps the name of each hint to the field of the request that contained it.
    `admin_pass` is the password in the request, if any.
    """

    order: CreateOrder
    reservation_only: bool
    security_groups: tuple[str, ...]
    hint_fields: Mapping[str, str]
    admin_pass: str | None = None

    def named_as_sent(self, error: InvalidInputError) -> InvalidInputError:
        """Return an error of the service with the field named as in the body of the request."""
        if error.field.startswith(_HINTS):
            field = self.hint_fields.get(error.field.removeprefix(_HINTS))
        else:
            field = _SERVICE_FIELDS.get(error.field)
        return error if field is None else InvalidInputError(field, error.reason)


async def read_order(
    call: Call, version: Version | None, body: NewServerBody | None = None
) -> Asked:
    """Return the order in the body of POST /servers.

    Args:
        call: the request.
        version: the microversion whose fields are accepted, or None to accept all fields.
        body: the parsed body, or None to parse that of the request.

    Raises:
        InvalidInputError: a field is invalid; the error names the field and the reason.
        HttpError: 403 when the order contains a field that only administrators may use.
    """
    body = body or call.body(NewServerBody)
    server = body.server
    if version is not None:
        _check_version(server, version)
    check_values(server, "server", version)
    if server.metadata is not UNSET:
        check_metadata_quota(call, call.identity.project_id, len(server.metadata))
    check_attachments(server)
    files = files_of(call, call.identity.project_id, server.personality, "server.personality")
    request_id, may_repeat = _request_id(call)
    hints, hint_fields = _hints(body)
    # As in Nova, a reference is an id or a link that ends in an id.
    flavor_id = str(server.flavor_ref).rstrip("/").rpartition("/")[2]
    await check_flavor(call, flavor_id, "server.flavorRef")
    await _check_group(call, hints, hint_fields)
    await _hide_foreign(call, hints)
    groups = () if server.security_groups is UNSET else server.security_groups
    image = await _image(call, server)
    check_disk_config(server.disk_config, image, "server.OS-DCF:diskConfig")
    order = CreateOrder(
        request_id=request_id,
        name=server.name,
        flavor_id=flavor_id,
        project_id=call.identity.project_id,
        user_id=call.identity.user_id,
        count=_count(server),
        count_min=_count_min(server),
        image=image,
        zone=_zone(call, server),
        hints=hints,
        destination=_destination(call, server),
        may_repeat=may_repeat,
        metadata={} if server.metadata is UNSET else server.metadata,
        extra={
            **with_config_drive(
                {**_extra(server, image), **_files(files), **await _key(call, server)}
            )
        },
    )
    return Asked(
        order=order,
        reservation_only=_flag(server.return_reservation_id, "return_reservation_id"),
        security_groups=tuple([group.name for group in groups]),
        hint_fields=hint_fields,
        admin_pass=None if server.admin_pass is UNSET else server.admin_pass,
    )


async def image_called(call: Call, image_id: str, field: str) -> Image:
    """Return the configured image or the image of a server with an id.

    If no images are configured, any id is accepted that is not of another project's server.

    Raises:
        InvalidInputError: images are configured, but none has this id; or the image of a server
            is not complete, or belongs to another project.
    """
    images, of_servers = call.parts.images, call.parts.server_images
    if (image := images.get(image_id)) is not None:
        return image
    # Another spelling of the id of a server's image must not pass as an unknown image, which would
    # be accepted without a check of its project.
    image_id = canonical_uuid(image_id)
    if (image := images.get(image_id)) is not None:
        return image
    found = of_servers.bootable(image_id, call.project_id)
    if found is None and is_uuid(image_id):
        await call.parts.follower.catch_up()  # the image may be new
        found = of_servers.bootable(image_id, call.project_id)
    if found is not None:
        return found.image
    if images or of_servers.is_known(image_id):
        raise InvalidInputError(field, f"image {image_id[:80]!r} could not be found")
    return Image(image_id)


def _check_version(server: NewServer, version: Version) -> None:
    # Most clients send a microversion that has all these fields, so the loop is skipped for those.
    for attribute, name, since in _SINCE if version < _NEWEST else ():
        if version < since and getattr(server, attribute) is not UNSET:
            reason = f"requires microversion {text_of(since)} or later"
            raise InvalidInputError(f"server.{name}", reason)
    if version >= _PERSONALITY_GONE and server.personality is not UNSET:
        raise InvalidInputError(
            "server.personality", "was removed in microversion 2.57; leave it out"
        )
    networks = server.networks
    if version >= _NETWORKS_REQUIRED and networks is UNSET:
        reason = "is required from microversion 2.37 on; use none, auto or a list"
        raise InvalidInputError("server.networks", reason)
    if isinstance(networks, str) and (
        version < _NETWORKS_REQUIRED or networks not in {_NO_NETWORKS, "auto"}
    ):
        raise InvalidInputError(
            "server.networks",
            f"must be a list or, from 2.37 on, none or auto, not {networks[:80]!r}",
        )


def _request_id(call: Call) -> tuple[str, bool]:
    """Return the request id of the order, and whether the order may be repeated.

    An Idempotency-Key determines the id, so that a repeated request finds the servers of the first.
    The order's id also becomes the id of the request itself.

    Raises:
        InvalidInputError: the Idempotency-Key is malformed.
    """
    key = call.header(b"idempotency-key")
    if key is None:
        return call.request_id, False
    if not (0 < len(key) <= _KEY_MAX and key.isascii() and key.isprintable()):
        reason = f"must consist of 1 to {_KEY_MAX} printable ASCII characters"
        raise InvalidInputError("Idempotency-Key", reason)
    # Keys of two projects must never collide. A key has no newline, so the pair is unambiguous.
    name = f"{call.identity.project_id}\n{key}"
    call.repeat(f"req-{uuid.uuid5(_KEYS, name)}")
    return call.request_id, True


def _count_min(server: NewServer) -> int:
    """Return the minimum number of servers to create if the quota does not allow `max_count`."""
    return 1 if server.min_count is UNSET else whole(server.min_count, "server.min_count", low=1)


def _count(server: NewServer) -> int:
    """Return the number of servers to create, if the quota allows them.

    Raises:
        InvalidInputError: a count is out of range, `min_count` is above `max_count`, or more than
            one server would have the requested host name.
    """
    low = _count_min(server)
    if server.max_count is UNSET:
        field, count = "server.min_count", low
    else:
        field, count = "server.max_count", whole(server.max_count, "server.max_count", low=1)
    if count < low:
        raise InvalidInputError(
            "server.min_count", f"must be at most max_count ({count}), not {low}"
        )
    if count > COUNT_MAX:
        raise InvalidInputError(field, f"must be between 1 and {COUNT_MAX}, not {count}")
    if count > 1 and server.hostname is not UNSET:
        raise InvalidInputError(
            "server.hostname",
            "is allowed for one server only, because all would have the same host name",
        )
    return count


async def _image(call: Call, server: NewServer) -> Image | None:
    ref = "" if server.image_ref is UNSET else server.image_ref
    if ref:
        return await image_called(call, ref.rstrip("/").rpartition("/")[2], "server.imageRef")
    # A client that boots from an image through a block device names the image in that device.
    devices = () if server.block_device_mapping_v2 is UNSET else server.block_device_mapping_v2
    for index, device in enumerate(devices):
        image_id = device.image_id or device.uuid
        if _is_boot(device) and device.source_type == "image" and image_id:
            field = "image_id" if device.image_id else "uuid"
            where = f"server.block_device_mapping_v2[{index}].{field}"
            return await image_called(call, image_id, where)
    return None


def _is_boot(device: BlockDevice) -> bool:
    return device.boot_index is not None and int(device.boot_index) == 0


def _zone(call: Call, server: NewServer) -> str | None:
    zone = server.availability_zone
    if zone is UNSET or not zone:
        return None
    # `ZONE:HOST[:NODE]` forces a host and skips most filters, but a host in `host` must pass all
    # filters. The two would contradict each other.
    if ":" in zone:
        _admins_only(call, "availability_zone with a host")
        if server.host is not UNSET or server.hypervisor_hostname is not UNSET:
            raise InvalidInputError(
                "server.availability_zone",
                "must not name a host together with host or hypervisor_hostname",
            )
    return zone


def _destination(call: Call, server: NewServer) -> Destination | None:
    host, node = server.host, server.hypervisor_hostname
    if host is UNSET and node is UNSET:
        return None
    _admins_only(call, "host and hypervisor_hostname")
    if node is UNSET:
        return None if host is UNSET else Destination(host)
    if host is not UNSET:
        return Destination(host, node)
    try:
        return Destination(host_of_node(call.parts, node), node)
    except NotFoundError as error:
        raise InvalidInputError("server.hypervisor_hostname", str(error)) from error


def _admins_only(call: Call, what: str) -> None:
    if not call.identity.is_admin:
        raise HttpError(403, f"Only administrators may use {what}.")


def _hints(body: NewServerBody) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the hints of a request by name, and the field from which each was read."""
    hints: dict[str, tuple[str, ...]] = {}
    fields: dict[str, str] = {}
    for prefix, given in (
        ("OS-SCH-HNT:scheduler_hints", body.other_hints),
        ("os:scheduler_hints", body.hints),
    ):
        if given is UNSET:
            continue
        for key, value in given.items():
            field = fields[key] = f"{prefix}.{key}"
            if key.startswith(_OWN_HINTS):
                # A hint with this prefix makes the scheduler run only some of its filters, so a
                # client could use it to bypass the others.
                raise InvalidInputError(field, "is reserved; leave it out")
            match value:
                case str():
                    hints[key] = (value,)
                case list():
                    hints[key] = tuple(value)
                case _:
                    raise InvalidInputError(field, "must be a string or a list of strings")
            if key in _SERVER_HINTS:
                hints[key] = tuple(_server_id(one, field) for one in hints[key])
    return hints, fields


def _server_id(text: str, field: str) -> str:
    """Return the canonical form of a server's id in a hint.

    Raises:
        InvalidInputError: the string is not a uuid, so the filter would never find the server.
    """
    try:
        return str(uuid.UUID(text))
    except ValueError as error:
        raise InvalidInputError(
            field, f"{text[:80]!r} is not the id of a server; use the server's uuid"
        ) from error


async def check_flavor(call: Call, flavor_id: str, field: str) -> None:
    """Refuse a private flavor to which the caller has no access, as if it did not exist.

    Raises:
        InvalidInputError: the caller may not use the flavor; the error names `field`.
        UnavailableError: the ledger cannot be reached.
    """
    if call.identity.is_admin:
        return
    replica = call.parts.replica
    # Catching up costs a round trip, so it happens only if the replica does not know the flavor,
    # which may be new. If it is still unknown, the service refuses it. The same holds for groups.
    if flavor_id not in replica.flavors:
        await call.parts.follower.catch_up()
    flavor = replica.flavors.get(flavor_id)
    if flavor is not None and not await call.parts.flavors.may_use(flavor, call.project_id):
        raise InvalidInputError(field, f"flavor {flavor_id[:80]!r} could not be found")


async def _check_group(
    call: Call, hints: Mapping[str, tuple[str, ...]], fields: Mapping[str, str]
) -> None:
    """Refuse a group of another project as if it did not exist, except for administrators."""
    group = next(iter(hints.get("group", ())), "")
    if call.identity.is_admin or not group:
        return
    replica = call.parts.replica
    if group not in replica.hosts.server_groups:
        await call.parts.follower.catch_up()
    found = replica.hosts.server_groups.get(group)
    if found is not None and found.project_id != call.identity.project_id:
        raise InvalidInputError(fields["group"], f"server group {group[:80]!r} could not be found")


async def _hide_foreign(call: Call, hints: dict[str, tuple[str, ...]]) -> None:
    """Mark the servers of other projects in hints, so that rules treat them as if unknown.

    Otherwise a tenant could test whether a guessed id is that of a server, and which of its own
    servers share a host with it. Administrators see all servers.
    """
    if call.identity.is_admin:
        return
    for hint in _SERVER_HINTS & hints.keys():
        hints[hint] = tuple([await _marked(call, uuid) for uuid in hints[hint]])


async def _marked(call: Call, uuid: str) -> str:
    """Return the id of a server, with a mark if the server belongs to another project."""
    ledger = call.parts.ledger
    found = await ledger.get(Instance, uuid) or await ledger.get(RemoteInstance, uuid)
    is_foreign = found is not None and found.project_id != call.identity.project_id
    return f"{HIDDEN_ID}{uuid}" if is_foreign else uuid


def _files(files: list[InjectedFile]) -> Extra:
    return {"files": files} if files else {}


def _extra(server: NewServer, image: Image | None) -> Extra:
    """Return the fields that Berth stores for responses and drivers; no rule reads them."""
    extra: Extra = stored_values(server)
    if server.networks == _NO_NETWORKS:
        extra["networks"] = _NO_NETWORKS
    if "disk_config" not in extra and image is not None and is_partitioned(image):
        extra["disk_config"] = "AUTO"
    if server.description is not UNSET:
        extra["description"] = server.description
    if server.user_data is not UNSET:
        extra["user_data"] = server.user_data
    if _flag(server.config_drive, "config_drive"):
        extra["config_drive"] = True
    if server.tags is not UNSET:
        # Repeated tags are dropped, and the order of the request is kept.
        extra["tags"] = list(dict.fromkeys(server.tags))
    if server.security_groups is not UNSET:
        extra["security_groups"] = [group.name for group in server.security_groups]
    if server.hostname is not UNSET:
        extra["hostname"] = server.hostname
    if server.trusted_image_certificates is not UNSET:
        extra["trusted_image_certificates"] = server.trusted_image_certificates
    return extra


async def _key(call: Call, server: NewServer) -> Extra:
    if server.key_name is UNSET or server.key_name is None:
        return {}
    return (await key_called(call, server.key_name, "server.key_name")).extra


def _flag(value: Flag | UnsetType, name: str) -> bool:
    return False if value is UNSET else flag(value, f"server.{name}")
