"""Responses to requests for paths of Nova's compute API that Berth does not implement.

They have the status 501 and give the reason, because a 404 would look like a missing resource.
"""

import re

from starlette.types import Receive, Scope, Send

from berth.api.answers import send_error
from berth.api.errors import HttpError
from berth.api.microversion import version_of
from berth.api.routing import not_found

_SERVER = "servers/[^/]+"
# Each key completes the sentence "Berth ...", which is the response to the paths under /v2.1 that
# match one of the patterns.
_GAPS = {
    "has no networks, addresses or security groups": (
        "os-networks",
        "os-tenant-networks",
        "os-floating-ips",
        "os-floating-ip-(dns|pools)",
        "os-floating-ips-bulk",
        "os-fixed-ips",
        "os-security-groups",
        "os-security-group-(rules|default-rules)",
        f"{_SERVER}/os-interface",
    ),
    "has no volumes": (
        "os-volumes",
        "os-snapshots",
        f"{_SERVER}/os-volume_attachments",
    ),
    "has neither topology nor shares of servers": (f"{_SERVER}/(topology|shares)",),
    "has neither cells nor builds of guest agents": ("os-cells", "os-agents"),
    "does not force live migrations to complete; they can be cancelled": (
        f"{_SERVER}/migrations/[^/]+/action",
    ),
    "does not cache images on hosts": ("os-aggregates/[^/]+/images",),
}
_PATTERNS = tuple(
    (re.compile(f"/({'|'.join(paths)})(/.*)?"), f"Berth {text}.") for text, paths in _GAPS.items()
)


# Microversion 2.36 removes the proxies to other services, also in Nova.
_PROXIES_GONE = (2, 36)
_PROXIES = re.compile(
    "/os-(networks|tenant-networks|floating-ip.*|fixed-ips|security-group.*|volumes|snapshots)(/.*)?"
)


async def not_here(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond to an unknown path of the compute API: 501 if Nova has the path, otherwise 404."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    if version_of(scope) >= _PROXIES_GONE and _PROXIES.fullmatch(path):
        await not_found(scope, receive, send)
        return
    for pattern, text in _PATTERNS:
        if pattern.fullmatch(path):
            await send_error(scope, send, HttpError(501, text))
            return
    await not_found(scope, receive, send)
