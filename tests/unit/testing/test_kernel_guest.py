"""Tests for the RAM disk of the kernel guest and for its console output."""

import gzip
import stat

import pytest

from berth.testing.kernel_guest import KernelGuestReady, counts_of, starts_of
from berth.testing.kernel_guest.fetching import FetchError, in_order
from berth.testing.kernel_guest.packing import initrd

_HEAD = 110
_FIELD = 8


def unpacked(archive: bytes) -> dict[str, tuple[int, bytes, tuple[int, int]]]:
    """Return the mode, content and device of each entry of an archive, by name."""
    found: dict[str, tuple[int, bytes, tuple[int, int]]] = {}
    at = 0
    while True:
        head = archive[at : at + _HEAD]
        assert head[:6] == b"070701"
        fields = [int(head[i : i + _FIELD], 16) for i in range(6, _HEAD, _FIELD)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = archive[at + _HEAD : at + _HEAD + name_size - 1].decode()
        begin = at + -(-(_HEAD + name_size) // 4) * 4
        if name == "TRAILER!!!":
            return found
        found[name] = (mode, archive[begin : begin + size], (fields[9], fields[10]))
        at = begin + -(-size // 4) * 4


def test_a_ram_disk_has_all_that_the_kernel_looks_for() -> None:
    """The RAM disk has a console, an init program, busybox and the modules in their order."""
    files = unpacked(gzip.decompress(initrd(b"#!", b"ELF", {"b.ko": b"12345", "a.ko": b""})))
    mode, _, device = files["dev/console"]
    assert (stat.S_ISCHR(mode), device) == (True, (5, 1))
    for name, content in {"init": b"#!", "bin/busybox": b"ELF", "modules/b.ko": b"12345"}.items():
        mode, found, _ = files[name]
        assert (found, stat.S_ISREG(mode), mode & 0o111) == (content, True, 0o111)
    assert files["modules/order"][1] == b"b.ko\na.ko\n"
    assert all(stat.S_ISDIR(files[name][0]) for name in ("proc", "sys", "dev", "bin", "modules"))


def test_equal_parts_make_an_equal_ram_disk() -> None:
    """Equal contents give identical RAM disks."""
    assert initrd(b"1", b"2", {}) == initrd(b"1", b"2", {})


def module(*needed: str) -> bytes:
    """Return the bytes of a module that depends on others."""
    return b"\x7fELF\0license=GPL\0depends=" + ",".join(needed).encode() + b"\0name=x\0"


def test_modules_come_after_what_they_need() -> None:
    """Each module is loaded once and after its dependencies; `-` and `_` are equivalent."""
    modules = {
        "blk": module("ring", "core"),
        "pci": module("core", "modern-dev"),
        "core": module("ring"),
        "ring": module(),
        "modern_dev": module(),
        "unused": module(),
    }
    assert in_order(["blk", "pci"], modules) == ["ring", "core", "blk", "modern_dev", "pci"]


def test_a_module_that_is_missing_is_named() -> None:
    """A missing dependency is named in the error."""
    with pytest.raises(FetchError, match="lacks the module gone"):
        in_order(["one"], {"one": module("gone")})


def test_what_a_guest_says_is_read_from_whole_lines() -> None:
    """Incomplete lines of the console are ignored."""
    uuid = "0" * 8 + "-0000-4000-8000-" + "0" * 12
    line = f"BERTH-KERNEL ready uuid={uuid} cpus=2 mib=92 boots=3\r\n"
    assert starts_of(f"Linux\r\n{line}more\r\n{line}") == [KernelGuestReady(uuid, 2, 92, 3)] * 2
    assert starts_of(line.rstrip()) == []
    assert counts_of("BERTH-KERNEL count 9\r\nBERTH-KERNEL count 10\r\nBERTH-KERNEL count 1") == [
        9,
        10,
    ]
