"""The table of server actions with their permissions, and handlers for some of them."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Final, NamedTuple

from berth.api.codec import Meta, Model
from berth.api.compute.handlers.servers import server_moves
from berth.api.compute.handlers.servers.action_arguments import caller_of, check_admin, read
from berth.api.compute.handlers.servers.remote_consoles import show_vnc_console
from berth.api.compute.handlers.servers.server_images import create_backup, create_image
from berth.api.compute.handlers.servers.server_rebuilds import rebuild, rescue
from berth.api.compute.handlers.servers.servers import force_delete_server, server_of
from berth.api.compute.schemas.server_actions import Lock, Reboot, ResetState
from berth.api.compute.schemas.servers import ServerAction
from berth.api.errors import HttpError
from berth.api.routing import Answer, Call
from berth.domain.compute import lifecycle
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.lifecycle import Transition
from berth.domain.errors import DriverError, InvalidInputError
from berth.services.requests.permissions import may_unlock
from berth.services.servers.consoles import read_console


class ConsoleOutput(Model):
    """Arguments of `os-getConsoleOutput`: the number of lines; -1 or null means all lines."""

    length: (
        Annotated[int, Meta(ge=-1, le=2**31 - 1)]
        | Annotated[str, Meta(pattern="^(-1|[0-9]{1,10})$")]
        | None
    ) = None


async def show_console(call: Call, instance: Instance, args: object) -> Answer:
    """Return the last lines of a server's serial console.

    Raises:
        InvalidInputError: the arguments are malformed.
        InstanceStateError: the server has no host.
        UnavailableError: the agent of the host does not answer.
        HttpError: 409 when the console cannot be read.
    """
    length = read(args, ConsoleOutput, "os-getConsoleOutput").length
    lines = -1 if length is None else int(length)
    try:
        text = await read_console(call.parts.bus, instance, None if lines < 0 else lines)
    except DriverError as error:
        message = f"The console of instance {instance.uuid} cannot be read."
        raise HttpError(409, message) from error
    return Answer({"output": text}, status=200)


_Handler = Callable[[Call, Instance, object], Awaitable[Answer]]

# Microversion 2.73 adds `locked_reason`. As in Nova, older ones ignore the arguments.
_LOCK_REASON: Final = (2, 73)


class ActionHandler(NamedTuple):
    """The handler of an action and the permission that it requires.

    Attributes:
        handler: receives the call, the instance and the unparsed arguments.
        is_admins: whether only administrators may request the action.
    """

    handler: _Handler
    is_admins: bool = False


async def act_on_server(call: Call) -> Answer:
    """Request an action on a server.

    Raises:
        NotFoundError: the caller sees no such server.
        InvalidInputError: the action is unknown, or its arguments are invalid.
        HttpError: Berth does not support the action (501), or it is for administrators only (403).
        ConflictError: the state of the server does not allow the action.
    """
    ((name, args),) = call.body(ServerAction).items()
    # The server is looked up before the action is checked, so the response for an unknown server is
    # always 404. The `NotFoundError` also makes `forwarding` send the request to a child zone.
    instance = await server_of(call)
    action = ACTIONS.get(name)
    if action is None:
        if name in _ABSENT:
            raise HttpError(501, f"The action {name} is not supported: {_ABSENT[name]}.")
        raise InvalidInputError("body", f"{name[:80]!r} is not a server action")
    if action.is_admins:
        check_admin(call, f"The action {name}")
    return await action.handler(call, instance, args)


def _step(step: Transition) -> _Handler:
    """Return a handler that begins a transition; as in Nova, it ignores the arguments."""

    async def act(call: Call, instance: Instance, _: object) -> Answer:
        await call.parts.operations.begin(instance.uuid, step, caller_of(call))
        return Answer()

    return act


async def _reboot(call: Call, instance: Instance, args: object) -> Answer:
    is_hard = read(args, Reboot, "reboot").type.upper() == "HARD"
    step = lifecycle.REBOOT_HARD if is_hard else lifecycle.REBOOT_SOFT
    await call.parts.operations.begin(instance.uuid, step, caller_of(call))
    return Answer()


async def _lock(call: Call, instance: Instance, args: object) -> Answer:
    reason = None
    if call.version >= _LOCK_REASON and args is not None:
        reason = read(args, Lock, "lock").locked_reason or None
    await call.parts.operations.lock(instance.uuid, reason, caller_of(call))
    return Answer()


async def _unlock(call: Call, instance: Instance, _: object) -> Answer:
    if not may_unlock(instance, caller_of(call)):
        raise HttpError(
            403, "An administrator has locked the server; only administrators may unlock it."
        )
    await call.parts.operations.unlock(instance.uuid, caller_of(call))
    return Answer()


async def _reset_state(call: Call, instance: Instance, args: object) -> Answer:
    state = read(args, ResetState, "os-resetState").state
    status = Status.ERROR if state == "error" else Status.ACTIVE
    await call.parts.operations.reset_state(instance.uuid, status, caller_of(call))
    return Answer()


async def _force_delete(call: Call, instance: Instance, _: object) -> Answer:  # noqa: ARG001 - the path has it
    await force_delete_server(call)
    return Answer()


async def _restore(call: Call, instance: Instance, _: object) -> Answer:
    await call.parts.operations.restore(instance.uuid, caller_of(call))
    return Answer()


ACTIONS: Final[Mapping[str, ActionHandler]] = {
    "os-start": ActionHandler(_step(lifecycle.START)),
    "os-stop": ActionHandler(_step(lifecycle.STOP)),
    "reboot": ActionHandler(_reboot),
    "pause": ActionHandler(_step(lifecycle.PAUSE)),
    "unpause": ActionHandler(_step(lifecycle.UNPAUSE)),
    "suspend": ActionHandler(_step(lifecycle.SUSPEND)),
    "resume": ActionHandler(_step(lifecycle.RESUME)),
    "resize": ActionHandler(server_moves.resize),
    "confirmResize": ActionHandler(server_moves.confirm),
    "revertResize": ActionHandler(server_moves.revert),
    "migrate": ActionHandler(server_moves.migrate, is_admins=True),
    "os-migrateLive": ActionHandler(server_moves.migrate_live, is_admins=True),
    "evacuate": ActionHandler(server_moves.evacuate, is_admins=True),
    "rebuild": ActionHandler(rebuild),
    "rescue": ActionHandler(rescue),
    "unrescue": ActionHandler(_step(lifecycle.UNRESCUE)),
    "createImage": ActionHandler(create_image),
    "createBackup": ActionHandler(create_backup),
    "shelve": ActionHandler(_step(lifecycle.SHELVE)),
    "shelveOffload": ActionHandler(_step(lifecycle.SHELVE_OFFLOAD), is_admins=True),
    "unshelve": ActionHandler(server_moves.unshelve),
    "os-getConsoleOutput": ActionHandler(show_console),
    "os-getVNCConsole": ActionHandler(show_vnc_console),
    "lock": ActionHandler(_lock),
    "unlock": ActionHandler(_unlock),
    "os-resetState": ActionHandler(_reset_state, is_admins=True),
    "forceDelete": ActionHandler(_force_delete),
    "restore": ActionHandler(_restore),
}
"""The supported actions, by their names in the body."""

_NO_NETWORK: Final = "Berth has no networks"
_NO_GUEST: Final = "Berth does not access guests"
_NO_CONSOLE: Final = "Berth has no consoles other than VNC"
# Nova's actions that Berth does not have, and the reasons. The response is 501, so that clients can
# tell an unsupported action from a misspelt one, which gets 400.
_ABSENT: Final[Mapping[str, str]] = {
    "addFixedIp": _NO_NETWORK,
    "addFloatingIp": _NO_NETWORK,
    "addSecurityGroup": _NO_NETWORK,
    "changePassword": _NO_GUEST,
    "injectNetworkInfo": _NO_NETWORK,
    "os-getRDPConsole": _NO_CONSOLE,
    "os-getSPICEConsole": _NO_CONSOLE,
    "os-getSerialConsole": _NO_CONSOLE,
    "removeFixedIp": _NO_NETWORK,
    "removeFloatingIp": _NO_NETWORK,
    "removeSecurityGroup": _NO_NETWORK,
    "resetNetwork": _NO_NETWORK,
    "trigger_crash_dump": _NO_GUEST,
}
