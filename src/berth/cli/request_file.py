"""Request files for `berth decide`: one request as JSON, with more defaults than `Request` has."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, cast

import msgspec
from msgspec import Meta

from berth.cli.documents import convert_strictly, read_json
from berth.config.spelling import nearest
from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.request import (
    COUNT_MAX,
    Destination,
    Operation,
    Request,
    instance_uuid_of,
)
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.change import Snapshot

_INLINE = "inline"
_ID_CHARS = 16


@dataclass(frozen=True, slots=True)
class RequestDocument:
    """Contents of a request file. Only `flavor` is required."""

    flavor: Annotated[
        str | Flavor,
        Meta(description="Fields of a flavor, or the id or name of a flavor in the state file."),
    ]
    count: Annotated[
        int | None,
        Meta(description="Number of instances; by default that of instance_uuids, or 1."),
    ] = None
    request_id: Annotated[
        str | None, Meta(description="Derived from the content of the file if omitted.")
    ] = None
    instance_uuids: Annotated[
        tuple[str, ...] | None,
        Meta(description="One uuid per instance; derived from request_id if omitted."),
    ] = None
    project_id: str = ""
    user_id: str = ""
    image: Image | None = None
    availability_zone: str | None = None
    hints: Annotated[
        Mapping[str, str | tuple[str, ...]],
        Meta(
            description="Scheduler hints: same_host, different_host, group, query, "
            "build_near_host_ip, cidr."
        ),
    ] = field(default_factory=dict[str, str | tuple[str, ...]])
    group_uuid: Annotated[
        str | None,
        Meta(description="A server group of the state file; hints.group is an alternative."),
    ] = None
    destination: Destination | None = None
    ignore_hosts: tuple[str, ...] = ()
    force_hosts: tuple[str, ...] = ()
    force_nodes: tuple[str, ...] = ()
    retried: Annotated[
        tuple[tuple[str, str], ...],
        Meta(description="[host, node] pairs on which a build has failed."),
    ] = ()
    alternates: Annotated[
        tuple[tuple[str, str], ...],
        Meta(description="[host, node] pairs; the first that fits is used."),
    ] = ()
    operation: Annotated[
        Operation, Meta(description="Purpose of the request; the multi driver routes by it.")
    ] = Operation.CREATE
    source_cell: Annotated[
        str, Meta(description="Current cell of a moved instance that may leave its cell.")
    ] = ""
    stays_off: Annotated[
        bool, Meta(description="An evacuated instance is stopped on its new host.")
    ] = False
    name: Annotated[str, Meta(description="Name of the instances.")] = ""
    metadata: Annotated[Mapping[str, str], Meta(description="Metadata of the instances.")] = field(
        default_factory=dict[str, str]
    )


def read_request(path: Path, state: Snapshot) -> Request:
    """Read a request file and resolve its flavor and server group in the state.

    Equal documents give equal requests, because omitted ids are derived from the content.

    Raises:
        InvalidInputError: the file is invalid; the error names the path of the problem.
    """
    parsed = read_json(path)
    document = convert_strictly(_with_flavor_names(parsed), RequestDocument, str(path))
    # `Operation` accepts any string so that newer services can add operations; a file must not.
    if document.operation not in frozenset(Operation):
        reason = f"{document.operation!s:.80} must be one of {', '.join(Operation)}"
        raise InvalidInputError(f"{path}: operation", reason)
    request_id = document.request_id or _request_id(parsed)
    # The domain has lists only; a file may give a single value as a plain string.
    hints = {
        key: (value,) if isinstance(value, str) else value for key, value in document.hints.items()
    }
    try:
        request = Request(
            request_id=request_id,
            instance_uuids=_instance_uuids(document, request_id),
            flavor=_flavor(document.flavor, state),
            project_id=document.project_id,
            user_id=document.user_id,
            image=document.image,
            availability_zone=document.availability_zone,
            hints=hints,
            group_uuid=_group_uuid(document.group_uuid, hints, state),
            destination=document.destination,
            ignore_hosts=document.ignore_hosts,
            force_hosts=document.force_hosts,
            force_nodes=document.force_nodes,
            retried=document.retried,
            alternates=document.alternates,
            operation=document.operation,
            source_cell=document.source_cell,
            stays_off=document.stays_off,
            name=document.name,
            metadata=document.metadata,
        )
        # `needs` is computed lazily. It is evaluated here, so that invalid extra specs are
        # reported with the file's name.
        _ = request.needs
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error.field}", error.reason) from error
    return request


def _with_flavor_names(parsed: object) -> object:
    """Return the document with an id and a name added to an inline flavor; rules read neither."""
    if not isinstance(parsed, dict):
        return parsed
    document = cast("dict[str, object]", parsed)
    flavor = document.get("flavor")
    if not isinstance(flavor, dict):
        return document
    names: dict[str, object] = {"flavor_id": _INLINE, "name": _INLINE}
    return {**document, "flavor": names | cast("dict[str, object]", flavor)}


def _request_id(parsed: object) -> str:
    # The keys are sorted: the layout of the file must not change the id, which determines the
    # seed.
    content = msgspec.json.encode(parsed, order="sorted")
    return f"req-{hashlib.sha256(content).hexdigest()[:_ID_CHARS]}"


def _instance_uuids(document: RequestDocument, request_id: str) -> tuple[str, ...]:
    count, uuids = document.count, document.instance_uuids
    if uuids is not None:
        if count not in (None, len(uuids)):
            reason = f"{count} differs from the number of instance_uuids, {len(uuids)}; omit count"
            raise InvalidInputError("count", reason)
        return uuids
    count = 1 if count is None else count
    if not 1 <= count <= COUNT_MAX:
        raise InvalidInputError("count", f"must be between 1 and {COUNT_MAX}, not {count}")
    return tuple(instance_uuid_of(request_id, index) for index in range(count))


def _flavor(flavor: str | Flavor, state: Snapshot) -> Flavor:
    if isinstance(flavor, Flavor):
        return flavor
    # Ids are added last and win over names, as in the commands that use a running Berth.
    by_key = {one.name: one for one in state.flavors}
    by_key |= {one.flavor_id: one for one in state.flavors}
    if flavor not in by_key:
        reason = f"the state file has no flavor {flavor[:80]!r}; {nearest(flavor, by_key)}"
        raise InvalidInputError("flavor", reason)
    return by_key[flavor]


def _group_uuid(
    group_uuid: str | None, hints: Mapping[str, tuple[str, ...]], state: Snapshot
) -> str | None:
    hinted = hints.get("group", ())
    uuid = group_uuid or (hinted[0] if hinted else None)
    if uuid is not None and all(group.uuid != uuid for group in state.server_groups):
        where = "group_uuid" if group_uuid else "hints.group"
        raise InvalidInputError(
            where, f"the state file has no server group with the uuid {uuid[:80]!r}"
        )
    return uuid
