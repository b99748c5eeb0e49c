"""Fetching: Debian's kernel and busybox out of their packages, without installing these."""

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
_WANTED: Final = ("virtio_pci", "virtio_blk", "button", "evdev", "pvpanic_mmio")
"""Disks, the power button and who hears it, and telling the machine of a panic."""
_ELSEWHERE = Path("/")
_TIMEOUT_S = 300.0
# Apt drops root for a user who cannot write here, and warns of it.
_APT = ("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "-o", "Acquire::http::Timeout=20")


class FetchError(Exception):
    """The kernel cannot be had on this machine; says why."""


def make_kernel_guest(folder: Path, init: bytes) -> tuple[bytes, bytes]:
    """Return the kernel and the initial RAM disk of a guest, of packages kept in a folder.

    Args:
        folder: packages that are there already are not downloaded again.
        init: the script that the guest runs.

    Raises:
        FetchError: this is no Debian, or the packages cannot be downloaded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        packages = _packages(folder)
    except FetchError:
        if os.geteuid():
            raise
        _run(*_APT, "update")  # what apt knows of may be gone by now
        packages = _packages(folder)
    found = _members(packages[0], _is_kernel_or_module)
    (kernel,) = (data for name, data in found.items() if name.startswith("boot/"))
    modules = {_module(name): data for name, data in found.items() if name.endswith(".ko")}
    (busybox,) = _members(packages[1], _PROGRAM.__eq__).values()
    order = in_order(_WANTED, modules)
    return kernel, initrd(init, busybox, {f"{name}.ko": modules[name] for name in order})


def in_order(wanted: Sequence[str], modules: Mapping[str, bytes]) -> list[str]:
    """Return modules with all that they need, which comes before them.

    Raises:
        FetchError: the kernel has no such module.
    """
    order: list[str] = []
    for name in wanted:
        if name not in modules:
            raise FetchError(f"the kernel has no module {name}")
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
    """Return the files of the two packages."""
    return _download(_concrete(), folder), _download(_BUSYBOX, folder)


def _concrete() -> str:
    text = _run("apt-cache", "depends", _META).decode()
    found = _CONCRETE.search(text)
    if found is None:
        raise FetchError(f"apt knows no package {_META}; this takes a Debian, and apt-get update")
    return found[1]


def _download(package: str, folder: Path) -> Path:
    """Return the file of a package, in the version that apt would install."""
    # Elsewhere than in the folder, since apt says nothing of a file that is there.
    line = _run(*_APT, "download", "--print-uris", package, cwd=_ELSEWHERE).decode()
    path = folder / line.split()[1]
    if not path.is_file():
        _run(*_APT, "download", package, cwd=folder)
    return path


def _members(package: Path, is_wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Return files of a package, by their paths."""
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
        raise FetchError(f"{package} cannot be unpacked")
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
        raise FetchError(f"there is no {words[0]} here") from error
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"{words[0]} takes more than {_TIMEOUT_S:.0f} s") from error
    except subprocess.CalledProcessError as error:
        told = error.stderr.decode(errors="replace").strip()
        raise FetchError(f"{' '.join(words)}: {told}") from error
    return done.stdout
