"""The services that the control plane offers to the sessions of agents; see `HostSessions`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from berth.domain.compute.host_identity import HostKey
from berth.domain.errors import InvalidInputError
from berth.ports.bus import Bus, Command
from berth.ports.gateway import HostGateway, HostQueries, HostView
from berth.services.gateway.assignments import Assignments
from berth.services.gateway.host_queries import serve_queries
from berth.services.gateway.identities import HostIdentities
from berth.services.replica.liveness import Liveness
from berth.services.tracking.messages import DELETE, SYNC, UPDATE

# The messages that the gateway forwards from agents to all schedulers.
_CASTS: Final[Mapping[str, Command[Any, None]]] = {
    command.name: command for command in (UPDATE, DELETE, SYNC)
}


class SessionServices:
    """Combines the services that sessions need; see `HostSessions`.

    Args:
        gateway: serves the calls.
        assignments: sends the views of hosts.
        identities: knows the keys of hosts.
        liveness: receives the heartbeats.
        bus: reaches schedulers, and brings queries to hosts.
    """

    def __init__(
        self,
        gateway: HostGateway,
        assignments: Assignments,
        identities: HostIdentities,
        liveness: Liveness,
        bus: Bus,
    ) -> None:
        self._gateway = gateway
        self._assignments = assignments
        self._identities = identities
        self._liveness = liveness
        self._bus = bus

    @property
    def gateway(self) -> HostGateway:
        """See `HostSessions.gateway`."""
        return self._gateway

    def signer(self, host: str, message: bytes, signature: bytes) -> HostKey | None:
        """See `HostSessions.signer`."""
        return self._identities.signer(host, message, signature)

    def is_valid(self, host: str, key: HostKey) -> bool:
        """See `HostSessions.is_valid`."""
        return self._identities.is_valid(host, key.public_key)

    def wants_rotation(self, host: str, key: HostKey) -> bool:
        """See `HostSessions.wants_rotation`."""
        identity = self._identities.by_host.get(host)
        return identity is not None and identity.rotates and identity.keys[:1] == (key,)

    async def settle(self, host: str, key: HostKey) -> None:
        """See `HostSessions.settle`."""
        identity = self._identities.by_host.get(host)
        if identity is not None and identity.keys[:1] != (key,):
            await self._identities.settle(host, key)

    async def add_key(self, host: str, public_key: str) -> None:
        """See `HostSessions.add_key`."""
        await self._identities.add_key(host, public_key)

    def note_alive(self, host: str) -> None:
        """See `HostSessions.note_alive`."""
        self._liveness.note(host)

    async def watch(
        self, host: str, deliver: Callable[[HostView], None], *, deletes_disks: bool
    ) -> Callable[[], None]:
        """See `HostSessions.watch`."""
        assignments = self._assignments
        opened = await assignments.open(host, deliver, deletes_disks=deletes_disks)
        return lambda: assignments.close(opened)

    def serve_queries(self, host: str, queries: HostQueries) -> Callable[[], None]:
        """See `HostSessions.serve_queries`."""
        return serve_queries(self._bus, host, queries)

    def cast_type(self, command: str) -> type | None:
        """See `HostSessions.cast_type`."""
        found = _CASTS.get(command)
        return None if found is None else found.args

    async def cast(self, host: str, command: str, message: object) -> None:
        """See `HostSessions.cast`."""
        head = getattr(message, "head", None)
        if head is None or head.host != host:
            raise InvalidInputError("head.host", f"must be {host!r}, the host of this session")
        await self._bus.fanout(_CASTS[command], message)
