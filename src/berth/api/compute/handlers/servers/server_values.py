"""Checks the fields of servers beyond what the schemas express."""

import base64
import binascii
import re
from collections.abc import Sequence, Sized
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from berth.api.codec import UNSET, UnsetType
from berth.api.compute.schemas.server_actions import Rebuild
from berth.api.compute.schemas.servers import (
    METADATA_MAX,
    BlockDevice,
    File,
    NewServer,
    ServerChange,
)
from berth.api.compute.views.servers import Extra, InjectedFile
from berth.api.errors import HttpError
from berth.api.microversion import Version
from berth.api.routing import Call
from berth.api.values import check_edges
from berth.domain.compute.flavor import Image
from berth.domain.errors import InvalidInputError

# Microversion 2.94 allows fully qualified host names; before 2.94 a host name is one DNS label.
_FULL_HOSTNAMES: Final = (2, 94)
_LABEL_MAX: Final = 63
_LABEL: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-]*")
_NAMES: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9.-]*")
_LOCAL: Final = "local"
# The property of images that says how disks are partitioned; Nova reads the same one.
_DISK_CONFIG: Final = "auto_disk_config"
_TRUE: Final = frozenset({"1", "t", "true", "on", "y", "yes"})


def check_values(
    fields: NewServer | ServerChange | Rebuild, prefix: str, version: Version | None
) -> None:
    """Refuse field values that Nova refuses.

    Args:
        fields: the part of the body that contains the fields.
        prefix: the name of that part (`server`, `rebuild`).
        version: the microversion of the request, or None for the newest.

    Raises:
        InvalidInputError: a value is invalid; the error names the field and the reason.
    """
    check_edges(fields.name, f"{prefix}.name")
    if fields.hostname is not UNSET:
        _check_hostname(fields.hostname, f"{prefix}.hostname", version)
    # As in Nova, an update accepts an empty address.
    may_be_empty = isinstance(fields, ServerChange)
    for text, field, kind in (
        (fields.access_ipv4, "accessIPv4", IPv4Address),
        (fields.access_ipv6, "accessIPv6", IPv6Address),
    ):
        if text is not UNSET and not (may_be_empty and not text):
            _check_address(text, f"{prefix}.{field}", kind)
    if isinstance(fields, ServerChange):
        return
    check_metadata(fields.metadata)
    if fields.user_data is not UNSET and fields.user_data is not None:
        _check_base64(fields.user_data, f"{prefix}.user_data")
    certificates = fields.trusted_image_certificates
    if certificates is not UNSET and certificates is not None:
        _check_certificates(certificates, f"{prefix}.trusted_image_certificates")


def stored_values(fields: NewServer | ServerChange | Rebuild) -> Extra:
    """Return the access addresses and the disk configuration that a request sets.

    The result has the keys of `Instance.extra`. An empty address is kept, because it replaces the
    one that the server has.
    """
    extra: Extra = {}
    if fields.disk_config is not UNSET:
        extra["disk_config"] = fields.disk_config
    if fields.access_ipv4 is not UNSET:
        extra["access_ipv4"] = _canonical(fields.access_ipv4, IPv4Address)
    if fields.access_ipv6 is not UNSET:
        extra["access_ipv6"] = _canonical(fields.access_ipv6, IPv6Address)
    return extra


def is_partitioned(image: Image) -> bool:
    """Return whether servers of an image have the disk configuration AUTO by default."""
    return image.properties.get(_DISK_CONFIG, "").strip().lower() in _TRUE


def check_metadata(metadata: Sized | UnsetType) -> None:
    """Refuse more metadata items than a server can have, with Nova's status for an excess.

    Raises:
        HttpError: 403 when there are more than `METADATA_MAX`.
    """
    if metadata is not UNSET and len(metadata) > METADATA_MAX:
        raise HttpError(403, f"A server can have at most {METADATA_MAX} metadata items.")


def check_metadata_quota(call: Call, project_id: str, count: int, had: int = 0) -> None:
    """Refuse more metadata items than the quota of a project allows for one server.

    A server that has more, since the quota was lowered, may keep them and lose some.

    Args:
        call: the request.
        project_id: the project of the server.
        count: the number of items after the change.
        had: the number of items before the change.

    Raises:
        HttpError: 403 when there would be more, and more than before.
    """
    limit = call.parts.quotas.metadata_items(project_id)
    if count > limit and count > had:
        raise HttpError(403, f"Maximum number of metadata items exceeds {limit}")


def check_disk_config(value: str | UnsetType, image: Image | None, field: str) -> None:
    """Refuse the disk configuration AUTO for an image that disables it, as Nova does.

    Raises:
        InvalidInputError: the image disables the requested value.
    """
    if value != "AUTO" or image is None:
        return
    if image.properties.get(_DISK_CONFIG, "").strip().lower() == "disabled":
        raise InvalidInputError(
            field, f"the image {image.image_id[:80]!r} disables AUTO; use MANUAL or leave it out"
        )


def files_of(
    call: Call, project_id: str, files: Sequence[File] | UnsetType, field: str
) -> list[InjectedFile]:
    """Check the files to inject into a server, and return them as Berth stores them.

    Args:
        call: the request.
        project_id: the project of the server, whose quota applies.
        files: the files in the request.
        field: the name of the field in error messages.

    Raises:
        InvalidInputError: the contents of a file are not valid base64.
        HttpError: the files exceed the quota in number, length of path or size (403).
    """
    if files is UNSET or not files:
        return []
    for index, file in enumerate(files):
        _check_base64(file.contents, f"{field}[{index}].contents")
    limits = call.parts.quotas.of_files(project_id)
    # The messages and the order of the checks are Nova's, and so is the unit of the content limit:
    # characters of base64.
    if len(files) > limits.files:
        raise HttpError(403, f"Personality file limit exceeded: at most {limits.files} are allowed")
    if max(len(file.path.encode()) for file in files) > limits.path_bytes:
        raise HttpError(403, f"Personality file path exceeds maximum {limits.path_bytes}")
    if max(len(file.contents) for file in files) > limits.content_bytes:
        raise HttpError(403, f"Personality file content exceeds maximum {limits.content_bytes}")
    return [InjectedFile(path=file.path, contents=file.contents) for file in files]


def _canonical(text: str, kind: type[IPv4Address | IPv6Address]) -> str:
    return str(kind(text)) if text else ""


def check_attachments(server: NewServer) -> None:
    """Refuse volumes, networks and ports, because the server would lack them.

    Raises:
        InvalidInputError: a field names one of these; the error names the field.
    """
    if server.networks is not UNSET and not isinstance(server.networks, str):
        for index, network in enumerate(server.networks):
            if any(
                text is not UNSET and text
                for text in (network.uuid, network.port, network.fixed_ip)
            ):
                reason = "names a network, but Berth has no networks; use none or auto"
                raise InvalidInputError(f"server.networks[{index}]", reason)
    if server.block_device_mapping is not UNSET:
        for index, old in enumerate(server.block_device_mapping):
            if old.volume_id or old.snapshot_id:
                _refuse_volume(f"server.block_device_mapping[{index}]")
    if server.block_device_mapping_v2 is not UNSET:
        for index, device in enumerate(server.block_device_mapping_v2):
            if _is_volume(device):
                _refuse_volume(f"server.block_device_mapping_v2[{index}]")


def _is_volume(device: BlockDevice) -> bool:
    """Return whether a device has a volume as its source, or a destination other than `local`."""
    if device.volume_id or device.snapshot_id or device.source_type in {"volume", "snapshot"}:
        return True
    return device.destination_type not in {None, "", _LOCAL}


def _refuse_volume(field: str) -> None:
    raise InvalidInputError(field, "requests a volume, but Berth has no volumes; leave it out")


def _check_hostname(text: str, field: str, version: Version | None) -> None:
    may_be_full = version is None or version >= _FULL_HOSTNAMES
    pattern = _NAMES if may_be_full else _LABEL
    is_short = may_be_full or len(text) <= _LABEL_MAX
    if not (is_short and pattern.fullmatch(text) and text[-1].isalnum()):
        what = (
            "letters, digits, hyphens and dots"
            if may_be_full
            else f"at most {_LABEL_MAX} letters, digits and hyphens"
        )
        reason = f"{text[:80]!r} must consist of {what}, with a letter or digit at both ends"
        raise InvalidInputError(field, reason)


def _check_address(text: str, field: str, kind: type[IPv4Address | IPv6Address]) -> None:
    try:
        kind(text)
    except ValueError as error:
        raise InvalidInputError(field, f"{text[:80]!r} is not a valid address") from error


def _check_base64(text: str, field: str) -> None:
    try:
        base64.b64decode(text.encode("ascii"))
    except (binascii.Error, ValueError) as error:
        raise InvalidInputError(field, "is not valid base64") from error


def _check_certificates(ids: Sequence[str], field: str) -> None:
    if not ids or "" in ids:
        raise InvalidInputError(
            field, "must name at least one certificate and no empty id, or be null"
        )
    if len(set(ids)) != len(ids):
        raise InvalidInputError(field, "names a certificate more than once; name each once")
