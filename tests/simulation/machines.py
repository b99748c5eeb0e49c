"""The machines that instances run on, which fail, lose power and outlive their agents."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TypeVar
from urllib.parse import urlsplit

from berth.adapters.virt.fake import FakeDriver, FakeGuest, FakeHost, FakeNetwork
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance
from berth.domain.compute.server_image import ImageSize
from berth.domain.errors import BerthError, DriverError, MigrationError
from berth.ports.clock import Clock
from berth.ports.virt import Power
from tests.simulation.books import Books, BrokenLawError
from tests.simulation.faults import Weather

T = TypeVar("T")

_LIVE = frozenset({Power.RUNNING, Power.PAUSED})


@dataclass(slots=True)
class Fleet:
    """All machines, their network, and the books in which broken laws are recorded."""

    books: Books
    machines: "dict[str, Machine]" = field(default_factory=dict[str, "Machine"])
    network: FakeNetwork = field(default_factory=FakeNetwork)

    def is_cut_off(self, address: str) -> bool:
        """Tell whether the machine with an address cannot be reached."""
        machine = self.machines.get(urlsplit(address).netloc)
        return machine is not None and machine.is_cut_off

    def look(self, uuid: str) -> None:
        """Check that an instance runs on one machine at most, besides excused ones."""
        found = [name for name, one in self.machines.items() if one.runs(uuid)]
        if len(found) < 2:
            return
        counted = [name for name in found if not self._is_excused(uuid, name)]
        if len(counted) > 1:
            text = f"v{self.books.version}: instance {uuid} runs on {counted} at once"
            self.books.accuse(BrokenLawError(text))

    def _is_excused(self, uuid: str, name: str) -> bool:
        machine = self.machines[name]
        is_going = self.books.is_being_cleared(uuid, name)
        return machine.is_cut_off or uuid in machine.lost_sight_of or is_going


class Machine(FakeDriver):
    """A compute host that outlives its agent; see the port `Driver`.

    Attributes:
        is_cut_off: whether no agent and no other machine can reach it.
        lost_sight_of: the guests that it had when it was cut off, until they are destroyed.
    """

    def __init__(
        self, fake: FakeHost, clock: Clock, fleet: Fleet, weather: Weather, rng: Random
    ) -> None:
        super().__init__(fake, clock, network=fleet.network)
        self.is_cut_off = False
        self.lost_sight_of: set[str] = set()
        self._fleet = fleet
        self._weather = weather
        self._rng = rng

    @property
    def known(self) -> dict[str, FakeGuest]:
        """All guests by uuid."""
        return self.machine.guests

    def runs(self, uuid: str) -> bool:
        """Tell whether a guest is running or paused here, and not waiting for a move."""
        guest = self.known.get(uuid)
        return guest is not None and guest.power in _LIVE and not guest.waits

    def cut_off(self, *, loses_power: bool) -> None:
        """Make the machine unreachable; if it loses power, all running guests crash."""
        self.is_cut_off = True
        self.lost_sight_of = set(self.known)
        for uuid, guest in sorted(self.known.items()) if loses_power else ():
            if guest.waits:
                del self.known[uuid]
            elif guest.power in _LIVE:
                self.machine.set_power(uuid, Power.CRASHED)

    async def spawn(self, instance: Instance) -> None:
        """Start an instance unless it runs, or fail."""
        if self.runs(instance.uuid):
            return
        act = partial(super().spawn, instance)
        await self._do(instance.uuid, act, BuildError, longest_s=self._weather.spawn_s)

    async def stop(self, instance_uuid: str, *, grace_s: float) -> None:
        """Stop a guest."""
        await self._do(instance_uuid, partial(super().stop, instance_uuid, grace_s=grace_s))

    async def pause(self, instance_uuid: str) -> None:
        """Pause a guest."""
        await self._do(instance_uuid, partial(super().pause, instance_uuid))

    async def unpause(self, instance_uuid: str) -> None:
        """Unpause a guest."""
        await self._do(instance_uuid, partial(super().unpause, instance_uuid))

    async def suspend(self, instance_uuid: str) -> None:
        """Suspend a guest."""
        await self._do(instance_uuid, partial(super().suspend, instance_uuid))

    async def resume(self, instance_uuid: str) -> None:
        """Resume a suspended guest."""
        await self._do(instance_uuid, partial(super().resume, instance_uuid))

    async def destroy(self, instance_uuid: str) -> None:
        """Destroy a guest."""
        await self._do(instance_uuid, partial(super().destroy, instance_uuid))
        self.lost_sight_of.discard(instance_uuid)

    async def resize(self, instance: Instance) -> bool:
        """Give a guest another size."""
        return await self._do(instance.uuid, partial(super().resize, instance))

    async def take_in(self, instance: Instance) -> str:
        """Create a guest that waits for a move, and return its address."""
        return await self._do(instance.uuid, partial(super().take_in, instance), BuildError)

    async def hand_over(self, instance_uuid: str, address: str) -> None:
        """Move a guest after a delay in which the move may be cancelled."""
        act = partial(super().hand_over, instance_uuid, address)
        travel = asyncio.ensure_future(asyncio.sleep(self._rng.uniform(0, self._weather.spawn_s)))
        self.machine.moves[instance_uuid] = travel
        try:
            await asyncio.wait({travel})
        finally:
            del self.machine.moves[instance_uuid]
        if travel.cancelled():
            raise MigrationError("it was cancelled")
        if self._fleet.is_cut_off(address):
            raise MigrationError("there is no way there")
        await self._do(instance_uuid, act, MigrationError)

    async def offer_disks(self, instance_uuid: str) -> str:
        """Offer a guest's disks to other hosts, and return their address."""
        return await self._do(instance_uuid, partial(super().offer_disks, instance_uuid))

    async def fetch_disks(self, instance: Instance, address: str) -> None:
        """Create a guest with the disks at an address."""
        if self._fleet.is_cut_off(address):
            raise BuildError("there is no way there")
        await self._do(instance.uuid, partial(super().fetch_disks, instance, address), BuildError)

    async def store_disks(self, instance_uuid: str) -> str:
        """Store a guest's disks, and return their address."""
        return await self._do(instance_uuid, partial(super().store_disks, instance_uuid))

    async def store_image(self, instance_uuid: str, image_id: str) -> ImageSize:
        """Make an image of a guest's disk, and return its size."""
        act = partial(super().store_image, instance_uuid, image_id)
        return await self._do(instance_uuid, act)

    async def drop_stored(self, address: str) -> None:
        """Delete stored disks."""
        await self._do("", partial(super().drop_stored, address))

    async def _do(
        self,
        uuid: str,
        act: Callable[[], Awaitable[T]],
        error: type[BuildError | DriverError] = DriverError,
        *,
        longest_s: float | None = None,
    ) -> T:
        """Call `act` after a delay, or fail; `act` may be done despite an error or cancellation."""
        weather, rng = self._weather, self._rng
        try:
            await asyncio.sleep(
                rng.uniform(0, weather.spawn_s / 4 if longest_s is None else longest_s)
            )
        except asyncio.CancelledError:
            if rng.random() < 0.5:
                with suppress(BerthError):
                    await act()
                self._fleet.look(uuid)
            raise
        if rng.random() < weather.machine_breaks / 2:
            raise OSError("the hypervisor is confused")
        fails = weather.build_fails if error is BuildError else weather.verb_fails
        if rng.random() < fails:
            raise error("no such luck")
        done = await act()
        self._fleet.look(uuid)
        if rng.random() < weather.machine_breaks / 2:
            raise OSError("the hypervisor is confused, and has done it")
        return done
