"""Checks of the reports of hosts, which limit the claims that a host may make about itself.

A report comes from a machine that runs guests of untrusted owners. It may describe the host, its
root provider and its children, and nothing that belongs to another host or to clients of the
Placement API. Names and UUIDs are first come, first served, except names of enrolled hosts.
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from berth.domain.compute.host import Host, Service
from berth.domain.compute.host_identity import HostIdentity
from berth.domain.compute.observed import observer_of
from berth.domain.errors import ConflictError, InvalidInputError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import check_name
from berth.domain.uuids import is_uuid
from berth.ports.ledger import RecordReader
from berth.ports.virt import ChildReport, HostReport
from berth.tables.provider.sharing import SHARES

NODES_MAX: Final = 256
"""Maximum number of nodes of one host."""
CLASSES_MAX: Final = 256
"""Maximum number of resource classes of one provider that a host reports."""
TRAITS_MAX: Final = 1_024
"""Maximum number of traits of one provider that a host reports."""
_NAME_MAX: Final = 255
_STATS_MAX: Final = 1_000
_GUEST_TYPES_MAX: Final = 1_000
_TEXT_MAX: Final = 4_096
_ITEMS_MAX: Final = 10_000
_DEPTH_MAX: Final = 8


def check_report(report: HostReport) -> None:
    """Reject a report with malformed or oversized values.

    Raises:
        InvalidInputError: a value is malformed or too large; the error names it.
    """
    host = report.host
    if not is_uuid(host.uuid):
        raise InvalidInputError("host.uuid", f"{host.uuid[:80]!r} must be a UUID")
    _check_machine_name(host.name, "host.name")
    _check_machine_name(host.node, "host.node")
    _check_provider(report)
    for where, count, most in (
        ("host.stats", len(host.stats), _STATS_MAX),
        ("host.supported_instances", len(host.supported_instances), _GUEST_TYPES_MAX),
    ):
        if count > most:
            raise InvalidInputError(where, f"has {count} entries; at most {most} are allowed")
    _check_document([host.stats, host.supported_instances], "host")
    _check_document([host.host_ip, host.hypervisor_type, host.cell], "host")
    _check_document(host.cpu_info, "host.cpu_info")


def check_uuid(report: HostReport, known: Host | None) -> None:
    """Reject a report under the UUID of another host, which would take that host over.

    Args:
        report: the agent's report.
        known: the host that is registered under the UUID, or None if there is none.

    Raises:
        ConflictError: the UUID belongs to another host.
    """
    name, uuid = report.host.name, report.host.uuid
    if known is not None and known.name != name:
        raise ConflictError(
            f"cannot register host {name}: the UUID {uuid} in its report belongs to another host; "
            "remove that host first if this is the same machine under a new name"
        )


def check_not_imported(name: str, known: Host | None) -> None:
    """Reject an agent under the name of a host that was imported from another cloud.

    The servers there are that cloud's. An agent would take their guests for orphans, or start
    guests of the same servers.

    Args:
        name: the name of the host in the report.
        known: a registered host with that name, or None if there is none.

    Raises:
        ConflictError: the host was imported.
    """
    cloud = None if known is None else observer_of(known)
    if cloud is not None:
        raise ConflictError(
            f"cannot register host {name}: it was imported from {cloud}, which runs its servers; "
            f"empty the host and delete its compute service there, then run `berth import {cloud} "
            "--prune`"
        )


def check_provider_is_free(report: HostReport, stored: Provider | None) -> None:
    """Reject a new host under the UUID of a provider that serves another purpose.

    Args:
        report: the report of a host that is not registered.
        stored: the provider with the host's UUID, or None if there is none.

    Raises:
        ConflictError: the provider has a parent, is part of a host, is in use, or shares its
            resources.
    """
    # An empty root may have been prepared for the host by a client of the Placement API.
    is_free = stored is None or (
        stored.parent_uuid is None
        and not any(stored.used.values())
        and stored.owned_parent_uuid is None
        and SHARES not in stored.traits
    )
    if not is_free:
        raise ConflictError(
            f"cannot register host {report.host.name}: the UUID {report.host.uuid} in its report "
            "belongs to another resource provider; give the host a UUID of its own"
        )


async def check_node(report: HostReport, reader: RecordReader) -> None:
    """Reject a node with the name of another host, for which it could be mistaken.

    Raises:
        ConflictError: another host is registered or enrolled under that name.
        UnavailableError: the ledger cannot be reached.
    """
    name, node = report.host.name, report.host.node
    if node == name:
        return
    taken = await reader.get(Service, node) is not None
    if taken or await reader.get(HostIdentity, node) is not None:
        raise ConflictError(
            f"cannot register host {name}: its node {node!r} has the name of another host; give "
            "it a name of its own"
        )


def _check_provider(report: HostReport) -> None:
    """Reject a root provider that is not the host's own, or claims what only others may set."""
    host, root = report.host, report.provider
    if root.uuid != host.uuid:
        raise InvalidInputError(
            "provider.uuid", f"{root.uuid[:80]!r} must be the UUID of the host, {host.uuid!r}"
        )
    if root.name not in {host.name, host.node}:
        raise InvalidInputError(
            "provider.name",
            f"{root.name[:80]!r} must be the name of the host, {host.name!r}, or of its node",
        )
    own = Provider(root.uuid, root.name, inventories=root.inventories, traits=root.traits)
    if root != own:
        raise InvalidInputError("provider", "must have no values besides inventories and traits")
    for name in (*root.inventories, *root.traits):
        check_name(name, "provider")
    parts: tuple[Provider | ChildReport, ...] = (root, *report.children)
    for one in parts:
        if len(one.inventories) > CLASSES_MAX or len(one.traits) > TRAITS_MAX:
            reason = (
                f"{one.name[:80]!r} may have at most {CLASSES_MAX} resource classes and "
                f"{TRAITS_MAX} traits"
            )
            raise InvalidInputError("provider", reason)
        # Sharing providers serve other hosts, so only operators make them.
        if SHARES in one.traits:
            raise InvalidInputError("provider.traits", f"{SHARES} must not be reported by hosts")


def _check_machine_name(name: str, field: str) -> None:
    if not 0 < len(name) <= _NAME_MAX or not name.isprintable() or "/" in name:
        reason = (
            f"{name[:80]!r} must consist of 1 to {_NAME_MAX} printable characters without a slash"
        )
        raise InvalidInputError(field, reason)


def _check_document(document: object, field: str) -> None:
    """Limit the number, the depth and the length of a document's values."""
    items, level = 0, [document]
    for _ in range(_DEPTH_MAX):
        items += len(level)
        if items > _ITEMS_MAX:
            raise InvalidInputError(field, f"has more than {_ITEMS_MAX:,} values")
        level = [below for one in level for below in _below(one, field)]
        if not level:
            return
    raise InvalidInputError(field, f"is nested deeper than {_DEPTH_MAX} levels")


def _below(value: object, field: str) -> list[object]:
    """Return the values within a value; a text contains none, but its length is limited."""
    if isinstance(value, str):
        if len(value) > _TEXT_MAX:
            raise InvalidInputError(field, f"has a text of more than {_TEXT_MAX:,} characters")
        return []
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value)
        return [*pairs.keys(), *pairs.values()]
    if isinstance(value, list | tuple):
        return [*cast("Sequence[object]", value)]
    return []
