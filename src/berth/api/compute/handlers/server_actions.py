"""Actions on servers: Berth knows their names, and what it cannot do yet."""

from berth.api.compute.handlers.servers import server_of
from berth.api.compute.schemas.servers import ServerAction
from berth.api.errors import HttpError
from berth.api.routing import Answer, Call
from berth.domain.errors import InvalidInputError

_FORCE_DELETE = "forceDelete"
_KNOWN = frozenset(
    {
        "addFixedIp",
        "addFloatingIp",
        "addSecurityGroup",
        "changePassword",
        "confirmResize",
        "createBackup",
        "createImage",
        "evacuate",
        "injectNetworkInfo",
        "lock",
        "migrate",
        "os-getConsoleOutput",
        "os-getRDPConsole",
        "os-getSPICEConsole",
        "os-getSerialConsole",
        "os-getVNCConsole",
        "os-migrateLive",
        "os-resetState",
        "os-start",
        "os-stop",
        "pause",
        "reboot",
        "rebuild",
        "removeFixedIp",
        "removeFloatingIp",
        "removeSecurityGroup",
        "rescue",
        "resetNetwork",
        "resize",
        "restore",
        "resume",
        "revertResize",
        "shelve",
        "shelveOffload",
        "suspend",
        "trigger_crash_dump",
        "unlock",
        "unpause",
        "unrescue",
        "unshelve",
    }
)


async def act_on_server(call: Call) -> Answer:
    """Carry out an action: only forceDelete is there, the others that Nova has answer 501."""
    (action,) = call.body(ServerAction)
    instance = await server_of(call)
    if action == _FORCE_DELETE:
        down_s = call.parts.service_down_time_s
        await call.parts.instances.delete(instance.uuid, service_down_time_s=down_s)
        return Answer()
    if action in _KNOWN:
        raise HttpError(501, f"The action {action} is not there yet.")
    raise InvalidInputError("body", f"there is no such action: {action[:80]!r}")
