"""The VNC consoles of servers: URLs with tokens, and what a token opens."""

from typing import Final
from urllib.parse import quote

from berth.api.compute.handlers.servers.action_arguments import read
from berth.api.compute.handlers.servers.servers import server_of
from berth.api.compute.schemas.remote_consoles import (
    RemoteConsoleAnswer,
    RemoteConsoleBody,
    RemoteConsoleView,
    TokenAnswer,
    TokenView,
    VncConsole,
)
from berth.api.console_parts import NOVNC_PAGE
from berth.api.console_socket import PATH
from berth.api.errors import HttpError
from berth.api.header_fields import root_url
from berth.api.routing import Answer, Call
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError, UnsupportedFeatureError
from berth.services.servers.vnc_consoles import ConsoleToken, console_host, grant_console

NO_CONSOLE: Final = "This server has no graphical console."
"""The message for tenants of a parent zone."""
_NOVNC: Final = "novnc"
# Microversion 2.6 replaces the actions with a resource of its own.
_ACTIONS_UNTIL: Final = (2, 5)
# As in Nova, older microversions show only the tokens of RDP consoles.
_TOKENS_SINCE: Final = (2, 31)


async def show_vnc_console(call: Call, instance: Instance, args: object) -> Answer:
    """Return the URL of a server's VNC console, up to microversion 2.5.

    Raises:
        HttpError: 404 from microversion 2.6 on; see also `console_url`.
        InvalidInputError: the arguments are malformed.
    """
    if call.version > _ACTIONS_UNTIL:
        raise HttpError(
            404, "The action os-getVNCConsole exists up to microversion 2.5; use remote-consoles."
        )
    kind = read(args, VncConsole, "os-getVNCConsole").type
    url = await console_url(call, instance, "vnc", kind)
    return Answer({"console": {"type": kind, "url": url}}, status=200)


async def create_remote_console(call: Call) -> Answer:
    """Return the URL of a console of a server.

    Raises:
        HttpError: 400 when the server has no such console; 409 when its guest is not running; 501
            when a parent zone asks.
        NotFoundError: the server does not exist, is deleted, or belongs to a project that the
            caller may not see.
        InstanceStateError: the server has no host.
    """
    asked = call.body(RemoteConsoleBody).remote_console
    instance = await server_of(call)
    url = await console_url(call, instance, asked.protocol, asked.type)
    view = RemoteConsoleView(protocol=asked.protocol, type=asked.type, url=url)
    return Answer(RemoteConsoleAnswer(remote_console=view))


async def show_console_token(call: Call) -> Answer:
    """Return the server whose console a token opens.

    Raises:
        HttpError: 400 when the microversion is older than 2.31.
        NotFoundError: the token is not valid.
    """
    if call.version < _TOKENS_SINCE:
        raise HttpError(400, "Tokens of VNC consoles are shown from microversion 2.31 on.")
    token = ConsoleToken.parse(call.key("console_token"))
    host = await console_host(call.parts.bus, call.parts.ledger, token)
    view = TokenView(
        instance_uuid=token.instance_uuid, host=host, port=0, internal_access_path=None
    )
    return Answer(TokenAnswer(console=view))


async def console_url(call: Call, instance: Instance, protocol: str, kind: str) -> str:
    """Return a URL that opens the console of a server until its token expires.

    Raises:
        InstanceStateError: the server has no host.
        HttpError: 400 when the server has no such console, 409 when its guest is not running, 501
            when a parent zone asks.
        UnavailableError: the agent of the host does not answer.
    """
    if call.identity.parent is not None:
        # The URL would show the address of this zone to a tenant of the parent.
        raise HttpError(501, NO_CONSOLE)
    if (protocol, kind) != ("vnc", _NOVNC):
        raise HttpError(
            400,
            f"Unavailable console type {kind} of protocol {protocol}: Berth has only consoles of "
            "type novnc and protocol vnc.",
        )
    parts = call.parts
    lifetime_s = parts.consoles.token_lifetime_s
    try:
        token = await grant_console(parts.bus, instance, parts.ids, lifetime_s=lifetime_s)
    except UnsupportedFeatureError as error:
        text = f"Unavailable console type novnc: the guest of {instance.uuid} has no VNC server."
        raise HttpError(400, text) from error
    except DriverError as error:
        text = f"Instance {instance.uuid} is not ready: its guest does not run."
        raise HttpError(409, text) from error
    root = root_url(call.scope)
    query = f"?token={token.text}"
    page = parts.consoles.novnc_url
    if page is None and parts.consoles.novnc_dir is not None:
        page = f"{root}{NOVNC_PAGE}"
    if page is None:
        # `http` becomes `ws`, and `https` `wss`.
        return f"ws{root.removeprefix('http')}{PATH}{query}"
    # noVNC connects to the host of its page, at the path in this parameter.
    return f"{page}{'&' if '?' in page else '?'}path={quote(query, safe='')}"
