"""A tree of real zones on this machine: processes of their own on loopback, known to each other.

    spec = tree_of((3, 2), lambda name, depth: fleet(name))  # 1 + 3 + 6 zones
    with running_tree(spec) as tree:
        with tree.root.client(tree.root.tenant) as http:
            http.post("/zones/servers", json=...)
        tree["zone-2"].kill()
        tree["zone-2"].start()
        tree.wait_until_active()

At the end of the context all processes are ended, by their ids, and what they have written is
removed.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from berth.adapters.virt.fake import FakeHost
from berth.domain.errors import InvalidInputError, UnavailableError
from berth.lab.loopback import free_ports
from berth.lab.zone_process import READY_S, STOP_S, ZoneProcess, ZoneSpec

ROOT: Final = "root"

_ACTIVE_S: Final = 30.0
_POLL_S: Final = 0.05

FleetFactory = Callable[[str, int], Sequence[FakeHost]]
"""Tells the hosts of a zone, by its name and by how many zones are above it."""


def tree_of(
    shape: Sequence[int], hosts: FleetFactory, settings: Mapping[str, object] | None = None
) -> ZoneSpec:
    """Return a tree in which all zones of a level have equally many children.

    Args:
        shape: children of the root, then of each of these, and so on; none is a root alone.
        hosts: see `FleetFactory`; host names have to differ between zones only if somebody mixes them.
        settings: of all zones; see `ZoneSpec`.

    Returns:
        Zones called `root`, `zone-1`, `zone-1-2` and so on.

    Raises:
        InvalidInputError: a number of children is not above 0.
    """
    if any(count < 1 for count in shape):
        raise InvalidInputError("shape", f"{tuple(shape)} must have numbers above 0")

    def grow(name: str, prefix: str, depth: int) -> ZoneSpec:
        own = hosts(name, depth)  # parents are asked for theirs before their children
        count = shape[depth] if depth < len(shape) else 0
        names = [f"{prefix}-{number}" for number in range(1, count + 1)]
        children = tuple(grow(one, one, depth + 1) for one in names)
        return ZoneSpec(name, own, children, settings or {})

    return grow(ROOT, "zone", 0)


class ZoneTree:
    """Zones by their names, parents before their children; see `running_tree`.

    Args:
        spec: of the root, and so of all.
        folder: where each zone gets a folder.

    Raises:
        InvalidInputError: two zones have one name.
    """

    def __init__(self, spec: ZoneSpec, folder: Path) -> None:
        parents: dict[str, str] = {}
        specs = {spec.name: spec}
        for one in _below(spec):
            for child in one.children:
                if child.name in specs:
                    raise InvalidInputError("name", f"two zones are called {child.name}")
                specs[child.name] = child
                parents[child.name] = one.name
        ports = free_ports(len(specs))
        self._zones: dict[str, ZoneProcess] = {}
        for port, (name, one) in zip(ports, specs.items(), strict=True):
            parent = self._zones.get(parents.get(name, ""))
            self._zones[name] = ZoneProcess(one, folder / name, port, parent)

    @property
    def root(self) -> ZoneProcess:
        """The zone that has no parent."""
        return next(iter(self._zones.values()))

    def __getitem__(self, name: str) -> ZoneProcess:
        return self._zones[name]

    def __iter__(self) -> Iterator[ZoneProcess]:
        return iter(self._zones.values())

    def __len__(self) -> int:
        return len(self._zones)

    def children_of(self, zone: ZoneProcess) -> list[ZoneProcess]:
        """Return the children of a zone, in their order."""
        return [self._zones[child.name] for child in zone.spec.children]

    def start(self, timeout_s: float = READY_S, tell: Callable[[str], None] | None = None) -> None:
        """Start all zones at once, and wait until each one answers and has its hosts.

        Args:
            timeout_s: for all of them together.
            tell: called with the name of each zone that is ready.

        Raises:
            UnavailableError: one does not start; its log is in the message.
        """
        deadline_s = time.monotonic() + timeout_s
        for zone in self:
            zone.start()
        for zone in self:
            zone.wait_until_ready(max(0.0, deadline_s - time.monotonic()))
            if tell is not None:
                tell(zone.name)

    def adopt(self) -> None:
        """Make each zone a child of its parent, by the API.

        Raises:
            UnavailableError: a zone refuses that.
        """
        for zone in self:
            if zone.parent is not None:
                zone.parent.adopt(zone)

    def wait_until_active(self, timeout_s: float = _ACTIVE_S) -> None:
        """Wait until each zone that runs is ready, and has had an answer of those below that run.

        Raises:
            UnavailableError: it takes longer; the message names who is missed.
        """
        deadline_s = time.monotonic() + timeout_s
        for zone in self:
            if zone.pid is not None:
                zone.wait_until_ready(max(0.0, deadline_s - time.monotonic()))
        while True:
            missed = [name for zone in self if zone.pid for name in self._missed_by(zone)]
            if not missed:
                return
            if time.monotonic() > deadline_s:
                raise UnavailableError(f"not active after {timeout_s:g} s: {', '.join(missed)}")
            time.sleep(_POLL_S)

    def _missed_by(self, zone: ZoneProcess) -> list[str]:
        running = {child.name for child in self.children_of(zone) if child.pid}
        return sorted(running - zone.active_children()) if running else []

    def stop(self, timeout_s: float = STOP_S) -> None:
        """End all zones, and kill those that take too long; parents first."""
        deadline_s = time.monotonic() + timeout_s
        with ExitStack() as stack:
            for zone in self:
                stack.callback(zone.kill)  # whatever comes in between
            for zone in self:
                zone.terminate()
            for zone in self:
                zone.stop(max(0.0, deadline_s - time.monotonic()))


@contextmanager
def running_tree(
    spec: ZoneSpec, folder: Path | None = None, *, timeout_s: float = READY_S
) -> Generator[ZoneTree]:
    """Run a tree of zones while the body runs, with each child active at its parent.

    Args:
        spec: of the root.
        folder: where their files go, and stay; without it to a new one, which is removed.
        timeout_s: how long all may take to start.

    Raises:
        UnavailableError: a zone does not start, or is not taken by its parent.
    """
    with made_tree(spec, folder) as tree:
        tree.start(timeout_s)
        tree.adopt()
        tree.wait_until_active()
        yield tree


@contextmanager
def made_tree(spec: ZoneSpec, folder: Path | None = None) -> Generator[ZoneTree]:
    """Make the files of a tree, and end whatever of it runs when the body has ended.

    Args:
        spec: of the root.
        folder: see `running_tree`.
    """
    place = folder or Path(tempfile.mkdtemp(prefix="berth-zones-"))
    try:
        tree = ZoneTree(spec, place)
        try:
            yield tree
        finally:
            tree.stop()
    finally:
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)


def _below(spec: ZoneSpec) -> Iterator[ZoneSpec]:
    """Return a zone and all below it, level by level."""
    level = [spec]
    while level:
        yield from level
        level = [child for one in level for child in one.children]
