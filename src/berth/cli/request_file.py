"""Request files: one request as JSON, for `berth decide`. Friendlier than the domain's Request."""

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
    """What a request file may hold. Only `flavor` has to be there."""

    flavor: Annotated[
        str | Flavor,
        Meta(description="Fields of a flavor, or the id or name of one in the state file."),
    ]
    count: Annotated[
        int | None,
        Meta(description="How many instances; 1 unless instance_uuids are given."),
    ] = None
    request_id: Annotated[
        str | None, Meta(description="Made from the content of the file when it is left out.")
    ] = None
    instance_uuids: Annotated[
        tuple[str, ...] | None,
        Meta(description="One uuid an instance; made from request_id when left out."),
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
        str | None, Meta(description="A server group of the state file; also hints.group.")
    ] = None
    destination: Destination | None = None
    ignore_hosts: tuple[str, ...] = ()
    force_hosts: tuple[str, ...] = ()
    force_nodes: tuple[str, ...] = ()
    retried: Annotated[
        tuple[tuple[str, str], ...],
        Meta(description="[host, node] pairs where a build has failed."),
    ] = ()
    alternates: Annotated[
        tuple[tuple[str, str], ...],
        Meta(description="[host, node] pairs of which the first that fits is taken."),
    ] = ()
    operation: Annotated[
        Operation, Meta(description="What the request is for; the multi driver looks at it.")
    ] = Operation.CREATE
    source_cell: Annotated[
        str, Meta(description="The cell that a moved instance is in, when it may leave it.")
    ] = ""


def read_request(path: Path, state: Snapshot) -> Request:
    """Read a request file, and look up what it names in the state.

    Equal documents make equal requests: ids that are left out are made from what is there.

    Raises:
        InvalidInputError: the path in the file of what is wrong, and what it is.
    """
    parsed = read_json(path)
    document = convert_strictly(_with_flavor_names(parsed), RequestDocument, str(path))
    if document.operation not in frozenset(Operation):
        reason = f"{document.operation!s:.80} is none of {', '.join(Operation)}"
        raise InvalidInputError(f"{path}: operation", reason)
    request_id = document.request_id or _request_id(parsed)
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
        )
        _ = request.needs  # raises on specs that cannot be read
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error.field}", error.reason) from error
    return request


def _with_flavor_names(parsed: object) -> object:
    """Give a flavor that is written out an id and a name, which no rule reads."""
    if not isinstance(parsed, dict):
        return parsed
    document = cast("dict[str, object]", parsed)
    flavor = document.get("flavor")
    if not isinstance(flavor, dict):
        return document
    names: dict[str, object] = {"flavor_id": _INLINE, "name": _INLINE}
    return {**document, "flavor": names | cast("dict[str, object]", flavor)}


def _request_id(parsed: object) -> str:
    content = msgspec.json.encode(parsed, order="sorted")
    return f"req-{hashlib.sha256(content).hexdigest()[:_ID_CHARS]}"


def _instance_uuids(document: RequestDocument, request_id: str) -> tuple[str, ...]:
    count, uuids = document.count, document.instance_uuids
    if uuids is not None:
        if count not in (None, len(uuids)):
            reason = f"{count} is not the number of instance_uuids, {len(uuids)}; leave one out"
            raise InvalidInputError("count", reason)
        return uuids
    count = 1 if count is None else count
    if not 1 <= count <= COUNT_MAX:
        raise InvalidInputError("count", f"{count} must be 1 to {COUNT_MAX}")
    return tuple(instance_uuid_of(request_id, index) for index in range(count))


def _flavor(flavor: str | Flavor, state: Snapshot) -> Flavor:
    if isinstance(flavor, Flavor):
        return flavor
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
        raise InvalidInputError(where, f"the state file has no server group {uuid[:80]!r}")
    return uuid
