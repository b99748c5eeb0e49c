"""The files that the QEMU driver keeps for a guest."""

import socket
import stat
from pathlib import Path

import msgspec
import pytest

from berth.adapters.virt import guest_folder
from berth.adapters.virt.guest_disks import GuestSize
from berth.adapters.virt.guest_folder import tail
from berth.adapters.virt.qemu.spec import GuestSpec, QemuFolder
from berth.domain.compute.flavor import Flavor
from berth.domain.errors import DriverError
from berth.ports.virt import Power

UUID = "12345678-9abc-def0-1234-56789abcdef0"
SPEC = GuestSpec(
    UUID, "img", "pc-q35-7.2", GuestSize(2, 512), GuestSize(4, 1024), disks=("root", "swap")
)


@pytest.fixture
def folder(tmp_path: Path) -> QemuFolder:
    """Return the folder of a guest."""
    folder = QemuFolder(tmp_path / "state", UUID)
    folder.make()
    return folder


def test_a_spec_is_read_as_it_was_written(folder: QemuFolder) -> None:
    """The last written spec is read back, and only the owner can open the folder."""
    assert folder.read() is None
    folder.write(SPEC)
    changed = msgspec.structs.replace(SPEC, power=Power.SUSPENDED, waits=True)
    folder.write(changed)
    assert folder.read() == changed
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


@pytest.mark.parametrize("text", ["", "{", '{"uuid": 7}'])
def test_a_spec_that_cannot_be_read_is_an_error(folder: QemuFolder, text: str) -> None:
    """A damaged spec raises an error instead of counting as missing."""
    (folder.path / "spec.json").write_text(text)
    with pytest.raises(DriverError, match="cannot read"):
        folder.read()


def test_a_folder_of_before_is_not_written_over(folder: QemuFolder) -> None:
    """A folder with disks in it is not reused; an empty one is."""
    folder.make()
    folder.disk("root").write_text("precious")
    with pytest.raises(DriverError, match="move them away"):
        folder.make()
    folder.remove()
    folder.remove()
    folder.make()


def test_sockets_may_have_long_paths(tmp_path: Path) -> None:
    """A socket works in a folder whose path exceeds the limit of socket addresses."""
    folder = QemuFolder(tmp_path / ("x" * 120), UUID)
    folder.make()
    with folder.listening("qmp") as fd, folder.reaching("qmp") as path:
        assert fd > 0
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
    with folder.listening("qmp"):
        pass


def test_a_long_console_keeps_its_end(folder: QemuFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the end of a console log beyond the limit is kept."""
    monkeypatch.setattr(guest_folder, "CONSOLE_BYTES_MAX", 800)
    folder.trim_console()
    folder.console.write_text("a" * 700 + "b" * 100)
    folder.trim_console()
    assert folder.console.stat().st_size == 800
    with folder.console.open("a") as file:
        file.write("c")
    folder.trim_console()
    assert folder.console.read_text() == "b" * 99 + "c"


def test_the_end_of_a_file_is_read(tmp_path: Path) -> None:
    """`tail` returns all of a short file and nothing of a missing one."""
    file = tmp_path / "text"
    assert tail(file, 10) == ""
    file.write_text("0123456789")
    assert (tail(file, 3), tail(file, 100), tail(file, 0)) == ("789", "0123456789", "")


def test_complaints_become_one_line(folder: QemuFolder) -> None:
    """Several lines of QEMU's error output are joined to one line."""
    folder.errors.write_text("qemu: one\n\n  qemu: two\n")
    assert folder.last_error() == "qemu: one | qemu: two"


def test_a_guest_has_one_processor_and_some_memory_at_least() -> None:
    """A flavor without CPUs and memory gets one CPU and 1 MiB."""
    assert GuestSize.of(Flavor("0", "none", vcpus=0, memory_mb=0)) == GuestSize(1, 1)
