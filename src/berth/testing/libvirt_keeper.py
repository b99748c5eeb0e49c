"""The keeper process of a private libvirtd: its namespaces and children; see `private_libvirt`.

The keeper reads commands from its standard input. It answers `start` with `ready` or `failed`,
`kill` with `ended`, and `hang` and `go on` with `done`. At the end of its input it kills libvirtd
and all guests, and exits.
"""

import contextlib
import ctypes
import os
import selectors
import signal
import socket
import subprocess
import sys
import zlib
from pathlib import Path

# Constants of Linux's sched.h, mount.h and prctl.h, which Python 3.11 does not provide.
_CLONE_NEWNS = 0x0002_0000
_CLONE_NEWNET = 0x4000_0000
_MS_BIND = 0x1000
_MS_REC_PRIVATE = 0x4000 | 0x4_0000
_MNT_DETACH = 2
_PR_SET_CHILD_SUBREAPER = 36
_READY_S = 60
# The ports for migrations begin here, below those that Linux assigns to outgoing connections.
_FIRST_PORT = 20_000
_PORTS = 64
# libvirt's QEMU driver does not start without this user, even when its settings name another one.
_USER = "libvirt-qemu"
_USER_ID = 64_055
_FOLDERS = {
    "etc": "/etc/libvirt",
    "run": "/run/libvirt",
    "lib": "/var/lib/libvirt",
    "cache": "/var/cache/libvirt",
    "log": "/var/log/libvirt",
}
_QEMU_CONF = """\
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
migration_port_min = {first_port}
migration_port_max = {last_port}
"""
_LIBVIRTD_CONF = """\
unix_sock_dir = "{sockets}"
unix_sock_group = "root"
unix_sock_rw_perms = "0700"
auth_unix_rw = "none"
auth_unix_ro = "none"
host_uuid = "{host_uuid}"
max_client_requests = 32
log_outputs = "3:file:{folder}/libvirtd.log"
"""


class Keeper:
    """The process that starts and stops one libvirtd.

    Args:
        folder: holds the state, settings and logs of libvirtd.
        sockets: folder of its sockets.
        host_uuid: the host uuid that libvirtd reports.
        netns: name of the network namespace to enter, or empty for the current one.
    """

    def __init__(self, folder: Path, sockets: Path, host_uuid: str, netns: str) -> None:
        self._folder = folder
        self._sockets = sockets
        self._host_uuid = host_uuid
        self._netns = netns
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._daemon: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Carry out commands until the end of the input."""
        self._write_settings()
        self._enter()
        # Orphaned descendants, such as QEMU, become children of this process from now on.
        self._check(self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
        reading, writing = socket.socketpair()
        writing.setblocking(False)  # noqa: FBT003 - its name says it
        signal.signal(signal.SIGCHLD, _heard)
        # The terminal also sends Ctrl-C to this process, which must outlive the test to clean up.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin, selectors.EVENT_READ)
            selector.register(reading, selectors.EVENT_READ)
            try:
                while self._obey(selector, reading):
                    self._reap()
            finally:
                self._end()

    def _obey(self, selector: selectors.BaseSelector, children: socket.socket) -> bool:
        """Handle the next command or signal, and return whether to continue."""
        for key, _ in selector.select():
            if key.fileobj is children:
                children.recv(1024)
                continue
            match sys.stdin.readline().strip():
                case "start":
                    self._start()
                case "kill":
                    self._kill()
                case "hang":
                    self._send(signal.SIGSTOP)
                case "go on":
                    self._send(signal.SIGCONT)
                case _:
                    return False
        return True

    def _start(self) -> None:
        # libvirtd announces over systemd's notification protocol that it accepts connections.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifications:
            notifications.bind(str(self._sockets / "notify"))
            notifications.settimeout(_READY_S)
            with (self._folder / "keeper.log").open("ab") as log:
                self._daemon = subprocess.Popen(  # noqa: S603 - the program is fixed
                    ["libvirtd", "-p", f"{self._sockets}/libvirtd.pid"],  # noqa: S607 - as installed
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "NOTIFY_SOCKET": str(self._sockets / "notify")},  # noqa: TID251 - passed on
                )
            with contextlib.suppress(TimeoutError):
                notifications.recv(1024)
        (self._sockets / "notify").unlink()
        self._say("ready" if self._daemon.poll() is None else "failed")

    def _kill(self) -> None:
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.wait()
        (self._sockets / "libvirtd.pid").unlink(missing_ok=True)
        self._say("ended")

    def _send(self, number: signal.Signals) -> None:
        if self._daemon is not None:
            self._daemon.send_signal(number)
        self._say("done")

    def _end(self) -> None:
        """Kill libvirtd and all processes that it or this process has started."""
        # libvirtd is killed first, so that it cannot start more guests.
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.wait()
        # The children of a killed process become children of the keeper, so the loop repeats until
        # none is left.
        while children := self._children():
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, 0)

    def _reap(self) -> None:
        """Reap orphans that have exited, except libvirtd, which its `Popen` object reaps."""
        for pid in self._children():
            if self._daemon is None or pid != self._daemon.pid:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _children(self) -> list[int]:
        pid = os.getpid()
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def _say(self, word: str) -> None:
        sys.stdout.write(f"{word}\n")
        sys.stdout.flush()

    def _write_settings(self) -> None:
        for name in _FOLDERS:
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        # Each libvirtd searches its own port range for free ports, so two of them seldom collide.
        number = zlib.crc32(str(self._folder).encode()) % 150
        first_port = _FIRST_PORT + _PORTS * number
        ports = {"first_port": first_port, "last_port": first_port + _PORTS - 1}
        (self._folder / "etc/qemu.conf").write_text(_QEMU_CONF.format(**ports))
        given = {"sockets": self._sockets, "host_uuid": self._host_uuid, "folder": self._folder}
        (self._folder / "etc/libvirtd.conf").write_text(_LIBVIRTD_CONF.format(**given))
        for name, entry in (
            ("passwd", f"{_USER}:x:{_USER_ID}:{_USER_ID}::/var/lib/libvirt:/usr/sbin/nologin\n"),
            ("group", f"{_USER}:x:{_USER_ID}:\n"),
        ):
            known = Path("/etc", name).read_text()
            more = "" if f"\n{_USER}:" in known else entry
            (self._folder / name).write_text(known + more)

    def _enter(self) -> None:
        """Enter the namespaces, and mount the folder's files over libvirt's."""
        if self._netns:
            with Path("/run/netns", self._netns).open("rb") as file:
                self._check(self._libc.setns(file.fileno(), _CLONE_NEWNET))
        self._check(self._libc.unshare(_CLONE_NEWNS))
        # Under systemd, mounts propagate to the parent namespace, where they must not appear.
        self._mount("none", "/", None, _MS_REC_PRIVATE)
        if self._netns:
            # The old mount would still show the interfaces of the previous network namespace.
            self._libc.umount2(b"/sys", _MNT_DETACH)
            self._mount("sysfs", "/sys", "sysfs", 0)
        for name, target in _FOLDERS.items():
            Path(target).mkdir(parents=True, exist_ok=True)
            self._mount(str(self._folder / name), target, None, _MS_BIND)
        for name in ("passwd", "group"):
            self._mount(str(self._folder / name), f"/etc/{name}", None, _MS_BIND)

    def _mount(self, source: str, target: str, kind: str | None, flags: int) -> None:
        fs_type = None if kind is None else kind.encode()
        self._check(self._libc.mount(source.encode(), target.encode(), fs_type, flags, None))

    def _check(self, result: int) -> None:
        if result != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _heard(_: int, __: object) -> None:
    """Do nothing; without a handler, the signal would not be written to the wake-up socket."""
