"""Helpers for resizing servers in child zones and reading their footprint."""

from tests.unit.api.cloud import Json
from tests.unit.api.zones.tree import ZoneStack

SMALL = (2, 4096)
BIG = (6, 4096)


async def act(root: ZoneStack, uuid: str, action: Json) -> int:
    """Request an action at the root and return the status."""
    return (await root.ask("POST", f"/v2.1/servers/{uuid}/action", action, token="u:p")).status


async def resize(root: ZoneStack, uuid: str, flavor: str = "big") -> int:
    """Request a resize at the root and return the status."""
    return await act(root, uuid, {"resize": {"flavorRef": flavor}})


async def counted(zone: ZoneStack) -> tuple[int, int]:
    """Return the VCPUs and the MiB of memory that are charged to the project in a zone."""
    footprint = await zone.ledger.project_footprint("p")
    return footprint.vcpus, footprint.memory_mb
