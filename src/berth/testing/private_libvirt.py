"""A libvirtd of a test's own: any number of them on one machine, none of them the machine's.

Each has its own mount namespace, in which libvirt's folders are those of the test, and, when it is
asked for, the network namespace of a host. It is the child of a keeper, a process that takes in
whatever becomes an orphan (QEMU does, by design), waits for it, and ends all of it when the test
ends, however that ends.

`python -m berth.testing.private_libvirt FOLDER SOCKETS UUID [NETNS]` is the keeper.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

PROGRAMS = ("libvirtd", "qemu-system-x86_64", "qemu-img")
_READY = "ready"
_ENDED = "ended"
_DONE = "done"
_END_S = 30


class PrivateLibvirt:
    """A libvirtd that runs; `uri` is what to connect to."""

    def __init__(self, keeper: "subprocess.Popen[str]", uri: str, log: Path) -> None:
        self.uri = uri
        self._keeper = keeper
        self._log = log

    @property
    def pid(self) -> int:
        """The keeper's process: the guests' parent, whose namespaces they are in."""
        return self._keeper.pid

    def kill(self) -> None:
        """End libvirtd by SIGKILL; its guests go on."""
        self._ask("kill", _ENDED)

    def start(self) -> None:
        """Start libvirtd again after `kill`, and wait until it takes connections."""
        self._ask("start", _READY)

    def hang(self) -> None:
        """Have libvirtd do nothing until `go_on`."""
        self._ask("hang", _DONE)

    def go_on(self) -> None:
        """Let a libvirtd that hangs go on."""
        self._ask("go on", _DONE)

    def _ask(self, command: str, wanted: str) -> None:
        stdin, stdout = self._keeper.stdin, self._keeper.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the keeper of a libvirtd has no pipes")
        stdin.write(f"{command}\n")
        stdin.flush()
        answer = stdout.readline().strip()
        if answer != wanted:
            told = self._log.read_text()[-2_000:] if self._log.exists() else ""
            raise RuntimeError(f"libvirtd has not {wanted}, but {answer or 'ended'}: {told}")


def lacking() -> str:
    """Say what this machine lacks for a libvirtd of one's own; nothing when it lacks nothing."""
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"no {', '.join(missing)} here: make virt-packages"
    if find_spec("libvirt") is None:
        return "libvirt's binding is not installed: make virt-packages"
    if os.geteuid() != 0:
        return "only root can start a libvirtd with namespaces of its own"
    return ""


@contextmanager
def private_libvirt(
    folder: Path, host_uuid: str, netns: str | None = None
) -> Generator[PrivateLibvirt]:
    """Run a libvirtd until the end of the context, and its guests with it.

    Args:
        folder: for its state, which a later one may go on with.
        host_uuid: tells it from others: libvirt moves no guest to a host with the same uuid.
        netns: the network namespace that it and its guests are in, as `ip netns` names it; that
            of this process unless it is given.

    Raises:
        RuntimeError: it does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Paths of sockets are short; those of tests are not.
    with tempfile.TemporaryDirectory(prefix="lv-") as sockets:
        argv = [sys.executable, "-m", __name__, str(folder.absolute()), sockets, host_uuid]
        keeper = subprocess.Popen(  # noqa: S603 - our own module
            [*argv, *([netns] if netns else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        uri = f"qemu+unix:///system?socket={sockets}/libvirt-sock"
        with keeper:
            try:
                made = PrivateLibvirt(keeper, uri, folder / "keeper.log")
                made.start()
                yield made
            finally:
                if keeper.stdin is not None:
                    keeper.stdin.close()
                keeper.wait(_END_S)


if __name__ == "__main__":
    from berth.testing.libvirt_keeper import Keeper

    Keeper(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], (*sys.argv[4:], "")[0]).run()
