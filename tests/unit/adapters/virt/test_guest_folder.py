"""The folders of guests: their owner, leftovers, and the shared storage."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from berth.adapters.virt.disk_storage import SharedDiskStorage
from berth.adapters.virt.guest_folder import GuestFolder, claim_state_dir, leftover_folders
from berth.domain.errors import DriverError
from berth.testing.builders import make_uuid


def test_a_host_keeps_its_folder(tmp_path: Path) -> None:
    """A host can claim its state folder again, and a host with another name cannot."""
    claim_state_dir(tmp_path, "host-1")
    claim_state_dir(tmp_path, "host-1")
    with pytest.raises(DriverError, match=r"host-1.*host-2.*agent\.host"):
        claim_state_dir(tmp_path, "host-2")
    claim_state_dir(tmp_path, "host-1")


def test_a_mark_that_a_crash_has_left_empty_is_written_again(tmp_path: Path) -> None:
    """An empty mark, as a crash leaves it, does not claim the folder."""
    (tmp_path / ".host").touch()
    claim_state_dir(tmp_path, "host-1")
    with pytest.raises(DriverError):
        claim_state_dir(tmp_path, "host-2")


def test_a_folder_that_cannot_be_written_to_is_said_so(tmp_path: Path) -> None:
    """The error names a folder that cannot be written to."""
    with pytest.raises(DriverError, match="none"):
        claim_state_dir(tmp_path / "none", "host-1")


@pytest.mark.parametrize(
    "name", ["..", ".", "", "a/b", "../../etc", "/etc", "guest", f"{make_uuid('instance', 1)}/.."]
)
def test_only_a_uuid_names_a_folder(tmp_path: Path, name: str) -> None:
    """A path in place of a uuid, as a forged order may have, leads nowhere."""
    with pytest.raises(DriverError, match="is not the UUID of an instance"):
        GuestFolder(tmp_path, name)


VM, OTHER = make_uuid("instance", 1), make_uuid("instance", 2)
AT_S = 1_000_000.0


def folder(path: Path, *names: str) -> Path:
    """Create a folder with small files that are long unchanged, and return it."""
    path.mkdir(parents=True)
    for name in names:
        (path / name).write_bytes(b"x" * 4096)
        os.utime(path / name, (AT_S, AT_S))
    os.utime(path, (AT_S, AT_S))
    return path


def test_folders_without_a_guest_are_found(tmp_path: Path) -> None:
    """Leftovers have age and size; guests' folders and folders with other names are omitted."""
    folder(tmp_path / VM, "root.qcow2", "console.log")
    folder(tmp_path / OTHER, "root.qcow2")
    folder(tmp_path / "lost+found", "root.qcow2")
    (tmp_path / make_uuid("instance", 3)).write_text("a file")
    (found,) = leftover_folders(tmp_path, {OTHER})
    assert (found.instance_uuid, found.since_s, found.address) == (VM, AT_S, "")
    assert found.size_bytes >= 2 * 4096
    assert leftover_folders(tmp_path / "none", ()) == []


def test_the_newest_file_says_how_old_a_folder_is(tmp_path: Path) -> None:
    """The age of a leftover is that of its newest file."""
    path = folder(tmp_path / VM, "root.qcow2", "memory.img")
    os.utime(path / "memory.img", (AT_S + 9, AT_S + 9))
    assert leftover_folders(tmp_path, ())[0].since_s == AT_S + 9


def storages(tmp_path: Path) -> tuple[SharedDiskStorage, SharedDiskStorage]:
    """Return the storage as seen by two hosts, one of which has an unusual name."""
    return SharedDiskStorage(tmp_path / "storage", "host-1"), SharedDiskStorage(
        tmp_path / "storage", "../h/2"
    )


async def store(storage: SharedDiskStorage, tmp_path: Path, uuid: str) -> str:
    """Store a guest without disks, which needs no external program, and return its address."""
    return await storage.store(GuestFolder(tmp_path / "guests", uuid), uuid, ())


async def test_each_host_finds_what_it_has_stored(tmp_path: Path) -> None:
    """Each host lists its own copies with their addresses, and not those of other hosts."""
    first, second = storages(tmp_path)
    address = await store(first, tmp_path, VM)
    other = await store(second, tmp_path, OTHER)
    assert [(one.instance_uuid, one.address) for one in await first.mine()] == [(VM, address)]
    assert [(one.instance_uuid, one.address) for one in await second.mine()] == [(OTHER, other)]
    assert {path.name for path in (tmp_path / "storage").iterdir()} == {VM, OTHER, ".hosts"}
    assert await SharedDiskStorage(None, "host-1").mine() == []


async def test_what_is_deleted_is_forgotten_by_who_stored_it(tmp_path: Path) -> None:
    """A copy that another host drops is no longer listed by the host that stored it."""
    first, second = storages(tmp_path)
    await second.drop(await store(first, tmp_path, VM))
    assert await first.mine() == []
    assert not list((tmp_path / "storage").iterdir())


async def test_a_copy_that_a_crash_has_cut_short_is_found(tmp_path: Path) -> None:
    """An incomplete copy is listed, and dropping its address deletes it."""
    first, _ = storages(tmp_path)
    address = await store(first, tmp_path, VM)
    whole = tmp_path / "storage" / VM
    whole.rename(tmp_path / "storage" / f".{VM}.new")
    (found,) = await first.mine()
    assert found.address == address
    await first.drop(found.address)
    assert await first.mine() == []
    assert not list((tmp_path / "storage").iterdir())


async def test_what_was_stored_before_the_guest_ran_again_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy is reused only if the disks are unchanged and the same host stored it."""
    copies = list[str]()

    async def copy(source: str, target: Path) -> None:
        copies.append(source)
        await asyncio.to_thread(shutil.copyfile, source, target)

    monkeypatch.setattr("berth.adapters.virt.disk_storage.disks.copy", copy)
    first, second = storages(tmp_path)
    guest, there = GuestFolder(tmp_path / "guests", VM), GuestFolder(tmp_path / "there", VM)
    folder(guest.path, "root.qcow2")
    folder(there.path, "root.qcow2")
    stored = tmp_path / "storage" / VM / "root.qcow2"
    for _ in range(2):
        await first.store(guest, VM, ("root",))
        assert len(copies) == 1
    guest.disk("root").write_bytes(b"y" * 4096)
    await first.store(guest, VM, ("root",))
    assert stored.read_bytes() == b"y" * 4096
    await second.store(there, VM, ("root",))
    assert stored.read_bytes() == b"x" * 4096
    assert len(copies) == 3
