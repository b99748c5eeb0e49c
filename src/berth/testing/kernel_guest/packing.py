"""Packs an initial RAM disk in the format that Linux reads: a compressed `newc` cpio archive."""

import gzip
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_MAGIC = b"070701"
_END = "TRAILER!!!"
_ALIGNMENT = 4
_FOLDER = stat.S_IFDIR | 0o755
_FILE = stat.S_IFREG | 0o755
_CONSOLE = (5, 1)
_FOLDERS = ("bin", "dev", "modules", "proc", "sys")


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    mode: int = 0
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def initrd(init: bytes, busybox: bytes, modules: Mapping[str, bytes]) -> bytes:
    """Return an initial RAM disk.

    Args:
        init: the script that the kernel runs; busybox is at `/bin/busybox`.
        busybox: the statically linked program.
        modules: the kernel modules by file name, in loading order. They are placed in `/modules`,
            and their names in `/modules/order`.
    """
    order = "".join(f"{name}\n" for name in modules).encode()
    entries = [
        *(_Entry(name, _FOLDER) for name in _FOLDERS),
        # The kernel opens the console for the first process before anything is mounted on /dev.
        _Entry("dev/console", stat.S_IFCHR | 0o600, device=_CONSOLE),
        _Entry("init", _FILE, init),
        _Entry("bin/busybox", _FILE, busybox),
        *(_Entry(f"modules/{name}", _FILE, data) for name, data in modules.items()),
        _Entry("modules/order", _FILE, order),
    ]
    # Without a timestamp, equal inputs give equal bytes.
    return gzip.compress(_archive(entries), mtime=0)


def _archive(entries: Iterable[_Entry]) -> bytes:
    parts = [_packed(entry, number) for number, entry in enumerate(entries, start=1)]
    return b"".join([*parts, _packed(_Entry(_END), 0)])


def _packed(entry: _Entry, number: int) -> bytes:
    name = entry.name.encode() + b"\0"
    links, device = 1, (0, 0)
    fields = (
        *(number, entry.mode, 0, 0, links, 0, len(entry.data)),
        *(*device, *entry.device, len(name), 0),
    )
    head = _MAGIC + b"".join(b"%08x" % field for field in fields) + name
    return _filled(head) + _filled(entry.data)


def _filled(part: bytes) -> bytes:
    return part + bytes(-len(part) % _ALIGNMENT)
