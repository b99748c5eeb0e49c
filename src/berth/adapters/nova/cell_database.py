"""Reads the database of a cell: services, compute nodes, and servers with all their parts."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec

from berth.adapters.nova.api_database import RequestFacts, flavor_of, seconds
from berth.adapters.nova.compute_api import cpu_info_of
from berth.adapters.nova.nova_tables import Row, TableReader
from berth.adapters.nova.server_records import ServerFacts, findings_of, instance_of
from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Fault, Instance
from berth.domain.compute.observed import NOVA, OBSERVED_IN
from berth.ports.nova import ImportFinding, ImportKind

# Several tables have a row or more for each server of a page.
_PAGE: Final = 500
_EXTRA: Final = (
    "SELECT instance_uuid AS owner, flavor, trusted_certs FROM instance_extra"
    " WHERE instance_uuid IN :uuids AND deleted = 0"
)
_METADATA: Final = (
    "SELECT instance_uuid AS owner, `key`, value FROM instance_metadata"
    " WHERE instance_uuid IN :uuids AND deleted = 0"
)
_SYSTEM: Final = (
    "SELECT instance_uuid AS owner, `key`, value FROM instance_system_metadata"
    " WHERE instance_uuid IN :uuids AND deleted = 0"
)
_TAGS: Final = "SELECT resource_id AS owner, tag FROM tags WHERE resource_id IN :uuids"
_NETWORKS: Final = (
    "SELECT instance_uuid AS owner, network_info FROM instance_info_caches"
    " WHERE instance_uuid IN :uuids AND deleted = 0"
)
_VOLUMES: Final = (
    "SELECT instance_uuid AS owner, COUNT(*) AS number FROM block_device_mapping"
    " WHERE instance_uuid IN :uuids AND deleted = 0 AND destination_type = 'volume'"
    " GROUP BY instance_uuid"
)
_FAULTS: Final = (
    "SELECT instance_uuid AS owner, code, message, details, created_at FROM instance_faults"
    " WHERE instance_uuid IN :uuids AND deleted = 0 ORDER BY created_at, id"
)
_IMAGE: Final = "image_"
# Nova stores these keys among the image properties, although they do not describe the image.
_NO_PROPERTIES: Final = frozenset(
    {"base_image_ref", "min_ram", "min_disk", "disk_format", "container_format"}
)


@dataclass(slots=True)
class CellRecords:
    """The contents of a cell database, as records of Berth; see `NovaCloud`."""

    hosts: list[Host] = field(default_factory=list[Host])
    services: list[Service] = field(default_factory=list[Service])
    servers: list[Instance] = field(default_factory=list[Instance])
    findings: list[ImportFinding] = field(default_factory=list[ImportFinding])


@dataclass(frozen=True, slots=True)
class _Parts:
    """The rows of a page of servers in other tables, by the UUID of the server."""

    flavors: Mapping[str, Flavor]
    certificates: Mapping[str, list[str]]
    metadata: Mapping[str, dict[str, str]]
    system: Mapping[str, dict[str, str]]
    tags: Mapping[str, list[str]]
    networks: Mapping[str, int]
    volumes: Mapping[str, int]
    faults: Mapping[str, Fault]


async def read_cell_database(
    tables: TableReader, requests: Mapping[str, RequestFacts]
) -> CellRecords:
    """Return the records of a cell database.

    Args:
        tables: the database.
        requests: the facts from the API database, by the UUID of the server.

    Raises:
        InvalidInputError: the schema is not that of a cell database of a supported Nova release.
    """
    found = CellRecords()
    await _read_hosts(tables, found)
    last = 0
    while True:
        rows = await tables.rows(
            "SELECT * FROM instances WHERE deleted = 0 AND id > :last ORDER BY id LIMIT :page",
            last=last,
            page=_PAGE,
        )
        if not rows:
            return found
        last = rows[-1]["id"]
        # Nova hides the second record of a server that is moved to another cell.
        shown = [row for row in rows if not row["hidden"]]
        parts = await _parts(tables, [row["uuid"] for row in shown]) if shown else None
        for row in shown:
            if parts is not None:
                _add_server(found, row, parts, requests.get(row["uuid"]))


async def _read_hosts(tables: TableReader, found: CellRecords) -> None:
    services = await tables.rows(
        "SELECT uuid, host, disabled, disabled_reason FROM services"
        " WHERE deleted = 0 AND `binary` = 'nova-compute'"
    )
    found.services = [
        Service(
            host=row["host"],
            service_id=row["uuid"],
            disabled=bool(row["disabled"]),
            disabled_reason=row["disabled_reason"] if row["disabled"] else None,
            # Berth has no agent there; see docs/adr/0042-importing-from-nova.md.
            forced_down=True,
        )
        for row in services
    ]
    nodes = await tables.rows(
        "SELECT uuid, host, hypervisor_hostname, hypervisor_type, hypervisor_version, host_ip,"
        " cpu_info, supported_instances FROM compute_nodes WHERE deleted = 0"
    )
    found.hosts = [
        Host(
            uuid=row["uuid"],
            name=row["host"],
            node=row["hypervisor_hostname"],
            hypervisor_type=row["hypervisor_type"] or "",
            hypervisor_version=row["hypervisor_version"] or 0,
            host_ip=address_of(row["host_ip"]),
            cpu_info=cpu_info_of(row["cpu_info"]),
            supported_instances=_supported(row["supported_instances"]),
            stats={OBSERVED_IN: NOVA},
        )
        for row in nodes
    ]


def _supported(found: str | None) -> tuple[tuple[str, str, str], ...]:
    """Return the kinds of guests that a host can run."""
    triples = cast("list[list[str]]", msgspec.json.decode(found or "[]"))
    return tuple((arch, kind, mode) for arch, kind, mode in triples)


def address_of(found: object) -> str:
    """Return an address as text; PostgreSQL returns an object, which may have a prefix."""
    return "" if found is None else str(found).partition("/")[0]


async def _parts(tables: TableReader, uuids: Sequence[str]) -> _Parts:
    extra = await tables.rows(_EXTRA, uuids=uuids)
    volumes = await tables.rows(_VOLUMES, uuids=uuids)
    faults = await tables.rows(_FAULTS, uuids=uuids)
    networks = await tables.rows(_NETWORKS, uuids=uuids)
    tags: defaultdict[str, list[str]] = defaultdict(list)
    for row in await tables.rows(_TAGS, uuids=uuids):
        tags[row["owner"]].append(row["tag"])
    return _Parts(
        flavors={one["owner"]: _embedded(one["flavor"]) for one in extra if one["flavor"]},
        certificates={
            one["owner"]: _certificates(one["trusted_certs"])
            for one in extra
            if one["trusted_certs"]
        },
        metadata=_pairs(await tables.rows(_METADATA, uuids=uuids)),
        system=_pairs(await tables.rows(_SYSTEM, uuids=uuids)),
        tags={owner: sorted(found) for owner, found in tags.items()},
        networks={
            one["owner"]: len(cast("list[object]", msgspec.json.decode(one["network_info"])))
            for one in networks
            if one["network_info"]
        },
        volumes={one["owner"]: one["number"] for one in volumes},
        # Of several faults, the newest is shown.
        faults={
            one["owner"]: Fault(
                one["code"],
                one["message"] or "",
                seconds(one["created_at"]) or 0.0,
                one["details"] or "",
            )
            for one in faults
        },
    )


def _pairs(rows: Iterable[Row]) -> dict[str, dict[str, str]]:
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        found[row["owner"]][row["key"]] = row["value"] or ""
    return dict(found)


def _embedded(text: str) -> Flavor:
    """Return the flavor that a server has now; during a resize others are kept beside it."""
    return flavor_of(msgspec.json.decode(text, type=_Flavors).cur.data)


def _certificates(text: str) -> list[str]:
    found = msgspec.json.decode(text, type=_Object).data
    return [str(one) for one in cast("list[object]", found.get("ids") or [])]


class _Object(msgspec.Struct):
    data: dict[str, Any] = msgspec.field(name="nova_object.data")


class _Flavors(msgspec.Struct):
    cur: _Object


def _add_server(found: CellRecords, row: Row, parts: _Parts, request: RequestFacts | None) -> None:
    uuid = row["uuid"]
    flavor = parts.flavors.get(uuid)
    if flavor is None:
        reason = "has no flavor in its cell's database"
        advice = "run `nova-manage db online_data_migrations`"
        found.findings.append(ImportFinding(ImportKind.SERVER, uuid, reason, advice))
        return
    if request is None:
        reason = "has no request spec, so its availability zone and hints are unknown"
        advice = "check the server; Nova cannot migrate it either"
        found.findings.append(ImportFinding(ImportKind.SERVER, uuid, reason, advice))
    facts = _facts(row, parts, flavor, request or RequestFacts(None, {}))
    found.findings += findings_of(facts)
    instance = instance_of(facts)
    if instance is not None:
        found.servers.append(instance)


def _facts(row: Row, parts: _Parts, flavor: Flavor, request: RequestFacts) -> ServerFacts:
    uuid = row["uuid"]
    system = parts.system.get(uuid, {})
    is_failed = row["vm_state"] == "error"
    lock = {"locked": system.get("locked_reason", "")} if row["locked"] else {}
    if row["locked"] and row["locked_by"]:
        lock["locked_by"] = str(row["locked_by"])
    return ServerFacts(
        uuid=uuid,
        name=row["display_name"] or "",
        project_id=row["project_id"] or "",
        user_id=row["user_id"] or "",
        vm_state=row["vm_state"] or "",
        task_state=row["task_state"],
        flavor=flavor,
        image=image_of(row["image_ref"], system),
        host=row["host"],
        node=row["node"],
        zone=request.zone,
        hints=request.hints,
        metadata=parts.metadata.get(uuid, {}),
        extra=_extra(row, parts),
        lock=lock,
        fault=parts.faults.get(uuid) if is_failed else None,
        reservation_id=row["reservation_id"] or "",
        launch_index=row["launch_index"] or 0,
        networks=parts.networks.get(uuid, 0),
        volumes=parts.volumes.get(uuid, 0),
        created_at_s=seconds(row["created_at"]) or 0.0,
        updated_at_s=seconds(row["updated_at"]) or seconds(row["created_at"]) or 0.0,
        launched_at_s=seconds(row["launched_at"]),
    )


def _extra(row: Row, parts: _Parts) -> dict[str, object]:
    uuid = row["uuid"]
    extra: dict[str, object] = {
        "description": row["display_description"],
        "key_name": row["key_name"],
        "user_data": row["user_data"],
        "tags": parts.tags.get(uuid, []),
        "hostname": row["hostname"],
        "trusted_image_certificates": parts.certificates.get(uuid),
        "access_ipv4": address_of(row["access_ip_v4"]),
        "access_ipv6": address_of(row["access_ip_v6"]),
        "disk_config": "AUTO" if row["auto_disk_config"] else "MANUAL",
    }
    if str(row["config_drive"]).lower() in {"true", "1"}:
        extra |= {"config_drive": True, "has_config_drive": True}
    return extra


def image_of(image_id: str | None, system: Mapping[str, str]) -> Image | None:
    """Return the image of a server with the properties that Nova keeps; None without an image."""
    if not image_id:
        return None
    properties = {
        name.removeprefix(_IMAGE): value
        for name, value in system.items()
        if name.startswith(_IMAGE) and name.removeprefix(_IMAGE) not in _NO_PROPERTIES
    }
    return Image(image_id=image_id, properties=properties)
