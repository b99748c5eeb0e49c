"""The handler for the action `rescue`, which restarts a server from a rescue image."""

from berth.api.codec import UNSET
from berth.api.compute.handlers.servers.action_arguments import caller_of, read
from berth.api.compute.handlers.servers.named_actions import stated_rescue_image
from berth.api.compute.handlers.servers.passwords import password_of
from berth.api.compute.handlers.servers.server_orders import image_called
from berth.api.compute.schemas.server_actions import Rescue
from berth.api.routing import Answer, Call
from berth.domain.compute.instance import Instance


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
