"""Handlers for server metadata."""

from collections.abc import Mapping
from dataclasses import replace

from berth.api.compute.handlers.servers.action_arguments import caller_of
from berth.api.compute.handlers.servers.server_values import check_metadata, check_metadata_quota
from berth.api.compute.handlers.servers.servers import changed, server_of
from berth.api.compute.schemas.server_views import MetadataAnswer, MetadataItemAnswer
from berth.api.compute.schemas.servers import MetadataBody, MetadataItemBody
from berth.api.routing import Answer, Call
from berth.domain.compute.instance import Instance
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.services.requests.permissions import check_lock


async def list_metadata(call: Call) -> Answer:
    """List the metadata of a server.

    Raises:
        NotFoundError: the server does not exist, is deleted, or belongs to a project that the
            caller may not see.
    """
    return Answer(MetadataAnswer(metadata=(await server_of(call)).metadata))


async def add_metadata(call: Call) -> Answer:
    """Create or overwrite metadata items of a server.

    Raises:
        NotFoundError: the server does not exist, or the caller may not see it.
        HttpError: 403 when the server would have more metadata than is allowed.
        InstanceLockedError: the server is locked, and the caller is not an administrator.
        ConflictError: other writers changed the record during every attempt.
    """
    given = call.body(MetadataBody).metadata
    instance = await changed(call, lambda old: _with(call, old, {**old.metadata, **given}))
    return Answer(MetadataAnswer(metadata=instance.metadata))


async def replace_metadata(call: Call) -> Answer:
    """Replace all metadata of a server.

    Raises:
        NotFoundError: the server does not exist, or the caller may not see it.
        HttpError: 403 when the server would have more metadata than is allowed.
        InstanceLockedError: the server is locked, and the caller is not an administrator.
        ConflictError: other writers changed the record during every attempt.
    """
    given = call.body(MetadataBody).metadata
    instance = await changed(call, lambda old: _with(call, old, given))
    return Answer(MetadataAnswer(metadata=instance.metadata))


async def show_metadata_item(call: Call) -> Answer:
    """Show one metadata item of a server.

    Raises:
        NotFoundError: the caller sees no such server, or the server does not have the item.
    """
    key = call.key("key")
    metadata = (await server_of(call)).metadata
    if key not in metadata:
        raise NotFoundError("metadata item", key)
    return Answer(MetadataItemAnswer(meta={key: metadata[key]}))


async def update_metadata_item(call: Call) -> Answer:
    """Create or overwrite one metadata item of a server.

    Raises:
        NotFoundError: the caller sees no such server.
        InvalidInputError: the body has another key than the path.
        InstanceLockedError: the server is locked, and the caller is not an administrator.
        HttpError: 403 when the server would have too many items.
    """
    given = call.body(MetadataItemBody).meta
    key = call.key("key")
    if key not in given:
        raise InvalidInputError("meta", f"must contain only the key {key[:80]!r}, as in the path")
    await changed(call, lambda old: _with(call, old, {**old.metadata, **given}))
    return Answer(MetadataItemAnswer(meta=given))


async def delete_metadata_item(call: Call) -> Answer:
    """Delete one metadata item of a server.

    Raises:
        NotFoundError: the server does not exist, the caller may not see it, or it has no such item.
        InstanceLockedError: the server is locked, and the caller is not an administrator.
        ConflictError: other writers changed the record during every attempt.
    """
    key = call.key("key")

    # The check is part of the change, which runs again after each conflict, because another request
    # may have removed the item in the meantime.
    def without(old: Instance) -> Instance:
        if key not in old.metadata:
            raise NotFoundError("metadata item", key)
        rest = {name: text for name, text in old.metadata.items() if name != key}
        return _with(call, old, rest)

    await changed(call, without)
    return Answer()


def _with(call: Call, old: Instance, metadata: Mapping[str, str]) -> Instance:
    # As in Nova, only administrators can change the metadata of a locked server.
    check_lock(old, caller_of(call))
    check_metadata(metadata)
    check_metadata_quota(call, old.project_id, len(metadata), len(old.metadata))
    return replace(old, metadata=metadata)
