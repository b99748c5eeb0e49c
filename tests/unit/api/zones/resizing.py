"""Resizing servers that are in child zones, and what they count for."""

from tests.unit.api.cloud import Json
from tests.unit.api.zones.tree import ZoneStack

SMALL = (2, 4096)
BIG = (6, 4096)


async def act(root: ZoneStack, uuid: str, action: Json) -> int:
    """Ask the root for an action, and return the status of the answer."""
    return (await root.ask("POST", f"/v2.1/servers/{uuid}/action", action, token="u:p")).status


async def resize(root: ZoneStack, uuid: str, flavor: str = "big") -> int:
    """Ask the root for a resize."""
    return await act(root, uuid, {"resize": {"flavorRef": flavor}})


async def counted(zone: ZoneStack) -> tuple[int, int]:
    """Return what the project's servers come to in a zone: VCPUs and MiB of memory."""
    footprint = await zone.ledger.project_footprint("p")
    return footprint.vcpus, footprint.memory_mb
