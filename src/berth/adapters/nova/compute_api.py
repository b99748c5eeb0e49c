"""Reads Nova's compute API as an administrator, and returns Berth's records."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import UNSET

from berth.adapters.nova import compute_documents as documents
from berth.adapters.nova.server_records import (
    ServerFacts,
    findings_of,
    hints_of,
    instance_of,
)
from berth.adapters.nova.session import OpenStackSession
from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Flavor, FlavorAccess, Image
from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Fault, Instance
from berth.domain.compute.key_pair import KeyPair, KeyRing, KeyType
from berth.domain.compute.observed import NOVA, OBSERVED_IN
from berth.domain.compute.quota import CLASS_DEFAULT, Quota
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import InvalidInputError
from berth.ports.nova import ImportFinding, ImportKind

T = TypeVar("T")
D = TypeVar("D")

_PAGE: Final = 1000
# Minor versions of 2.N. 2.53 introduced UUIDs of services and compute nodes, without which nothing
# can be matched, and 2.64 the rules of server groups.
_OLDEST: Final = 64
# The newest microversion whose responses this reader can parse.
_NEWEST: Final = 100
# 2.88 removed `cpu_info` from compute nodes.
_HYPERVISORS: Final = 87
_PROPERTIES_SINCE: Final = 98
_QUOTAS: Final[Mapping[str, str]] = {
    "instances": "instances",
    "cores": "vcpus",
    "ram": "memory_mb",
    "server_groups": "server_groups",
    "server_group_members": "group_members",
    "key_pairs": "key_pairs",
    "metadata_items": "metadata_items",
}


@dataclass(slots=True)
class ComputeRecords:
    """The contents of the compute API, as records of Berth; see `NovaCloud`."""

    hosts: list[Host] = field(default_factory=list[Host])
    services: list[Service] = field(default_factory=list[Service])
    aggregates: list[Aggregate] = field(default_factory=list[Aggregate])
    flavors: list[Flavor] = field(default_factory=list[Flavor])
    flavor_accesses: list[FlavorAccess] = field(default_factory=list[FlavorAccess])
    server_groups: list[ServerGroup] = field(default_factory=list[ServerGroup])
    members: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    servers: list[Instance] = field(default_factory=list[Instance])
    quotas: list[Quota] = field(default_factory=list[Quota])
    key_rings: list[KeyRing] = field(default_factory=list[KeyRing])
    findings: list[ImportFinding] = field(default_factory=list[ImportFinding])


class ComputeApi:
    """Reads the compute API.

    Args:
        session: sends the requests.
    """

    def __init__(self, session: OpenStackSession) -> None:
        self._session = session
        self._version: int = _OLDEST

    async def read(self) -> ComputeRecords:
        """Return the records of the compute API.

        Raises:
            UnavailableError: Nova or Keystone does not answer.
            AccessDeniedError: the credentials are not those of an administrator.
            InvalidInputError: Nova is too old, or an answer cannot be understood.
        """
        self._version = await self._newest_version()
        found = ComputeRecords()
        await self._hosts(found)
        await self._aggregates(found)
        await self._flavors(found)
        await self._groups(found)
        await self._servers(found)
        await self._quotas(found)
        await self._keys(found)
        return found

    async def _newest_version(self) -> int:
        answer = await self._session.get(
            "compute", "/", documents.VersionAnswer, version=_text(_OLDEST)
        )
        major, _, minor = answer.version.version.partition(".")
        served = int(minor) if major == "2" and minor.isdigit() else 1
        if served < _OLDEST:
            raise InvalidInputError(
                "compute",
                f"this Nova serves microversions up to {_text(served)}; the import needs "
                f"{_text(_OLDEST)} (Rocky) or newer, or --from-db",
            )
        return min(served, _NEWEST)

    async def _get(
        self,
        path: str,
        kind: type[T],
        *,
        version: int | None = None,
        **params: str | int,
    ) -> T:
        version = min(version or self._version, self._version)
        return await self._session.get("compute", path, kind, version=_text(version), params=params)

    async def _pages(
        self,
        path: str,
        kind: type[T],
        items: Callable[[T], Sequence[D]],
        marker: Callable[[D], str],
        *,
        version: int | None = None,
        **params: str | int,
    ) -> list[D]:
        """Return the items of all pages of a list."""
        found: list[D] = []
        while True:
            page = items(await self._get(path, kind, version=version, limit=_PAGE, **params))
            found += page
            # A server may have a lower limit than the requested one, so only an empty page is last.
            if not page:
                return found
            params["marker"] = marker(page[-1])

    # --- hosts ---

    async def _hosts(self, found: ComputeRecords) -> None:
        hypervisors = await self._pages(
            "/os-hypervisors/detail",
            documents.HypervisorsAnswer,
            lambda page: page.hypervisors,
            lambda one: one.id,
            version=_HYPERVISORS,
        )
        answer = await self._get("/os-services", documents.ServicesAnswer, binary="nova-compute")
        found.hosts = [_host(one) for one in hypervisors]
        found.services = [
            Service(
                host=one.host,
                service_id=one.id,
                disabled=one.status == "disabled",
                disabled_reason=one.disabled_reason if one.status == "disabled" else None,
                # Berth has no agent there; see docs/adr/0042-importing-from-nova.md.
                forced_down=True,
            )
            for one in answer.services
        ]

    async def _aggregates(self, found: ComputeRecords) -> None:
        answer = await self._get("/os-aggregates", documents.AggregatesAnswer)
        found.aggregates = [
            Aggregate(
                aggregate_id=one.id,
                uuid=one.uuid,
                name=one.name,
                hosts=frozenset(one.hosts),
                metadata=one.metadata,
                created_at_s=moment(one.created_at) or 0.0,
                updated_at_s=moment(one.updated_at),
            )
            for one in answer.aggregates
        ]

    # --- flavors and groups ---

    async def _flavors(self, found: ComputeRecords) -> None:
        flavors = await self._pages(
            "/flavors/detail",
            documents.FlavorsAnswer,
            lambda page: page.flavors,
            lambda one: one.id,
            is_public="None",
        )
        found.flavors = [_flavor(one) for one in flavors]
        private = [one.flavor_id for one in found.flavors if not one.is_public]
        found.flavor_accesses = await _together(self._access(one) for one in private)

    async def _access(self, flavor_id: str) -> FlavorAccess:
        path = f"/flavors/{flavor_id}/os-flavor-access"
        answer = await self._get(path, documents.AccessAnswer)
        return FlavorAccess(flavor_id, tuple(sorted(one.tenant_id for one in answer.flavor_access)))

    async def _groups(self, found: ComputeRecords) -> None:
        # This list has offsets in place of markers.
        groups: list[documents.GroupDocument] = []
        while True:
            answer = await self._get(
                "/os-server-groups",
                documents.GroupsAnswer,
                all_projects="True",
                limit=_PAGE,
                offset=len(groups),
            )
            groups += answer.server_groups
            if not answer.server_groups:
                break
        for one in groups:
            found.members[one.id] = tuple(one.members)
            found.server_groups.append(
                ServerGroup(
                    uuid=one.id,
                    name=one.name,
                    policy=GroupPolicy(one.policy),
                    project_id=one.project_id or "",
                    user_id=one.user_id or "",
                    max_server_per_host=one.rules.get("max_server_per_host", 1),
                )
            )

    # --- servers ---

    async def _servers(self, found: ComputeRecords) -> None:
        servers = await self._pages(
            "/servers/detail",
            documents.ServersAnswer,
            lambda page: page.servers,
            lambda one: one.id,
            all_tenants="True",
            # Without this parameter, soft-deleted servers are hidden.
            soft_deleted="True",
        )
        flavors = {one.name: one for one in found.flavors}
        for one in {one.id: one for one in servers}.values():
            facts = server_facts(one, flavors)
            found.findings += findings_of(facts)
            found.findings += self._unknown(one, flavors)
            instance = instance_of(facts)
            if instance is not None:
                found.servers.append(instance)

    def _unknown(
        self, one: documents.ServerDocument, flavors: Mapping[str, Flavor]
    ) -> list[ImportFinding]:
        """Return findings about the facts of a server that the API does not report."""
        told: list[tuple[str, str]] = []
        use_db = "import with --from-db, which reads Nova's databases"
        if one.flavor.original_name not in flavors:
            reason = "was booted with a flavor that is deleted, whose id the API does not tell"
            told.append((reason, use_db))
        if one.pinned_zone is UNSET:
            reason = "may be bound to an availability zone, which this Nova (before 2.96) hides"
            told.append((reason, use_db))
        if one.hints is UNSET:
            reason = "may have scheduler hints, which this Nova (before 2.100) does not show"
            told.append((reason, use_db))
        if self._version < _PROPERTIES_SINCE and one.image:
            reason = "has image properties that this Nova (before 2.98) does not show"
            told.append((reason, use_db))
        if one.locked:
            told.append(("is locked, and the API does not tell by whom", use_db))
        return [ImportFinding(ImportKind.SERVER, one.id, *pair) for pair in told]

    # --- quotas and keys ---

    async def _quotas(self, found: ComputeRecords) -> None:
        defaults = await self._get("/os-quota-class-sets/default", _ClassAnswer)
        found.quotas.append(quota_of(CLASS_DEFAULT, defaults.quota_class_set))
        projects = {one.project_id for one in found.servers}
        projects |= {one.project_id for one in found.server_groups if one.project_id}
        projects |= {project for one in found.flavor_accesses for project in one.projects}
        pairs = await _together(self._quota(project) for project in sorted(projects))
        for project, limits in pairs:
            # The API shows effective limits, so one that equals the default counts as inherited.
            own = {k: v for k, v in limits.items() if v != defaults.quota_class_set.get(k)}
            quota = quota_of(project, own)
            if quota != Quota(project):
                found.quotas.append(quota)
        reason = "quotas are read of the projects that have servers, groups or private flavors"
        advice = "import with --from-db to get the quotas of all projects"
        found.findings.append(ImportFinding(ImportKind.QUOTA, "others", reason, advice))

    async def _quota(self, project_id: str) -> tuple[str, dict[str, Any]]:
        answer = await self._get(f"/os-quota-sets/{project_id}", documents.QuotaSetAnswer)
        return project_id, answer.quota_set

    async def _keys(self, found: ComputeRecords) -> None:
        users = sorted({one.user_id for one in found.servers})
        rings = await _together(self._key_ring(user) for user in users)
        found.key_rings = [one for one in rings if one.key_pairs]
        reason = "key pairs are read of the users that have servers"
        advice = "import with --from-db to get the key pairs of all users"
        found.findings.append(ImportFinding(ImportKind.KEY_PAIRS, "others", reason, advice))

    async def _key_ring(self, user_id: str) -> KeyRing:
        pairs = await self._pages(
            "/os-keypairs",
            documents.KeysAnswer,
            lambda page: page.keypairs,
            lambda one: one.keypair.name,
            user_id=user_id,
        )
        keys = sorted((one.keypair for one in pairs), key=lambda one: one.name)
        return KeyRing(
            user_id,
            tuple(
                KeyPair(one.name, KeyType(one.type), one.public_key, one.fingerprint)
                for one in keys
            ),
        )


class _ClassAnswer(msgspec.Struct):
    quota_class_set: dict[str, Any]


def _host(one: documents.HypervisorDocument) -> Host:
    return Host(
        uuid=one.id,
        name=one.service.host,
        node=one.hypervisor_hostname,
        hypervisor_type=one.hypervisor_type or "",
        hypervisor_version=one.hypervisor_version or 0,
        host_ip=one.host_ip or "",
        cpu_info=cpu_info_of(one.cpu_info),
        stats={OBSERVED_IN: NOVA},
    )


def cpu_info_of(found: object) -> dict[str, object]:
    """Return the description of a host's CPUs, which is JSON text in some versions of Nova."""
    if isinstance(found, str):
        found = msgspec.json.decode(found) if found else {}
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}


def _flavor(one: documents.FlavorDocument) -> Flavor:
    return Flavor(
        flavor_id=one.id,
        name=one.name,
        vcpus=one.vcpus,
        memory_mb=one.ram,
        root_gb=one.disk,
        ephemeral_gb=one.ephemeral,
        # Before 2.75, no swap is an empty text.
        swap_mb=int(one.swap or 0),
        extra_specs=one.extra_specs or {},
        is_public=one.is_public,
        disabled=one.is_disabled,
        rxtx_factor=float(one.rxtx_factor or 1.0),
        description=one.description,
    )


def server_facts(one: documents.ServerDocument, flavors: Mapping[str, Flavor]) -> ServerFacts:
    """Return the facts that the API reports about a server.

    Args:
        one: the server.
        flavors: the flavors by name; the API reports only the name of a server's flavor.
    """
    copy = one.flavor
    known = flavors.get(copy.original_name)
    flavor = Flavor(
        flavor_id=known.flavor_id if known else copy.original_name,
        name=copy.original_name,
        vcpus=copy.vcpus,
        memory_mb=copy.ram,
        root_gb=copy.disk,
        ephemeral_gb=copy.ephemeral,
        swap_mb=copy.swap,
        extra_specs=copy.extra_specs,
        is_public=known.is_public if known else True,
    )
    fault = one.fault
    return ServerFacts(
        uuid=one.id,
        name=one.name,
        project_id=one.tenant_id,
        user_id=one.user_id,
        vm_state=one.vm_state,
        task_state=one.task_state,
        flavor=flavor,
        image=image_of(one.image),
        host=one.host,
        node=one.node,
        zone=one.pinned_zone if isinstance(one.pinned_zone, str) else None,
        hints=hints_of(one.hints) if isinstance(one.hints, dict) else {},
        metadata=one.metadata,
        extra=_extra(one),
        lock={"locked": one.locked_reason or ""} if one.locked else {},
        fault=None
        if fault is None
        else Fault(fault.code, fault.message, moment(fault.created) or 0.0, fault.details),
        reservation_id=one.reservation_id or "",
        launch_index=one.launch_index or 0,
        networks=len(one.addresses),
        volumes=len(one.volumes),
        created_at_s=moment(one.created) or 0.0,
        updated_at_s=moment(one.updated) or 0.0,
        launched_at_s=moment(one.launched_at),
    )


def _extra(one: documents.ServerDocument) -> dict[str, object]:
    extra: dict[str, object] = {
        "description": one.description,
        "key_name": one.key_name,
        "user_data": one.user_data,
        "tags": one.tags,
        "security_groups": [group["name"] for group in one.security_groups],
        "hostname": one.hostname,
        "trusted_image_certificates": one.trusted_image_certificates,
        "access_ipv4": one.access_ipv4,
        "access_ipv6": one.access_ipv6,
        "disk_config": one.disk_config,
    }
    if one.config_drive.lower() == "true":
        extra |= {"config_drive": True, "has_config_drive": True}
    return extra


def image_of(found: Any) -> Image | None:  # noqa: ANN401 - the API's own shape: "" or an object
    """Return the image of a server; None if it boots from a volume, for which Nova shows ""."""
    if not isinstance(found, dict):
        return None
    image = cast("dict[str, Any]", found)
    properties = cast("dict[str, Any]", image.get("properties") or {})
    return Image(
        image_id=str(image.get("id", "")),
        properties={name: str(value) for name, value in properties.items()},
    )


def quota_of(project_id: str, limits: Mapping[str, Any]) -> Quota:
    """Return a quota from Nova's limits; those that Berth does not have are left out."""
    known = {own: limits[name] for name, own in _QUOTAS.items() if name in limits}
    return Quota(project_id, **{name: int(limit) for name, limit in known.items()})


def moment(text: str | None) -> float | None:
    """Return a time of Nova's API, which is in UTC, as Unix seconds; None for None.

    Only some fields have fractions, and they depend on the database, so fractions are cut off.
    """
    if not text:
        return None
    found = datetime.fromisoformat(text)
    return float(int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()))


def _text(version: int) -> str:
    return f"2.{version}"


async def _together(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Return the results of calls that run at the same time; the session limits how many do."""
    return list(await asyncio.gather(*calls))
