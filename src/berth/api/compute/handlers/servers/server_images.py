"""The handlers for the actions `createImage` and `createBackup`."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from berth.api.codec import UNSET, UnsetType
from berth.api.compute.handlers.servers.action_arguments import caller_of, read
from berth.api.compute.handlers.servers.server_values import check_metadata, check_metadata_quota
from berth.api.compute.schemas.server_actions import CreateBackup, CreateImage, ImageIdAnswer
from berth.api.links import image_link
from berth.api.routing import Answer, Call
from berth.domain.compute.instance import Instance
from berth.domain.compute.server_image import ServerImage

# Microversion 2.45 returns the id in the body instead of a URL in the header `Location`.
_ID_IN_BODY: Final = (2, 45)


async def create_image(call: Call, instance: Instance, args: object) -> Answer:
    """Request an image of a server's root disk.

    Raises:
        InvalidInputError: the arguments are malformed.
        HttpError: 403 when there are more metadata items than the quota allows.
        QuotaExceededError: the project may have no more images, or no larger ones.
        InstanceStateError: the state of the server does not allow the action.
    """
    arguments = read(args, CreateImage, "createImage")
    metadata = _metadata(call, arguments.metadata)
    image_id = await _begin(call, instance, _new(call, instance, arguments.name, metadata))
    return _answer(call, image_id)


async def create_backup(call: Call, instance: Instance, args: object) -> Answer:
    """Request a backup of a server: an image of its root disk; excess backups are then deleted.

    Raises:
        InvalidInputError: the arguments are malformed.
        HttpError: 403 when there are more metadata items than the quota allows.
        QuotaExceededError: the project may have no more images, or no larger ones.
        InstanceStateError: the state of the server does not allow the action.
    """
    arguments = read(args, CreateBackup, "createBackup")
    metadata, rotation = _metadata(call, arguments.metadata), int(arguments.rotation)
    image = _new(
        call,
        instance,
        arguments.name,
        metadata,
        backup_type=arguments.backup_type,
        rotation=rotation,
    )
    image_id = await _begin(call, instance, image)
    # As in Nova, the header is missing if the backup is deleted as soon as it is complete.
    if not rotation and call.version < _ID_IN_BODY:
        return Answer()
    return _answer(call, image_id)


def _metadata(call: Call, metadata: Mapping[str, str] | UnsetType) -> Mapping[str, str]:
    check_metadata(metadata)
    if metadata is UNSET:
        return {}
    check_metadata_quota(call, call.identity.project_id, len(metadata))
    return metadata


def _new(
    call: Call,
    instance: Instance,
    name: str,
    properties: Mapping[str, str],
    *,
    backup_type: str = "",
    rotation: int | None = None,
) -> ServerImage:
    # As in Glance, the image belongs to the project of the caller, who may be an administrator.
    return ServerImage(
        image_id=call.parts.ids.uuid(),
        name=name,
        project_id=call.identity.project_id,
        user_id=call.identity.user_id,
        instance_uuid=instance.uuid,
        properties=properties,
        backup_type=backup_type,
        rotation=rotation,
    )


async def _begin(call: Call, instance: Instance, image: ServerImage) -> str:
    admit = partial(call.parts.server_images.admit, image.project_id)
    await call.parts.operations.create_image(instance.uuid, image, caller_of(call), admit)
    return image.image_id


def _answer(call: Call, image_id: str) -> Answer:
    if call.version >= _ID_IN_BODY:
        return Answer(ImageIdAnswer(image_id=image_id))
    return Answer(headers=((b"location", image_link(call, image_id).encode()),))
