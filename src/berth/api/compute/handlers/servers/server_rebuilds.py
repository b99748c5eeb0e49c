"""The handlers for the actions that boot a server from another image: rebuild and rescue."""

from collections.abc import Mapping
from typing import Final, cast

from berth.api.codec import UNSET
from berth.api.compute.handlers.servers.action_arguments import caller_of, check_since, read
from berth.api.compute.handlers.servers.named_actions import stated_image, stated_rescue_image
from berth.api.compute.handlers.servers.passwords import password_of
from berth.api.compute.handlers.servers.server_keys import (
    StatedKey,
    key_called,
    stated_key,
    with_config_drive,
)
from berth.api.compute.handlers.servers.server_orders import image_called
from berth.api.compute.handlers.servers.server_values import (
    check_disk_config,
    check_metadata_quota,
    check_values,
    files_of,
    stored_values,
)
from berth.api.compute.schemas.server_actions import Rebuild, Rescue
from berth.api.compute.schemas.server_views import ServerAnswer
from berth.api.compute.views.servers import (
    Extra,
    InjectedFile,
    ServerWriter,
    extra_of,
    reduced,
)
from berth.api.links import COMPUTE, linker_of
from berth.api.microversion import Version
from berth.api.routing import Answer, Call
from berth.api.values import flag
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import Operation, Request
from berth.domain.errors import ConflictError, InvalidInputError
from berth.scheduling.rules.reduction import CHECK_TYPE, REBUILD

_KEY_NAME: Final = (2, 54)
_USER_DATA: Final = (2, 57)
# The microversions that add fields to rebuilds.
_SINCE: Final[Mapping[str, Version]] = {
    "description": (2, 19),
    "key_name": _KEY_NAME,
    "user_data": _USER_DATA,
    "trusted_image_certificates": (2, 63),
    "hostname": (2, 90),
}
_KEPT: Final = ("description", "user_data", "trusted_image_certificates", "hostname")
_KEY: Final = ("key_name", "key_type", "key_data")


async def rebuild(call: Call, instance: Instance, args: object) -> Answer:
    """Rebuild a server from an image on its current host.

    Raises:
        InvalidInputError: an argument is invalid, the image does not exist, or the flavor is too
            small for the image.
        HttpError: 403 when the metadata or files exceed the quota.
        ConflictError: the host of the server rejects the image, or the state of the server does not
            allow a rebuild.
    """
    stated, key = None, None
    if call.identity.parent is not None:
        stated, args = stated_image(args)
        key, args = stated_key(args)
    arguments = read(args, Rebuild, "rebuild")
    for field, since in _SINCE.items():
        check_since(getattr(arguments, field), f"rebuild.{field}", call.version, since)
    check_values(arguments, "rebuild", call.version)
    if arguments.personality is not UNSET and call.version >= _USER_DATA:
        raise InvalidInputError(
            "rebuild.personality", "was removed in microversion 2.57; leave it out"
        )
    files = files_of(call, instance.project_id, arguments.personality, "rebuild.personality")
    if arguments.preserve_ephemeral is not UNSET:
        flag(arguments.preserve_ephemeral, "rebuild.preserve_ephemeral")
    image = stated or await image_called(call, arguments.image_ref, "rebuild.imageRef")
    check_disk_config(arguments.disk_config, image, "rebuild.OS-DCF:diskConfig")
    _check_image(call, instance, image)
    if key is None and isinstance(arguments.key_name, str):
        key = await key_called(call, arguments.key_name, "rebuild.key_name")
    if arguments.metadata is not UNSET:
        count, had = len(arguments.metadata), len(instance.metadata)
        check_metadata_quota(call, instance.project_id, count, had)
    fields = _fields(instance, arguments, key, files)
    await call.parts.operations.rebuild(instance.uuid, image, caller_of(call), **fields)
    return await _answer(call, instance.uuid, arguments)


def _fields(
    instance: Instance, arguments: Rebuild, key: StatedKey | None, files: list[InjectedFile]
) -> dict[str, object]:
    """Return the fields of the instance's record that the rebuild changes, besides the image."""
    extra = dict(extra_of(instance))
    # As in Nova, the rebuilt server has only the files of this request.
    extra.pop("files", None)
    if files:
        extra["files"] = files
    extra |= {
        name: getattr(arguments, name) for name in _KEPT if getattr(arguments, name) is not UNSET
    }
    if arguments.key_name is None:
        extra = {name: one for name, one in extra.items() if name not in _KEY}
    elif key is not None:
        extra |= key.extra
    extra |= stored_values(arguments)
    fields: dict[str, object] = {"extra": with_config_drive(cast("Extra", extra))}
    if arguments.name is not UNSET:
        fields["name"] = arguments.name
    if arguments.metadata is not UNSET:
        fields["metadata"] = arguments.metadata
    return fields


async def _answer(call: Call, uuid: str, arguments: Rebuild) -> Answer:
    # The instance is read again, so that the response shows the task and the stored values.
    rebuilt = await call.parts.instances.get(uuid)
    view = ServerWriter(call).view(rebuilt, alone=True)
    # Nova shows the user data of a rebuilt server only under the name `user_data`.
    view.user_data = UNSET
    reduced(view, call.version, ("key_name",) if call.version >= _KEY_NAME else ())
    view.admin_pass = password_of(call, arguments.admin_pass)
    if call.version >= _USER_DATA:
        view.rebuilt_with = extra_of(rebuilt).get("user_data")
    where = f"{linker_of(call).root}{COMPUTE}/servers/{uuid}".encode()
    return Answer(ServerAnswer(server=view), headers=((b"location", where),))


def _check_image(call: Call, instance: Instance, image: Image) -> None:
    """Check that the instance's host passes the filters that a new image may violate.

    Raises:
        ConflictError: a filter removes the host; the message names the filter, except to a parent
            zone.
    """
    # As in Nova, a rebuild from the same image is not checked, because the host already runs it.
    if instance.host is None or instance.image == image:
        return
    request = Request(
        request_id=call.request_id,
        instance_uuids=(instance.uuid,),
        flavor=instance.flavor,
        project_id=instance.project_id,
        user_id=instance.user_id,
        image=image,
        hints={CHECK_TYPE: REBUILD},
        force_hosts=(instance.host,),
        operation=Operation.REBUILD,
        name=instance.name,
        metadata=instance.metadata,
    )
    refusal = call.parts.decision_service.decide(request).refusal
    if refusal is not None:
        # The first entry is the restriction to the instance's host; the others are filters. Their
        # names reveal this zone's policy, so a parent zone gets none.
        names = [one.name for one in refusal.filters[1:] if one.after < one.before]
        if call.identity.parent is not None or not names:
            raise ConflictError("the instance's host rejects the image; rebuild from another image")
        raise ConflictError(
            f"the instance's host rejects the image (filter: {', '.join(names)}); rebuild from "
            "another image"
        )


async def rescue(call: Call, instance: Instance, args: object) -> Answer:
    """Restart a server from a rescue image, by default its own image.

    Raises:
        InvalidInputError: the arguments are malformed, or the image does not exist.
    """
    image = None
    if call.identity.parent is not None:
        image, args = stated_rescue_image(args)
    arguments = Rescue() if args is None else read(args, Rescue, "rescue")
    if arguments.rescue_image_ref is not UNSET and image is None:
        image = await image_called(call, arguments.rescue_image_ref, "rescue.rescue_image_ref")
    await call.parts.operations.rescue(instance.uuid, image, caller_of(call))
    # As in Nova, `rescue` returns 200, while most actions return 202.
    password = password_of(call, arguments.admin_pass)
    return Answer({} if password is UNSET else {"adminPass": password}, status=200)
