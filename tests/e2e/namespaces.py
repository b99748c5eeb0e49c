"""Two simulated machines: network namespaces that a virtual cable connects."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

ADDRESSES = ("192.0.2.1", "192.0.2.2")
"""The addresses of the two ends, from a range for examples; only these namespaces use them."""
_CABLE = "cable"
_NUMBERS = itertools.count(1)


class Machines:
    """Two network namespaces that are connected only to each other."""

    def __init__(self) -> None:
        number = f"{os.getpid()}-{next(_NUMBERS)}"
        self.names = tuple(f"berth-{number}-{end}" for end in ("a", "b"))

    def make(self) -> None:
        """Create the namespaces and the cable.

        Raises:
            CalledProcessError: this machine does not support or allow network namespaces.
        """
        first, second = self.names
        for name in self.names:
            _ip("netns", "add", name)
        cable = ("link", "add", _CABLE, "netns", first, "type", "veth")
        _ip(*cable, "peer", "name", _CABLE, "netns", second)
        for name, address in zip(self.names, ADDRESSES, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", _CABLE)
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", _CABLE, "up")

    def cut(self, end: int) -> None:
        """Disconnect one end of the cable, so neither end receives anything."""
        _ip("-n", self.names[end], "link", "set", _CABLE, "down")

    def join(self) -> None:
        """Connect the cable again."""
        for name in self.names:
            _ip("-n", name, "link", "set", _CABLE, "up")

    def remove(self) -> None:
        """Remove the namespaces that exist, and with them the cable."""
        for name in self.names:
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", name)


@contextmanager
def two_machines() -> Iterator[Machines]:
    """Yield two machines and remove them; skip the test if there can be none."""
    if shutil.which("ip") is None:
        pytest.skip("no `ip`, of the package iproute2: make virt-packages")
    if os.geteuid():
        pytest.skip("network namespaces need root")
    machines = Machines()
    try:
        try:
            machines.make()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
        yield machines
    finally:
        machines.remove()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
