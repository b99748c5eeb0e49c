"""Server messages: what a child shows of a server to its owner, as far as a parent reads it."""

from dataclasses import dataclass
from typing import Final

from berth.domain.zones.zone_orders import RemoteServer

_RESIZING: Final = frozenset({"RESIZE", "VERIFY_RESIZE", "REVERT_RESIZE"})


@dataclass(frozen=True, slots=True)
class FlavorShown:
    """How large it is; `ram` is in MiB."""

    vcpus: int
    ram: int


@dataclass(frozen=True, slots=True)
class ServerShown:
    """One server, in the words of the compute API."""

    id: str
    tenant_id: str
    status: str
    flavor: FlavorShown

    @property
    def below(self) -> RemoteServer:
        """What it says."""
        size = self.flavor.vcpus, self.flavor.ram
        return RemoteServer(size, is_resizing=self.status in _RESIZING)


@dataclass(frozen=True, slots=True)
class ServerMessage:
    """The answer to `GET /servers/{id}`."""

    server: ServerShown
