"""The folders of libvirt's guests."""

import os
from pathlib import Path

import pytest

from berth.adapters.virt.libvirt.guest_registry import LibvirtFolder
from berth.testing.builders import make_uuid

GUEST = make_uuid("instance", 1)


def test_a_folder_is_deleted_with_all_that_is_in_it(tmp_path: Path) -> None:
    """Deletion includes subfolders, but not the targets of links."""
    folder = LibvirtFolder(tmp_path / "state", GUEST)
    folder.make()
    folder.leave(leaves=True)
    (folder.path / "backup").mkdir()
    (folder.path / "backup" / "root.qcow2").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder.path / "link").symlink_to(elsewhere)
    folder.remove()
    folder.remove()
    assert not folder.path.exists()
    assert elsewhere.exists()


@pytest.mark.parametrize("umask", [0o077, 0o022])
def test_the_umask_decides_nothing(tmp_path: Path, umask: int) -> None:
    """Under any umask, QEMU's user can traverse the folders, and only owners read disks."""
    folder = LibvirtFolder(tmp_path / "berth" / "guests", GUEST)
    before = os.umask(umask)
    try:
        folder.make()
        folder.disk("root").touch()
        folder.make_private(["root", "swap"])
    finally:
        os.umask(before)
    made = (folder.path, folder.path.parent, folder.path.parent.parent)
    assert {path.stat().st_mode & 0o777 for path in made} == {0o711}
    disks = (folder.disk("root"), folder.disk("swap"))
    assert {path.stat().st_mode & 0o777 for path in disks} == {0o600}


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    """An existing folder belongs to the operator and keeps its mode."""
    state = tmp_path / "state"
    state.mkdir(mode=0o750)
    LibvirtFolder(state, GUEST).make()
    assert state.stat().st_mode & 0o777 == 0o750
