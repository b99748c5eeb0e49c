"""A tree of real zones on this machine: one process per zone, connected over loopback.

    spec = tree_of((3, 2), lambda name, depth: fleet(name))  # 1 + 3 + 6 zones
    with made_tree(spec) as tree:
        tree.start()
        tree.adopt()
        tree.wait_until_active()
        with tree.root.client(tree.root.tenant) as http:
            http.post("/zones/servers", json=...)
        tree["zone-2"].kill()
        tree["zone-2"].start()
        tree.wait_until_active()

At the end of the context all processes are ended by their ids, and the files are removed unless a
folder was given for them.
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
from berth.lab.zone_process import (
    READY_S,
    STOP_S,
    Launch,
    ZoneProcess,
    ZoneSpec,
    launch_program,
)

ROOT: Final = "root"

_ACTIVE_S: Final = 30.0
_POLL_S: Final = 0.05

FleetFactory = Callable[[str, int], Sequence[FakeHost]]
"""Takes the name and the depth of a zone, 0 for the root, and returns its hosts."""


def tree_of(
    shape: Sequence[int], hosts: FleetFactory, settings: Mapping[str, object] | None = None
) -> ZoneSpec:
    """Return a tree in which all zones of a level have the same number of children.

    Args:
        shape: the number of children of the root, then of each of these, and so on; an empty
            sequence means a root without children.
        hosts: see `FleetFactory`; different zones may have hosts of the same name.
        settings: the settings of all zones; see `ZoneSpec`.

    Returns:
        The root of zones with the names `root`, `zone-1`, `zone-1-2` and so on.

    Raises:
        InvalidInputError: a number of children is below 1.
    """
    if any(count < 1 for count in shape):
        raise InvalidInputError("shape", f"each number in {tuple(shape)} must be at least 1")

    def grow(name: str, prefix: str, depth: int) -> ZoneSpec:
        # Parents come first, because a factory may depend on the order of its calls.
        own = hosts(name, depth)
        count = shape[depth] if depth < len(shape) else 0
        names = [f"{prefix}-{number}" for number in range(1, count + 1)]
        children = tuple(grow(one, one, depth + 1) for one in names)
        return ZoneSpec(name, own, children, settings or {})

    return grow(ROOT, "zone", 0)


class ZoneTree:
    """The zones of a tree by their names, parents before their children; see `made_tree`.

    Args:
        spec: the root and, in it, all other zones.
        folder: the folder with a subfolder for each zone.
        launch: starts the processes.

    Raises:
        InvalidInputError: two zones have the same name.
        UnavailableError: there are not enough free ports.
    """

    def __init__(self, spec: ZoneSpec, folder: Path, launch: Launch = launch_program) -> None:
        parents: dict[str, str] = {}
        specs = {spec.name: spec}
        for one in _below(spec):
            for child in one.children:
                if child.name in specs:
                    raise InvalidInputError(
                        "name", f"two zones have the name {child.name}; give each its own"
                    )
                specs[child.name] = child
                parents[child.name] = one.name
        # One call finds all ports before any zone starts, so no two zones get the same port.
        ports = free_ports(len(specs))
        self._zones: dict[str, ZoneProcess] = {}
        for port, (name, one) in zip(ports, specs.items(), strict=True):
            parent = self._zones.get(parents.get(name, ""))
            self._zones[name] = ZoneProcess(one, folder / name, port, parent, launch=launch)

    @property
    def root(self) -> ZoneProcess:
        """The zone without a parent."""
        return next(iter(self._zones.values()))

    def __getitem__(self, name: str) -> ZoneProcess:
        return self._zones[name]

    def __iter__(self) -> Iterator[ZoneProcess]:
        return iter(self._zones.values())

    def __len__(self) -> int:
        return len(self._zones)

    def children_of(self, zone: ZoneProcess) -> list[ZoneProcess]:
        """Return the children of a zone, in the order of its spec."""
        return [self._zones[child.name] for child in zone.spec.children]

    def start(self, timeout_s: float = READY_S, tell: Callable[[str], None] | None = None) -> None:
        """Start all zones together, and wait until each one answers and all its hosts are up.

        Args:
            timeout_s: the time for all zones together, in seconds.
            tell: called with the name of each zone that is ready.

        Raises:
            UnavailableError: a zone is already running, or is not ready in time; the message then
                quotes the end of its log.
        """
        deadline_s = time.monotonic() + timeout_s
        # All processes start before the first wait, because start-up time is mostly imports, which
        # overlap on several processors.
        for zone in self:
            zone.start()
        for zone in self:
            zone.wait_until_ready(max(0.0, deadline_s - time.monotonic()))
            if tell is not None:
                tell(zone.name)

    def adopt(self) -> None:
        """Make each zone a child of its parent, through the API.

        Raises:
            UnavailableError: a zone refuses a child or does not answer.
        """
        # The parent's API adds the child, because only the parent's process can seal the child's
        # password with the parent's keys.
        for zone in self:
            if zone.parent is not None:
                zone.parent.adopt(zone)

    def wait_until_active(self, timeout_s: float = _ACTIVE_S) -> None:
        """Wait until each running zone is ready and has had an answer from its running children.

        Raises:
            UnavailableError: the zones take longer than `timeout_s` seconds; the message names the
                zones, or quotes the end of the log of a zone that is not ready.
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
                names = ", ".join(missed)
                raise UnavailableError(
                    f"zones {names} did not become active within {timeout_s:g} s"
                )
            time.sleep(_POLL_S)

    def _missed_by(self, zone: ZoneProcess) -> list[str]:
        running = {child.name for child in self.children_of(zone) if child.pid}
        return sorted(running - zone.active_children()) if running else []

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Stop all zones, parents first, and kill those that run after `timeout_s` seconds."""
        # A parent that outlived its children would log each of them as down, so parents stop first.
        deadline_s = time.monotonic() + timeout_s
        with ExitStack() as stack:
            for zone in self:
                stack.callback(zone.kill)  # runs also after an exception or Ctrl-C
            for zone in self:
                zone.terminate()
            for zone in self:
                zone.stop(max(0.0, deadline_s - time.monotonic()))


@contextmanager
def made_tree(
    spec: ZoneSpec, folder: Path | None = None, launch: Launch = launch_program
) -> Generator[ZoneTree]:
    """Create the files of a tree and yield it; end its processes at the end of the context.

    Args:
        spec: the root and, in it, all other zones.
        folder: the folder of the files, which remain; without it a temporary folder is used.
        launch: starts the processes.
    """
    place = folder or Path(tempfile.mkdtemp(prefix="berth-zones-"))
    try:
        tree = ZoneTree(spec, place, launch)
        try:
            yield tree
        finally:
            tree.stop()
    finally:
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)


def _below(spec: ZoneSpec) -> Iterator[ZoneSpec]:
    """Yield a zone and its descendants, level by level."""
    level = [spec]
    while level:
        yield from level
        level = [child for one in level for child in one.children]
