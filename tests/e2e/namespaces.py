"""Two machines in one: network namespaces that only a cable joins."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

ADDRESSES = ("192.0.2.1", "192.0.2.2")
"""Of the two ends; meant for examples, and seen in these namespaces only."""
_CABLE = "cable"
_NUMBERS = itertools.count(1)


class Machines:
    """Two network namespaces; nothing else on this machine is connected to them."""

    def __init__(self) -> None:
        number = f"{os.getpid()}-{next(_NUMBERS)}"
        self.names = tuple(f"berth-{number}-{end}" for end in ("a", "b"))

    def make(self) -> None:
        """Make them, and the cable.

        Raises:
            CalledProcessError: this machine has no network namespaces, or keeps them to itself.
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
        """Take the cable out of one of them: the other hears nothing any more."""
        _ip("-n", self.names[end], "link", "set", _CABLE, "down")

    def join(self) -> None:
        """Put the cable in again."""
        for name in self.names:
            _ip("-n", name, "link", "set", _CABLE, "up")

    def within(self, end: int) -> list[str]:
        """Return the words before a command that make it run on one of them."""
        return ["ip", "netns", "exec", self.names[end]]

    def remove(self) -> None:
        """Remove those that there are; the cable goes with them."""
        for name in self.names:
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", name)


@contextmanager
def two_machines() -> Iterator[Machines]:
    """Give two machines for a while, or skip the test where there can be none."""
    if shutil.which("ip") is None:
        pytest.skip("no `ip` here, of the package iproute2: make virt-packages")
    if os.geteuid():
        pytest.skip("network namespaces take root")
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
