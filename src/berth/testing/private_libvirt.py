"""Private libvirtd processes for tests: any number per machine, separate from the machine's own.

Each libvirtd has its own mount namespace, in which libvirt's folders belong to the test, and
optionally the network namespace of a host. Its parent is a keeper process, which adopts and reaps
orphans (QEMU detaches itself by design), and kills all of them when the test ends or crashes.

`python -m berth.testing.private_libvirt FOLDER SOCKETS UUID [NETNS]` runs the keeper.
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
    """A running libvirtd; `uri` is the address to connect to.

    Args:
        keeper: the keeper process, with pipes as its standard input and output.
        uri: the address of libvirtd.
        log: the file with the output of libvirtd, for error messages.
    """

    def __init__(self, keeper: "subprocess.Popen[str]", uri: str, log: Path) -> None:
        self.uri = uri
        self._keeper = keeper
        self._log = log

    @property
    def pid(self) -> int:
        """The id of the keeper process, the parent of the guests, which share its namespaces."""
        return self._keeper.pid

    def kill(self) -> None:
        """Kill libvirtd with SIGKILL; its guests keep running."""
        self._ask("kill", _ENDED)

    def start(self) -> None:
        """Start libvirtd, at first or after `kill`, and wait until it accepts connections."""
        self._ask("start", _READY)

    def hang(self) -> None:
        """Suspend libvirtd with SIGSTOP until `go_on`."""
        self._ask("hang", _DONE)

    def go_on(self) -> None:
        """Continue libvirtd after `hang`."""
        self._ask("go on", _DONE)

    def _ask(self, command: str, wanted: str) -> None:
        stdin, stdout = self._keeper.stdin, self._keeper.stdout
        if stdin is None or stdout is None:
            raise RuntimeError(
                "the keeper of libvirtd must be started with pipes as stdin and stdout"
            )
        stdin.write(f"{command}\n")
        stdin.flush()
        answer = stdout.readline().strip()
        if answer != wanted:
            log = self._log.read_text()[-2_000:] if self._log.exists() else ""
            raise RuntimeError(
                f"libvirtd's keeper answered {answer!r} to {command!r}, not {wanted!r}; log: {log}"
            )


def lacking() -> str:
    """Return the reason why this machine cannot run a private libvirtd; empty if it can."""
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"{', '.join(missing)} not found; run make virt-packages"
    if find_spec("libvirt") is None:
        return "the libvirt binding is not installed; run make virt-packages"
    if os.geteuid() != 0:
        return "a private libvirtd needs namespaces, which only root can create; run as root"
    return ""


@contextmanager
def private_libvirt(
    folder: Path, host_uuid: str, netns: str | None = None
) -> Generator[PrivateLibvirt]:
    """Run a libvirtd until the end of the context, then kill it and its guests.

    Args:
        folder: holds the state of libvirtd; a later libvirtd may continue with the same state.
        host_uuid: must be unique, since libvirt does not move guests to a host with the same uuid.
        netns: name of the network namespace of libvirtd and its guests, as in `ip netns`, or None
            for that of this process.

    Raises:
        RuntimeError: libvirtd does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # The path of a socket has at most 107 bytes, and pytest's folders may be longer.
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
                # The keeper exits at the end of its input, which also comes if this process dies.
                if keeper.stdin is not None:
                    keeper.stdin.close()
                keeper.wait(_END_S)


if __name__ == "__main__":
    from berth.testing.libvirt_keeper import Keeper

    Keeper(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], (*sys.argv[4:], "")[0]).run()
