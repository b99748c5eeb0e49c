"""The config drive: a small disk with the metadata, keys, user data and files of a guest.

Its format is that of OpenStack's config drives, which cloud-init reads: an ISO 9660 file system
with the label `config-2`.
"""

import base64
import binascii
import json
from collections.abc import Iterator
from itertools import count
from typing import Final, cast

from berth.adapters.virt.iso9660 import iso_image
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import HAS_CONFIG_DRIVE, Instance, hostname_of

CONFIG: Final = "config"
"""The name of the config drive among the disks of a guest."""

SIZE_BYTES: Final = 1024 * 1024
"""The size of every config drive. Both sides of a live migration need disks of the same size."""

_LABEL: Final = "config-2"
_FOLDER: Final = "openstack/latest"


def config_drive_of(instance: Instance) -> bytes | None:
    """Return the content of an instance's config drive, or None if it has none.

    Raises:
        BuildError: the content is too large for a config drive.
    """
    if not instance.extra.get(HAS_CONFIG_DRIVE):
        return None
    files = {
        f"{_FOLDER}/meta_data.json": _json(_metadata(instance)),
        f"{_FOLDER}/network_data.json": _json({"links": [], "networks": [], "services": []}),
        f"{_FOLDER}/vendor_data.json": b"{}",
    }
    if user_data := _user_data(instance):
        files[f"{_FOLDER}/user_data"] = user_data
    for place, (_, content) in zip(_places(), _files(instance), strict=False):
        files[f"openstack/{place}"] = content
    content = iso_image(_LABEL, files)
    if len(content) > SIZE_BYTES:
        reason = f"the config drive needs {len(content)} bytes, but has only {SIZE_BYTES}"
        raise BuildError(f"{reason}; use less metadata, user data or files", blames_host=False)
    return content.ljust(SIZE_BYTES, b"\0")


def _metadata(instance: Instance) -> dict[str, object]:
    found: dict[str, object] = {
        "uuid": instance.uuid,
        "name": instance.name,
        "hostname": hostname_of(instance),
        "launch_index": instance.launch_index,
        "availability_zone": instance.requested_zone or "",
        "project_id": instance.project_id,
        "meta": dict(instance.metadata),
        "devices": [],
    }
    if entries := _files(instance):
        found["files"] = [
            {"path": path, "content_path": f"/{place}"}
            for place, (path, _) in zip(_places(), entries, strict=False)
        ]
    key = instance.extra.get("key_data")
    if isinstance(key, str):
        name = str(instance.extra.get("key_name"))
        kind = str(instance.extra.get("key_type", "ssh"))
        found["public_keys"] = {name: key}
        found["keys"] = [{"name": name, "type": kind, "data": key}]
    return found


def _places() -> Iterator[str]:
    """Yield the paths of injected files on the drive, such as `content/0000`, below `openstack`."""
    return (f"content/{number:04}" for number in count())


def _files(instance: Instance) -> list[tuple[str, bytes]]:
    """Return the path and the content of each file to inject.

    Raises:
        BuildError: the contents of a file are not valid base64.
    """
    found = instance.extra.get("files")
    entries = cast("list[dict[str, str]]", found) if isinstance(found, list) else []
    return [(one["path"], _decoded(one["contents"], "a file")) for one in entries]


def _user_data(instance: Instance) -> bytes:
    text = instance.extra.get("user_data")
    if not isinstance(text, str):
        return b""
    return _decoded(text, "the user data")


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError) as error:
        reason = f"cannot make the config drive: {what} is not valid base64; encode it in base64"
        raise BuildError(reason, blames_host=False) from error


def _json(document: dict[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()
