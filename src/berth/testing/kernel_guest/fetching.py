"""Extracts Debian's kernel and busybox from their packages, without installing the packages."""

import os
import re
import subprocess
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from berth.testing.kernel_guest.packing import initrd

_META = "linux-image-cloud-amd64"
_BUSYBOX = "busybox-static"
_CONCRETE = re.compile(r"^ *Depends: (linux-image-\S+)$", re.MULTILINE)
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")
_PROGRAM = "bin/busybox"
# The modules for disks, for the power button and its events, and for reporting a panic.
_WANTED: Final = ("virtio_pci", "virtio_blk", "button", "evdev", "pvpanic_mmio")
_ELSEWHERE = Path("/")
_TIMEOUT_S = 300.0
# By default apt downloads as another user, and warns if that user cannot write to the folder.
_APT = ("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "-o", "Acquire::http::Timeout=20")


class FetchError(Exception):
    """The kernel cannot be made available on this machine; the message gives the reason."""


def make_kernel_guest(folder: Path, init: bytes) -> tuple[bytes, bytes]:
    """Return the kernel and the initial RAM disk of a guest.

    Args:
        folder: caches the downloaded packages.
        init: the script that the guest runs.

    Raises:
        FetchError: the system is not Debian, the packages cannot be downloaded or unpacked, or the
            kernel lacks a module that the guest needs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        packages = _packages(folder)
    except FetchError:
        if os.geteuid():
            raise
        # A stale index names package versions that the archive has since removed.
        _run(*_APT, "update")
        packages = _packages(folder)
    found = _members(packages[0], _is_kernel_or_module)
    (kernel,) = (data for name, data in found.items() if name.startswith("boot/"))
    modules = {_module(name): data for name, data in found.items() if name.endswith(".ko")}
    (busybox,) = _members(packages[1], _PROGRAM.__eq__).values()
    order = in_order(_WANTED, modules)
    return kernel, initrd(init, busybox, {f"{name}.ko": modules[name] for name in order})


def in_order(wanted: Sequence[str], modules: Mapping[str, bytes]) -> list[str]:
    """Return modules with all their dependencies, each before the modules that need it.

    Raises:
        FetchError: the kernel lacks one of the modules.
    """
    order: list[str] = []
    for name in wanted:
        if name not in modules:
            raise FetchError(f"the kernel lacks the module {name}, which the guest needs")
        order += [one for one in in_order(_needs(modules[name]), modules) if one not in order]
        order += [name] if name not in order else []
    return order


def _needs(module: bytes) -> list[str]:
    found = _DEPENDS.search(module)
    names = found[1].decode().split(",") if found else []
    return [name.replace("-", "_") for name in names if name]


def _module(path: str) -> str:
    return Path(path).stem.replace("-", "_")


def _is_kernel_or_module(name: str) -> bool:
    return name.startswith("boot/vmlinuz-") or name.endswith(".ko")


def _packages(folder: Path) -> tuple[Path, Path]:
    """Return the package files of the kernel and of busybox."""
    return _download(_concrete(), folder), _download(_BUSYBOX, folder)


def _concrete() -> str:
    text = _run("apt-cache", "depends", _META).decode()
    found = _CONCRETE.search(text)
    if found is None:
        raise FetchError(f"apt has no package {_META}; use Debian and run apt-get update")
    return found[1]


def _download(package: str, folder: Path) -> Path:
    """Return the file of a package, in the version that apt would install."""
    # apt runs in another folder, because it prints no URI for a file that already exists.
    line = _run(*_APT, "download", "--print-uris", package, cwd=_ELSEWHERE).decode()
    path = folder / line.split()[1]
    if not path.is_file():
        _run(*_APT, "download", package, cwd=folder)
    return path


def _members(package: Path, is_wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Return the wanted files of a package by path."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    found: dict[str, bytes] = {}
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as process,  # noqa: S603 - fixed
        tarfile.open(fileobj=process.stdout, mode="r|") as archive,
    ):
        for member in archive:
            name = member.name.removeprefix("./")
            if member.isfile() and is_wanted(name):
                content = archive.extractfile(member)
                found[name] = content.read() if content is not None else b""
    if process.returncode:
        raise FetchError(f"dpkg-deb cannot unpack {package}; delete the file and try again")
    return found


def _run(*words: str, cwd: Path | None = None) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - the words are fixed, but for names that apt gives
            words,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except FileNotFoundError as error:
        raise FetchError(f"{words[0]} is not installed; install it and try again") from error
    except subprocess.TimeoutExpired as error:
        raise FetchError(
            f"{words[0]} did not finish within {_TIMEOUT_S:.0f} s; try again"
        ) from error
    except subprocess.CalledProcessError as error:
        output = error.stderr.decode(errors="replace").strip()
        raise FetchError(f"{' '.join(words)} failed: {output}") from error
    return done.stdout
