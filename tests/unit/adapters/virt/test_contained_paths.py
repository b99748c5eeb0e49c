"""Paths of drivers: no name, address or file of another host leads out of a driver's folder."""

import asyncio
import os
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.adapters.virt import disks, guest_disks
from berth.adapters.virt.contained_paths import contained_path
from berth.adapters.virt.disk_storage import SharedDiskStorage
from berth.adapters.virt.fake.folder_network import FolderNetwork
from berth.adapters.virt.fake.machine import FakeMachine
from berth.adapters.virt.guest_folder import GuestFolder, tail
from berth.adapters.virt.libvirt.guest_registry import LibvirtFolder
from berth.adapters.virt.qemu.spec import QemuFolder
from berth.domain.compute.build_failure import BuildError
from berth.domain.errors import BerthError, DriverError
from berth.domain.uuids import is_uuid
from berth.testing.builders import make_uuid

VM: Final = make_uuid("instance", 1)
_PIECES: Final = st.sampled_from(
    ["..", ".", "/", "//", "\0", "\n", "%2e%2e", "\\", "~", "a", VM, "etc", "\ud800", "é", " "]
)
hostile_names: Final = st.one_of(
    st.lists(_PIECES, max_size=8).map("".join),
    st.text(max_size=300),
    st.just(f"../{VM}"),
    st.just(f"{VM}/.."),
    st.just(f"{VM}\n"),
    st.just("a" * 256),
)
"""Names that orders, addresses and files of other hosts may contain."""


@given(hostile_names, st.integers(1, 3))
def test_a_name_stays_in_its_folder(name: str, depth: int) -> None:
    """A path is below its folder by exactly the names, or it is refused."""
    folder = Path("/berth-test-folder")
    try:
        path = contained_path(folder, *[name] * depth)
    except DriverError:
        return
    assert Path(os.path.normpath(path)).relative_to(folder).parts == (name,) * depth


@pytest.mark.parametrize("kind", [GuestFolder, QemuFolder, LibvirtFolder])
@given(name=hostile_names)
def test_only_a_uuid_names_the_folder_of_a_guest(kind: type[GuestFolder], name: str) -> None:
    """No driver makes, reads or deletes a folder that is not named by a UUID."""
    folder = Path("/berth-test-folder")
    if is_uuid(name):
        assert kind(folder, name).path.parent == folder
        return
    with pytest.raises(DriverError, match="is not the UUID"):
        kind(folder, name)


@given(hostile_names)
def test_only_a_plain_name_names_a_disk(name: str) -> None:
    """A disk is a file in the folder of its guest."""
    folder = GuestFolder(Path("/berth-test-folder"), VM)
    try:
        path = folder.disk(name)
    except DriverError:
        return
    assert (path.parent, path.name) == (folder.path, f"{name}.qcow2")


@given(hostile_names)
def test_no_disk_of_another_host_is_written_elsewhere(name: str) -> None:
    """Disks that another host offers under names that guests' disks do not have are refused."""
    folder = GuestFolder(Path("/berth-test-folder"), VM)
    if name in {"root", "ephemeral", "swap"}:
        return
    with pytest.raises(DriverError, match="guests have no such disk"):
        asyncio.run(guest_disks.copy_disks(folder, {name: "nbd://127.0.0.1:1/x"}))


def outside(tmp_path: Path) -> Path:
    """Return a folder with a file, which no driver may touch."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "root.qcow2").write_text("precious")
    return precious


@pytest.mark.parametrize("kind", [QemuFolder, LibvirtFolder])
def test_a_link_in_place_of_a_folder_is_not_followed(
    tmp_path: Path, kind: type[QemuFolder | LibvirtFolder]
) -> None:
    """The deletion of a guest whose folder is a symbolic link deletes nothing behind the link."""
    precious = outside(tmp_path)
    (tmp_path / VM).symlink_to(precious, target_is_directory=True)
    with pytest.raises(DriverError, match="symbolic link"):
        kind(tmp_path, VM).remove()
    assert (precious / "root.qcow2").read_text() == "precious"


def test_a_link_in_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    """Neither a disk nor a console may be a link, so no other file is read, cut or given away."""
    precious = outside(tmp_path)
    folder = GuestFolder(tmp_path, VM)
    folder.path.mkdir()
    folder.disk("root").symlink_to(precious / "root.qcow2")
    with pytest.raises(DriverError, match="symbolic link"):
        folder.disk("root")
    big = precious / "big"
    big.write_bytes(b"x" * (9 * 1024 * 1024))
    folder.console.symlink_to(big)
    folder.trim_console()
    assert big.stat().st_size == 9 * 1024 * 1024
    with pytest.raises(OSError, match="symbolic"):
        tail(folder.console, 100)


@given(st.one_of(hostile_names, hostile_names.map("stored:{}".format)))
def test_an_address_deletes_stored_disks_only(
    tmp_path_factory: pytest.TempPathFactory, address: str
) -> None:
    """Whatever an order names as stored disks, nothing beside them is deleted."""
    tmp_path = tmp_path_factory.mktemp("storage")
    precious = outside(tmp_path)
    (tmp_path / "storage" / make_uuid("instance", 2)).mkdir(parents=True)
    storage = SharedDiskStorage(tmp_path / "storage", "host-1")
    with suppress(BerthError):
        asyncio.run(storage.drop(address))
    assert (precious / "root.qcow2").read_text() == "precious"
    assert (tmp_path / "storage" / make_uuid("instance", 2)).is_dir()
    shutil.rmtree(tmp_path)


def test_stored_disks_behind_a_link_are_refused(tmp_path: Path) -> None:
    """Another host cannot have its disks deleted, or fetched, through a link in the storage."""
    precious = outside(tmp_path)
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / VM).symlink_to(precious, target_is_directory=True)
    storage = SharedDiskStorage(tmp_path / "storage", "host-1")
    with pytest.raises(DriverError, match="symbolic link"):
        asyncio.run(storage.drop(f"stored:{VM}"))
    with pytest.raises(BuildError, match="symbolic link"):
        storage.sources(f"stored:{VM}")
    assert (precious / "root.qcow2").is_file()


def header(*, version: int = 3, backing_at: int = 0, features: int = 0) -> bytes:
    """Return the header of a qcow2 file."""
    start = struct.pack(">4sIQ", b"QFI\xfb", version, backing_at)
    return start.ljust(72, b"\0") + struct.pack(">Q", features) + bytes(24)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (header(backing_at=0x200), "refers to another file"),
        (header(features=1 << 2), "refers to another file"),
        (header(version=2), "refers to another file"),
        (b"raw", "not a qcow2 file"),
        (b"", "not a qcow2 file"),
    ],
)
def test_a_stored_disk_that_refers_to_files_is_refused(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    """A disk that another host has stored cannot make this host copy one of its own files."""
    path = tmp_path / "root.qcow2"
    path.write_bytes(content)
    with pytest.raises(DriverError, match=reason):
        disks.check_alone(path)
    path.write_bytes(header())
    disks.check_alone(path)
    link = tmp_path / "link.qcow2"
    link.symlink_to(path)
    with pytest.raises(DriverError, match="symbolic link"):
        disks.check_alone(link)


@given(hostile_names)
def test_simulated_hosts_stay_in_their_folder(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """The fake driver opens no file outside of the folder of its network, whatever it is told."""
    tmp_path = tmp_path_factory.mktemp("network")
    precious = outside(tmp_path)
    network, machine = FolderNetwork(tmp_path / "network"), FakeMachine("host-1")
    acts: tuple[Callable[[], object], ...] = (
        lambda: network.take_in(machine, name),
        lambda: network.forget(machine, name),
        lambda: network.drop(name),
        lambda: network.disk_at(name),
        lambda: network.clear(name),
        lambda: network.disk_at(f"fake+folder:///{name}"),
        lambda: network.drop(f"fake+folder:///{name}"),
    )
    for act in acts:
        with suppress(BerthError):
            act()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["network", "precious"]
    assert (precious / "root.qcow2").read_text() == "precious"
    shutil.rmtree(tmp_path)
