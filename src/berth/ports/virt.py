"""The driver of a compute host: what starts and stops the instances there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from berth.domain.host import Host
from berth.domain.instance import Instance
from berth.domain.provider import Provider
from berth.domain.resources import Inventory


@dataclass(frozen=True, slots=True)
class ChildReport:
    """A part of a host with inventories of its own, such as one GPU.

    `name` tells it from the host's other children. `parent` is the name of the child that it is
    a part of; empty when it is a part of the host itself.
    """

    name: str
    inventories: Mapping[str, Inventory] = field(default_factory=dict[str, Inventory])
    traits: frozenset[str] = frozenset()
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What a host is and has: its record, its root provider (`used` is ignored), its parts.

    The host's `child_uuids` are ignored too: whoever takes the report in fills them in.
    """

    host: Host
    provider: Provider
    children: tuple[ChildReport, ...] = ()


class Driver(Protocol):
    """A virtualisation driver. Every method may be repeated and must then do no harm."""

    async def report(self) -> Report:
        """Return the host's present description and inventory."""
        ...

    async def spawn(self, instance: Instance) -> None:
        """Start the instance; starting one that runs is a success.

        Raises:
            BuildError: it could not be started; nothing of it is left on the host.
        """
        ...

    async def destroy(self, instance_uuid: str) -> None:
        """Stop the instance and free all it had; destroying one that is not there succeeds."""
        ...

    async def running(self) -> Sequence[str]:
        """Return the uuids of the instances that run here."""
        ...
