"""Handlers for requests to create, show, update and delete servers."""

from collections.abc import Callable
from dataclasses import replace

from berth.api.codec import UNSET, UnsetType
from berth.api.compute.handlers.servers.action_arguments import caller_of
from berth.api.compute.handlers.servers.passwords import password_of
from berth.api.compute.handlers.servers.server_orders import Asked, read_order
from berth.api.compute.handlers.servers.server_values import (
    check_disk_config,
    check_values,
    stored_values,
)
from berth.api.compute.offers.handlers import build_by_offers
from berth.api.compute.schemas.server_views import (
    CreatedAnswer,
    CreatedServer,
    SecurityGroupView,
    ServerAnswer,
)
from berth.api.compute.schemas.servers import ServerChange, ServerChangeBody
from berth.api.compute.views.servers import (
    Extra,
    ServerWriter,
    disk_config,
    extra_of,
    reduced,
)
from berth.api.fleet import zones_of
from berth.api.links import COMPUTE, linker_of
from berth.api.routing import Answer, Call
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.errors import ConflictError, InvalidInputError, NotFoundError
from berth.services.requests.permissions import check_lock
from berth.services.servers.instances import AcceptedCreate
from berth.services.servers.moves import AWAITING

_DESCRIPTION = (2, 19)
_HOSTNAME = (2, 90)
_PINNED_ZONE = (2, 104)
# A change is given up after this many attempts to save it, so that a request does not retry forever
# while other writers keep changing the same record.
_SAVE_TRIES = 25
# While one of these tasks waits for a scheduler, the instance has no migration yet, but the request
# for a host already says that any zone will do.
_MOVING_TASKS = frozenset(AWAITING.values())


async def create_servers(call: Call) -> Answer:
    """Create servers: all or none, or each independently if the settings say so.

    If no host has room, the request still succeeds, and the servers get the status ERROR and a
    fault with the reason. A parent zone sends instances with their offers instead.

    Raises:
        InvalidInputError: a field is invalid; the error names it.
        HttpError: 403 when the order contains a field that only administrators may use, or comes
            from a parent zone without a valid assertion; 501 when a parent zone asks a deployment
            that is not a zone.
        ConflictError: the request id or the Idempotency-Key was used for another order.
        QuotaExceededError: the project would exceed its quota; nothing was stored.
    """
    if call.identity.parent is not None:
        return await build_by_offers(call)
    asked = await read_order(call, call.version)
    order = replace(asked.order, one_by_one=call.parts.single_shot and asked.order.count > 1)
    try:
        accepted = await call.parts.instances.create(order)
    except InvalidInputError as error:
        raise asked.named_as_sent(error) from error
    # With an Idempotency-Key, the servers may be those of an earlier request.
    if asked.order.may_repeat:
        _check_same(asked, accepted)
    linker = linker_of(call)
    first = accepted.instances[0]
    location = f"{linker.root}{COMPUTE}/servers/{first.uuid}".encode()
    if asked.reservation_only:
        answer = CreatedAnswer(reservation_id=accepted.reservation_id)
    else:
        # Nova's response names the group `default` if the request names none.
        names = asked.security_groups or ("default",)
        answer = CreatedAnswer(
            server=CreatedServer(
                id=first.uuid,
                links=linker.of("servers", first.uuid),
                security_groups=[SecurityGroupView(name=name) for name in names],
                disk_config=disk_config(extra_of(first)),
                admin_pass=_password(call, asked),
            )
        )
    return Answer(answer, headers=((b"location", location),))


async def show_server(call: Call) -> Answer:
    """Show a server.

    Raises:
        NotFoundError: the server does not exist, is deleted, or belongs to a project that the
            caller may not see.
    """
    instance = await server_of(call)
    if instance.group_uuid is not None:
        await call.parts.follower.catch_up()  # the group may be new or deleted
    return Answer(ServerAnswer(server=ServerWriter(call).view(instance, alone=True)))


async def update_server(call: Call) -> Answer:
    """Update the name, description, host name, addresses or disk configuration of a server.

    Raises:
        NotFoundError: the server does not exist, or the caller may not see it.
        InvalidInputError: a field is invalid, or does not exist in this microversion; the error
            names it.
        ConflictError: the server cannot be pinned to the zone, or other writers changed the record
            during every attempt.
    """
    change = call.body(ServerChangeBody).server
    _check_version(call, change)
    check_values(change, "server", call.version)
    instance = await changed(call, lambda old: _pinned(call, _apply(old, change), change))
    view = ServerWriter(call).view(instance, alone=True)
    return Answer(ServerAnswer(server=reduced(view, call.version)))


async def delete_server(call: Call) -> Answer:
    """Delete a server and free its resources, or soft-delete it if the settings say so.

    Raises:
        NotFoundError: the server does not exist, is deleted, or belongs to a project that the
            caller may not see.
        InstanceLockedError: the server is locked, and the caller is not an administrator.
        InstanceStateError: the status or the task of the server does not allow a soft deletion.
        ConflictError: the server keeps changing, or this version of Berth does not know its move.
    """
    instance = await server_of(call)
    if not _is_kept(call, instance):
        return await force_delete_server(call)
    caller, down_s = caller_of(call), call.parts.service_down_time_s
    check_lock(instance, caller)
    await call.parts.operations.soft_delete(instance.uuid, caller, service_down_time_s=down_s)
    return Answer()


async def force_delete_server(call: Call) -> Answer:
    """Delete a server and free its resources, even if the settings say to soft-delete servers.

    Raises:
        NotFoundError: the server does not exist, is deleted, or belongs to a project that the
            caller may not see.
        InstanceLockedError: the server is locked, and the caller is not an administrator.
        ConflictError: the server keeps changing, or this version of Berth does not know its move.
    """
    instance = await server_of(call)
    caller, down_s = caller_of(call), call.parts.service_down_time_s
    check_lock(instance, caller)
    await call.parts.instances.delete(instance.uuid, caller, service_down_time_s=down_s)
    return Answer()


def _is_kept(call: Call, instance: Instance) -> bool:
    """Return whether `DELETE` soft-deletes an instance.

    As in Nova, an instance that was never launched or has no host is deleted at once.
    """
    # A parent zone no longer charges a deleted server to its quota, and could not restore it.
    if not call.parts.soft_deletes or call.identity.parent is not None:
        return False
    is_on_host = instance.host is not None and instance.launched_at_s is not None
    return is_on_host and instance.task is not Task.DELETING


async def server_of(call: Call) -> Instance:
    """Return the instance that the path names.

    Raises:
        NotFoundError: the instance does not exist, is deleted, or belongs to a project that the
            caller may not see.
    """
    key = call.key("server_id")
    instance = await call.parts.instances.get(key)
    # The servers of other projects must look as if they did not exist, so the error is the same.
    is_visible = call.project_id in {None, instance.project_id}
    if instance.status is Status.DELETED or not is_visible:
        raise NotFoundError("instance", key)
    return instance


async def changed(call: Call, change: Callable[[Instance], Instance]) -> Instance:
    """Apply a change to the instance that the path names, and return the changed instance.

    Args:
        call: the request.
        change: returns the changed instance; called again after each conflict.

    Raises:
        NotFoundError: the instance does not exist, or the caller may not see it.
        ConflictError: other writers changed the record during every attempt.
    """
    for _ in range(_SAVE_TRIES):
        instance = change(await server_of(call))
        try:
            await call.parts.instances.save(instance)
        except ConflictError:
            continue
        return instance
    raise ConflictError(
        f"cannot save instance {call.key('server_id')}, because it keeps changing; try again"
    )


def _check_same(asked: Asked, accepted: AcceptedCreate) -> None:
    """Raise `ConflictError` if an Idempotency-Key was used for a different order.

    Only flavor, image and count are compared, because the records of the servers do not contain the
    whole first request.
    """
    order, first = asked.order, accepted.instances[0]
    image_id = order.image.image_id if order.image else None
    # The quota may have allowed fewer servers than `max_count`.
    count_min = order.count if order.count_min is None else order.count_min
    same = (
        count_min <= len(accepted.instances) <= order.count
        and first.flavor.flavor_id == order.flavor_id
        and (first.image.image_id if first.image else None) == image_id
    )
    if not same:
        raise ConflictError("the Idempotency-Key was used for a different request; use a new key")


def _check_version(call: Call, change: ServerChange) -> None:
    if change.description is not UNSET and call.version < _DESCRIPTION:
        raise InvalidInputError("server.description", "requires microversion 2.19 or later")
    if change.hostname is not UNSET and call.version < _HOSTNAME:
        raise InvalidInputError("server.hostname", "requires microversion 2.90 or later")
    if change.pinned_zone is not UNSET and call.version < _PINNED_ZONE:
        reason = "requires microversion 2.104 or later"
        raise InvalidInputError("server.pinned_availability_zone", reason)


def _password(call: Call, asked: Asked) -> str | UnsetType:
    # A repeated request gets the same response, and Berth stores no passwords, so only the password
    # in the request can be part of it.
    if asked.order.may_repeat and not asked.admin_pass:
        return UNSET
    return password_of(call, asked.admin_pass)


def _pinned(call: Call, old: Instance, change: ServerChange) -> Instance:
    """Return an instance that is pinned to its current availability zone, or no longer pinned.

    Raises:
        ConflictError: the instance is pinned to another zone, is not in the requested zone, or may
            leave it by a move in progress.
    """
    zone = change.pinned_zone
    if zone is UNSET or zone == old.requested_zone:
        return old
    if zone is not None:
        if old.requested_zone is not None:
            raise ConflictError(
                "Cannot change pinned availability zone directly. Unpin first by setting "
                "pinned_availability_zone to null."
            )
        if old.task in _MOVING_TASKS:
            raise ConflictError(
                f"Cannot pin server {old.uuid} while its task {old.task} is in progress, because "
                "it may move the server to a host in another zone. Try again when it has ended."
            )
        if old.migration_uuid is not None:
            raise ConflictError(
                f"Cannot pin server {old.uuid} while its resize or migration is not confirmed, "
                "because a revert may return it to another zone. Confirm or revert it first."
            )
        if old.host is None:
            raise ConflictError(
                f"Server {old.uuid} has no host, so it cannot be pinned to an availability zone. "
                "Try again when it has one."
            )
        current = zones_of(call.parts, old.host)
        if zone not in current:
            raise ConflictError(
                "Server can only be pinned to its current availability zone "
                f"{','.join(current)!r}, but {zone!r} was requested."
            )
    return replace(old, requested_zone=zone)


def _apply(old: Instance, change: ServerChange) -> Instance:
    check_disk_config(change.disk_config, old.image, "server.OS-DCF:diskConfig")
    extra: Extra = {**extra_of(old), **stored_values(change)}
    if change.description is not UNSET:
        extra["description"] = change.description
    if change.hostname is not UNSET:
        extra["hostname"] = change.hostname
    return replace(old, name=change.name or old.name, extra={**extra})
