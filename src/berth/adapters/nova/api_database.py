"""Reads Nova's API database: flavors, aggregates, groups, quotas, keys and request specs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, cast

import msgspec

from berth.adapters.nova.compute_api import quota_of
from berth.adapters.nova.nova_tables import Row, TableReader
from berth.adapters.nova.server_records import hints_of
from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Flavor, FlavorAccess
from berth.domain.compute.key_pair import KeyPair, KeyRing, KeyType
from berth.domain.compute.quota import CLASS_DEFAULT, Quota
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.ports.nova import ImportFinding, ImportKind

_DEFAULT_CLASS: Final = "default"
_PAGE: Final = 1000


class RequestFacts(NamedTuple):
    """The availability zone and the scheduler hints with which a server was requested."""

    zone: str | None
    hints: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class ApiRecords:
    """The contents of the API database, as records of Berth; see `NovaCloud`."""

    aggregates: list[Aggregate] = field(default_factory=list[Aggregate])
    flavors: list[Flavor] = field(default_factory=list[Flavor])
    flavor_accesses: list[FlavorAccess] = field(default_factory=list[FlavorAccess])
    server_groups: list[ServerGroup] = field(default_factory=list[ServerGroup])
    members: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    quotas: list[Quota] = field(default_factory=list[Quota])
    key_rings: list[KeyRing] = field(default_factory=list[KeyRing])
    requests: dict[str, RequestFacts] = field(default_factory=dict[str, RequestFacts])
    findings: list[ImportFinding] = field(default_factory=list[ImportFinding])


async def read_api_database(tables: TableReader) -> ApiRecords:
    """Return the records of the API database.

    Raises:
        InvalidInputError: the schema is not that of the API database of a supported Nova release.
    """
    found = ApiRecords()
    await _read_aggregates(tables, found)
    await _read_flavors(tables, found)
    await _read_groups(tables, found)
    await _read_quotas(tables, found)
    await _read_keys(tables, found)
    await _read_requests(tables, found)
    return found


async def _read_aggregates(tables: TableReader, found: ApiRecords) -> None:
    hosts = _grouped(await tables.rows("SELECT aggregate_id, host FROM aggregate_hosts"))
    pairs = _pairs(
        await tables.rows("SELECT aggregate_id AS owner, `key`, value FROM aggregate_metadata"),
    )
    rows = await tables.rows("SELECT id, uuid, name, created_at, updated_at FROM aggregates")
    found.aggregates = [
        Aggregate(
            aggregate_id=row["id"],
            uuid=row["uuid"],
            name=row["name"],
            hosts=frozenset(one["host"] for one in hosts[row["id"]]),
            metadata=pairs[row["id"]],
            created_at_s=seconds(row["created_at"]) or 0.0,
            updated_at_s=seconds(row["updated_at"]),
        )
        for row in rows
    ]


async def _read_flavors(tables: TableReader, found: ApiRecords) -> None:
    specs = _pairs(
        await tables.rows("SELECT flavor_id AS owner, `key`, value FROM flavor_extra_specs")
    )
    projects = _grouped(await tables.rows("SELECT flavor_id, project_id FROM flavor_projects"))
    for row in await tables.rows("SELECT * FROM flavors"):
        flavor = flavor_of({**row, "extra_specs": specs[row["id"]]})
        found.flavors.append(flavor)
        if not flavor.is_public:
            names = tuple(sorted(one["project_id"] for one in projects[row["id"]]))
            found.flavor_accesses.append(FlavorAccess(flavor.flavor_id, names))


def flavor_of(row: Mapping[str, Any]) -> Flavor:
    """Return a flavor from a row of the API database, or from the copy that a server has."""
    return Flavor(
        flavor_id=row["flavorid"],
        name=row["name"],
        vcpus=row["vcpus"],
        memory_mb=row["memory_mb"],
        root_gb=row.get("root_gb") or 0,
        ephemeral_gb=row.get("ephemeral_gb") or 0,
        swap_mb=row.get("swap") or 0,
        extra_specs=row.get("extra_specs") or {},
        is_public=bool(row.get("is_public", True)),
        disabled=bool(row.get("disabled")),
        rxtx_factor=float(row.get("rxtx_factor") or 1.0),
        description=row.get("description"),
    )


async def _read_groups(tables: TableReader, found: ApiRecords) -> None:
    members = _grouped(
        await tables.rows("SELECT group_id, instance_uuid FROM instance_group_member ORDER BY id")
    )
    rows = await tables.rows(
        "SELECT g.id, g.uuid, g.name, g.project_id, g.user_id, p.policy, p.rules"
        " FROM instance_groups g LEFT JOIN instance_group_policy p ON p.group_id = g.id"
    )
    known = {str(policy) for policy in GroupPolicy}
    for row in rows:
        if row["policy"] not in known:
            reason = f"has the policy {row['policy']!r}, which Berth does not have"
            advice = "create a group with a policy of its own"
            key = row["uuid"]
            found.findings.append(ImportFinding(ImportKind.SERVER_GROUP, key, reason, advice))
            continue
        rules = cast("dict[str, Any]", msgspec.json.decode(row["rules"] or "{}"))
        found.members[row["uuid"]] = tuple(one["instance_uuid"] for one in members[row["id"]])
        found.server_groups.append(
            ServerGroup(
                uuid=row["uuid"],
                name=row["name"],
                policy=GroupPolicy(row["policy"]),
                project_id=row["project_id"] or "",
                user_id=row["user_id"] or "",
                max_server_per_host=int(rules.get("max_server_per_host", 1)),
            )
        )


async def _read_quotas(tables: TableReader, found: ApiRecords) -> None:
    projects: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for row in await tables.rows("SELECT project_id, resource, hard_limit FROM quotas"):
        projects[row["project_id"]][row["resource"]] = row["hard_limit"]
    for row in await tables.rows("SELECT class_name, resource, hard_limit FROM quota_classes"):
        if row["class_name"] == _DEFAULT_CLASS:
            projects[CLASS_DEFAULT][row["resource"]] = row["hard_limit"]
    quotas = (quota_of(project, limits) for project, limits in sorted(projects.items()))
    found.quotas = [one for one in quotas if one != Quota(one.project_id)]
    reason = "the defaults of nova.conf ([quota]) are not in the database"
    advice = "set them with `berth quota set`, or import once with --from-api, which shows them"
    found.findings.append(ImportFinding(ImportKind.QUOTA, CLASS_DEFAULT, reason, advice))
    users = await tables.rows("SELECT DISTINCT project_id, user_id FROM project_user_quotas")
    for row in users:
        key = f"{row['project_id']}/{row['user_id']}"
        reason = "is a quota of a user, which Berth does not have"
        advice = "set the quota of the project"
        found.findings.append(ImportFinding(ImportKind.QUOTA, key, reason, advice))


async def _read_keys(tables: TableReader, found: ApiRecords) -> None:
    rows = await tables.rows(
        "SELECT user_id, name, fingerprint, public_key, type, created_at FROM key_pairs"
    )
    for user, pairs in sorted(_grouped(rows).items()):
        kept = (
            KeyPair(
                name=one["name"],
                type=KeyType(one["type"]),
                public_key=one["public_key"],
                fingerprint=one["fingerprint"],
                created_at_s=seconds(one["created_at"]) or 0.0,
            )
            for one in pairs
        )
        ring = KeyRing(str(user), tuple(sorted(kept, key=lambda one: one.name)))
        found.key_rings.append(ring)


async def _read_requests(tables: TableReader, found: ApiRecords) -> None:
    """Read the request specs page by page: each is several KiB of JSON."""
    last = 0
    while True:
        rows = await tables.rows(
            "SELECT id, instance_uuid, spec FROM request_specs"
            " WHERE id > :last ORDER BY id LIMIT :page",
            last=last,
            page=_PAGE,
        )
        if not rows:
            return
        last = rows[-1]["id"]
        for row in rows:
            found.requests[row["instance_uuid"]] = request_facts(row["spec"])


def request_facts(spec: str) -> RequestFacts:
    """Return the zone and hints of a request spec, which is a serialised object of Nova."""
    data = msgspec.json.decode(spec, type=_RequestSpec).data
    return RequestFacts(data.availability_zone, hints_of(data.scheduler_hints or {}))


class _RequestData(msgspec.Struct):
    availability_zone: str | None = None
    scheduler_hints: dict[str, Any] | None = None


class _RequestSpec(msgspec.Struct):
    data: _RequestData = msgspec.field(name="nova_object.data")


def _grouped(rows: Iterable[Row]) -> defaultdict[Any, list[Row]]:
    """Return rows by their first column."""
    found: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[next(iter(row.values()))].append(row)
    return found


def _pairs(rows: Iterable[Row]) -> defaultdict[Any, dict[str, str]]:
    """Return keys and values by `owner`."""
    found: defaultdict[Any, dict[str, str]] = defaultdict(dict)
    for row in rows:
        found[row["owner"]][row["key"]] = row["value"] or ""
    return found


def seconds(moment: datetime | None) -> float | None:
    """Return a time of Nova's databases, which is in UTC, as Unix seconds; None for None.

    Fractions, which only some kinds of databases store, are cut off.
    """
    return None if moment is None else float(int(moment.replace(tzinfo=UTC).timestamp()))
