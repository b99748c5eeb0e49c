"""Handlers for the actions that resize a server or move it to another host."""

from typing import Final, cast

from berth.api.codec import UNSET
from berth.api.compute.handlers.servers.action_arguments import (
    caller_of,
    check_admin,
    check_since,
    is_forced,
    read,
)
from berth.api.compute.handlers.servers.named_actions import flavor_called, stated_flavor
from berth.api.compute.handlers.servers.passwords import password_of
from berth.api.compute.handlers.servers.server_values import check_disk_config
from berth.api.compute.schemas.server_actions import (
    Evacuate,
    Migrate,
    MigrateLive,
    Unshelve,
)
from berth.api.compute.views.servers import Extra
from berth.api.errors import HttpError
from berth.api.fleet import zones_of
from berth.api.microversion import Version
from berth.api.routing import Answer, Call
from berth.api.values import flag
from berth.domain.compute.instance import Instance
from berth.domain.errors import (
    ConflictError,
    InstanceStateError,
    InvalidInputError,
)
from berth.services.servers.moves import MoveTarget

# Microversions: 2.14 removes `onSharedStorage` and the password in the response from evacuations;
# 2.25 allows `block_migration` = `auto` and removes `disk_over_commit`; 2.29 adds `force` to
# evacuations, and 2.30 to live migrations; 2.56 lets cold migrations name a host; 2.77 lets
# unshelve name a zone, and 2.91 a host; from 2.95 on, an evacuated server stays off.
_COLD_HOST: Final = (2, 56)
_AUTO_BLOCKS: Final = (2, 25)
_FORCE_LIVE: Final = (2, 30)
_FORCE_EVACUATE: Final = (2, 29)
_NO_PASSWORD: Final = (2, 14)
_STOPS: Final = (2, 95)
_MANUAL: Final = "MANUAL"
_UNSHELVE_ZONE: Final = (2, 77)
_UNSHELVE_HOST: Final = (2, 91)


async def resize(call: Call, instance: Instance, args: object) -> Answer:
    """Resize a server to another flavor.

    Raises:
        InvalidInputError: an argument is invalid, the flavor does not exist or may not be used, the
            server already has it, a disk would have to shrink, or the flavor is too small for the
            image.
        QuotaExceededError: the project would exceed its quota.
        InstanceStateError: the status or the task of the server does not allow a resize.
        InstanceLockedError: the server is locked, and the caller is not an administrator.
        ConflictError: the host of the server is down, or the server keeps changing.
    """
    # A parent zone sends the whole flavor; see `named_actions`.
    is_stated = call.identity.parent is not None
    flavor = stated_flavor(args) if is_stated else await flavor_called(call, args)
    # The arguments have been validated together with the flavor.
    chosen = cast("dict[str, str]", args).get("OS-DCF:diskConfig", UNSET)
    check_disk_config(chosen, instance.image, "resize.OS-DCF:diskConfig")
    # As in Nova, a resize without `OS-DCF:diskConfig` sets it to MANUAL.
    extra: Extra = {"disk_config": _MANUAL if chosen is UNSET else chosen}
    down_s = call.parts.service_down_time_s
    await call.parts.operations.resize(
        instance.uuid, flavor, caller_of(call), {**extra}, service_down_time_s=down_s
    )
    return Answer()


async def confirm(call: Call, instance: Instance, _: object) -> Answer:
    """Confirm a resize or cold migration, and free the resources on the source host.

    Raises:
        InstanceStateError: no move of the server waits for a confirmation.
        InstanceLockedError: the server is locked, and the caller is not an administrator.
        ConflictError: the server keeps changing.
    """
    down_s = call.parts.service_down_time_s
    await call.parts.operations.confirm(instance.uuid, caller_of(call), service_down_time_s=down_s)
    return Answer(status=204)


async def revert(call: Call, instance: Instance, _: object) -> Answer:
    """Revert a resize or cold migration, and return the server to its source host.

    Raises:
        InstanceStateError: no move of the server waits for a confirmation.
        InstanceLockedError: the server is locked, and the caller is not an administrator.
        ConflictError: the source host is down, or the server keeps changing.
    """
    down_s = call.parts.service_down_time_s
    await call.parts.operations.revert(instance.uuid, caller_of(call), service_down_time_s=down_s)
    return Answer()


async def migrate(call: Call, instance: Instance, args: object) -> Answer:
    """Migrate a server cold; it is stopped during the move.

    Raises:
        InvalidInputError: an argument is invalid, the target host does not exist, or the server is
            already on it.
        InstanceStateError: the status or the task of the server does not allow a migration.
        InstanceLockedError: the server is locked, and the caller is not an administrator.
        ConflictError: the host of the server is down, or the server keeps changing.
    """
    target = MoveTarget()
    # Nova accepts and ignores any arguments before 2.56.
    if call.version >= _COLD_HOST and args is not None:
        target = MoveTarget(host=read(args, Migrate, "migrate").host or None)
    down_s = call.parts.service_down_time_s
    # In Nova, a cold migration is a resize to the same flavor, so it also sets this to MANUAL.
    extra: Extra = {"disk_config": _MANUAL}
    await call.parts.operations.migrate(
        instance.uuid, target, caller_of(call), {**extra}, service_down_time_s=down_s
    )
    return Answer()


async def migrate_live(call: Call, instance: Instance, args: object) -> Answer:
    """Migrate a server live; it runs during the move.

    Raises:
        InvalidInputError: an argument is invalid, or the target host is unknown or the current one.
        InstanceStateError: the state of the server does not allow a live migration.
    """
    arguments, version = read(args, MigrateLive, "os-migrateLive"), call.version
    _check_disks(arguments, version)
    host = arguments.host
    forced = is_forced(arguments.force, "os-migrateLive.force", host, version, _FORCE_LIVE)
    target = MoveTarget(host=host, forced=forced)
    try:
        await call.parts.operations.live_migrate(instance.uuid, target, caller_of(call))
    except InstanceStateError as error:
        # Nova's message contains the action's name in the body; the service uses another name.
        name = "os-migrateLive"
        raise InstanceStateError(name, instance.uuid, error.attribute, error.state) from error
    return Answer()


def _check_disks(arguments: MigrateLive, version: Version) -> None:
    """Validate the arguments that concern disks; they have no effect, because the hosts decide."""
    name = "os-migrateLive"
    if not (arguments.block_migration == "auto" and version >= _AUTO_BLOCKS):
        flag(arguments.block_migration, f"{name}.block_migration")
    over = arguments.disk_over_commit
    if version >= _AUTO_BLOCKS:
        if over is not UNSET:
            raise InvalidInputError(
                f"{name}.disk_over_commit", "was removed in microversion 2.25; leave it out"
            )
    elif over is UNSET:
        raise InvalidInputError(f"{name}.disk_over_commit", "is required before microversion 2.25")
    else:
        flag(over, f"{name}.disk_over_commit")


async def evacuate(call: Call, instance: Instance, args: object) -> Answer:
    """Evacuate a server from a host that is down, by rebuilding it on another host.

    Raises:
        InvalidInputError: an argument is invalid, or the host of the server is up.
        HttpError: the target host is unknown (404), or a password is set for a disk that is kept
            (400).
        ConflictError: the server or its guest may be on another host, or so many hosts fell silent
            at once that this host may be up.
    """
    arguments, version = read(args, Evacuate, "evacuate"), call.version
    keeps_disk = _is_on_shared_storage(arguments, version)
    # These checks are in Nova's order and have Nova's texts.
    if keeps_disk and arguments.admin_pass is not UNSET:
        raise HttpError(400, "admin password can't be changed on existing disk")
    host = None if arguments.host is UNSET else arguments.host
    forced = is_forced(arguments.force, "evacuate.force", host, version, _FORCE_EVACUATE)
    hosts = call.parts.replica.hosts
    if host is not None and not hosts.host_names.of_folded_name(host.casefold()):
        raise HttpError(404, f"Compute host {host} not found.")
    await call.parts.operations.evacuate(
        instance.uuid,
        MoveTarget(host=host, forced=forced),
        caller_of(call),
        service_down_time_s=call.parts.service_down_time_s,
        stops=version >= _STOPS,
        despite_uncertainty=call.is_forced,
    )
    # Before 2.14, the response contains `adminPass`, unless the setting removes it.
    # A disk that is kept keeps its password.
    if version >= _NO_PASSWORD or call.parts.new_password is None:
        return Answer(status=200)
    password = None if keeps_disk else password_of(call, arguments.admin_pass)
    return Answer({"adminPass": password}, status=200)


def _is_on_shared_storage(arguments: Evacuate, version: Version) -> bool:
    name, value = "evacuate.onSharedStorage", arguments.on_shared_storage
    if version >= _NO_PASSWORD:
        if value is not UNSET:
            raise InvalidInputError(name, "was removed in microversion 2.14; leave it out")
        return False
    if value is UNSET:
        raise InvalidInputError(name, "is required before microversion 2.14")
    return flag(value, name)


async def unshelve(call: Call, instance: Instance, args: object) -> Answer:
    """Unshelve a server on any host, in a named availability zone, or on a named host.

    Raises:
        InvalidInputError: an argument is invalid, or the zone or the host does not exist.
        HttpError: 403 when the arguments name a host and the caller is not an administrator.
        InstanceStateError: the status or the task of the server does not allow the action.
        InstanceLockedError: the server is locked, and the caller is not an administrator.
        ConflictError: the host is outside the zone of the server, or a target is named although the
            server still has a host, or the server keeps changing.
    """
    target = MoveTarget()
    # Nova accepts and ignores any arguments before 2.77.
    if call.version >= _UNSHELVE_ZONE and args is not None:
        target = _where_to_unshelve(call, read(args, Unshelve, "unshelve"))
        await _check_place(call, instance, target)
    await call.parts.operations.unshelve(instance.uuid, target, caller_of(call))
    return Answer()


def _where_to_unshelve(call: Call, arguments: Unshelve) -> MoveTarget:
    zone = arguments.availability_zone
    # From 2.91 on, null removes the availability zone that the server is pinned to. `MoveTarget`
    # represents that as an empty string.
    check_since(arguments.host, "unshelve.host", call.version, _UNSHELVE_HOST)
    if call.version < _UNSHELVE_HOST and not zone:
        raise InvalidInputError(
            "unshelve.availability_zone", "is required before microversion 2.91"
        )
    if arguments.host:
        check_admin(call, "Naming a host")
    return MoveTarget(host=arguments.host or None, zone=None if zone is UNSET else zone or "")


async def _check_place(call: Call, instance: Instance, target: MoveTarget) -> None:
    """Refuse an unknown zone, or a host outside the zone, before the instance is changed.

    Raises:
        InvalidInputError: the zone does not exist.
        ConflictError: the host is not in the requested zone or, if none is requested, in the zone
            that the server is pinned to.
    """
    await call.parts.instances.check_zone(target.zone or None)
    zone = instance.requested_zone if target.zone is None else target.zone or None
    if target.host is None or zone is None:
        return
    hosts = call.parts.replica.hosts
    # An unknown host has no rows. The service refuses it when it begins the unshelve.
    for row in hosts.host_names.of_folded_name(target.host.casefold()):
        if zone not in zones_of(call.parts, hosts.name(row)):
            text = f"host {target.host[:80]!r} is not in the availability zone {zone[:80]!r}"
            raise ConflictError(text)
