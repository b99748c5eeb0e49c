"""The command line of the QEMU process of a guest."""

from dataclasses import replace
from pathlib import Path

import msgspec

from berth.adapters.virt.accelerator import Accelerator
from berth.adapters.virt.guest_disks import GuestSize
from berth.adapters.virt.images import ImageFile, ImageFormat
from berth.adapters.virt.qemu.command_line import QemuHost, Sockets, command_line, guest_of, quoted
from berth.adapters.virt.qemu.spec import GuestSpec

UUID = "12345678-9abc-def0-1234-56789abcdef0"
HOST = QemuHost("rack1,07", Path("/guests"))
SPEC = GuestSpec(UUID, "img", "pc-q35-7.2", GuestSize(2, 512), GuestSize(4, 1024))
FIRMWARE = ImageFile("img", Path("/stub.bin"), ImageFormat.FIRMWARE)


def words_of(
    spec: GuestSpec = SPEC,
    image: ImageFile = FIRMWARE,
    accelerator: Accelerator = Accelerator.TCG,
    memory: int | None = None,
    host: QemuHost = HOST,
) -> list[str]:
    """Return the words of the command line of a guest."""
    return command_line(host, accelerator, spec, image, Sockets(3, 4, memory))


def after(words: list[str], option: str) -> str:
    """Return the value of an option."""
    return words[words.index(option) + 1]


def test_a_guest_has_the_size_and_the_machine_of_its_spec() -> None:
    """The command line has the current size, not the later one, and not the host's machine type."""
    words = words_of(host=replace(HOST, machine="pc-q35-9.0"))
    assert after(words, "-smp") == "2"
    assert after(words, "-m") == "512M"
    assert after(words, "-machine") == "pc-q35-7.2"
    assert after(words, "-bios") == "/stub.bin"


def test_a_guest_is_found_by_its_command_line() -> None:
    """A command line belongs to a guest only if it has the host's mark and is that of a QEMU."""
    words = words_of()
    assert guest_of(words, "rack1,07") == UUID
    assert guest_of(words, "rack1") is None
    assert guest_of(["grep", "name=opt/berth/host,string=rack1,,07", "-uuid", "x"], HOST.name) is (
        None
    )
    assert guest_of(["-fw_cfg", "name=opt/berth/host,string=rack1,,07"], HOST.name) is None


def test_commas_are_doubled() -> None:
    """Commas in paths are doubled, because QEMU would read the rest as options."""
    assert quoted("a,b") == "a,,b"
    host = replace(HOST, state_dir=Path("/a,file=/etc/shadow"))
    words = words_of(msgspec.structs.replace(SPEC, disks=("root",)), host=host)
    (file,) = [word for word in words if "node-name=root-file" in word]
    assert f"filename=/a,,file=/etc/shadow/{UUID}/root.qcow2" in file


def test_a_kernel_is_told_not_to_check_the_timer_under_tcg() -> None:
    """Under TCG, `no_timer_check` is appended once; under KVM it is not appended."""
    image = ImageFile("k", Path("/vmlinuz"), ImageFormat.KERNEL, Path("/initrd"), "quiet")
    words = words_of(image=image)
    assert after(words, "-kernel") == "/vmlinuz"
    assert after(words, "-initrd") == "/initrd"
    assert after(words, "-append") == "quiet no_timer_check"
    again = replace(image, cmdline="no_timer_check")
    assert after(words_of(image=again), "-append") == "no_timer_check"
    assert after(words_of(image=image, accelerator=Accelerator.KVM), "-append") == "quiet"
    assert "-append" not in words_of(image=replace(image, cmdline=""), accelerator=Accelerator.KVM)


def test_a_disk_may_be_booted_by_a_kernel_beside_it() -> None:
    """A disk image may name a kernel to boot; without one, the firmware boots the disk."""
    spec = msgspec.structs.replace(SPEC, disks=("root",))
    image = ImageFile("d", Path("/d.qcow2"), cmdline="root=/dev/vda", kernel=Path("/vmlinuz"))
    words = words_of(spec, image=image)
    assert after(words, "-kernel") == "/vmlinuz"
    assert after(words, "-append") == "root=/dev/vda no_timer_check"
    assert "-initrd" not in words
    assert any("node-name=root-file" in word for word in words)
    assert "-kernel" not in words_of(spec, image=replace(image, kernel=None))


def test_the_processor_depends_on_the_accelerator() -> None:
    """The CPU model depends on the accelerator, unless the spec has one."""
    assert after(words_of(), "-cpu") == "qemu64"
    assert after(words_of(accelerator=Accelerator.KVM), "-cpu") == "host"
    assert after(words_of(msgspec.structs.replace(SPEC, cpu_model="EPYC")), "-cpu") == "EPYC"


def test_disks_keep_their_order() -> None:
    """Disks keep the order of the spec, on which guests and live migrations depend."""
    words = words_of(msgspec.structs.replace(SPEC, disks=("root", "ephemeral", "swap")))
    devices = [word for word in words if word.startswith("virtio-blk-pci")]
    assert [word.rpartition("=")[2] for word in devices] == ["root", "ephemeral", "swap"]


def test_a_target_waits_and_a_suspended_guest_goes_on() -> None:
    """The target of a migration defers its start, and stays paused if it has disks."""
    waiting = msgspec.structs.replace(SPEC, waits=True)
    words = words_of(waiting)
    assert after(words, "-incoming") == "defer"
    assert "-S" not in words
    assert "-S" in words_of(msgspec.structs.replace(waiting, disks=("root",)))
    assert after(words_of(memory=5), "-incoming") == "fd:5"
    assert "-incoming" not in words_of()


def test_a_guest_that_turns_itself_off_leaves_its_process() -> None:
    """The process survives a shutdown of its guest, so an agent can tell it from a crash."""
    assert "-no-shutdown" in words_of()


def test_a_rescue_disk_comes_before_the_own_disks() -> None:
    """The firmware boots the first disk. A rescue image that is a kernel needs no disk."""
    spec = msgspec.structs.replace(SPEC, disks=("root", "swap"), rescue_image="rescue")

    def disks(image: ImageFile) -> list[str]:
        words = words_of(spec, image)
        return [word.rpartition("serial=")[2] for word in words if word.startswith("virtio-blk")]

    assert disks(ImageFile("rescue", Path("/rescue.raw"), ImageFormat.RAW)) == [
        "rescue,bootindex=1",
        "root",
        "swap",
    ]
    kernel = ImageFile("rescue", Path("/vmlinuz"), ImageFormat.KERNEL)
    assert disks(kernel) == ["root", "swap"]
    assert after(words_of(spec, kernel), "-kernel") == "/vmlinuz"


def test_disks_stay_in_place_if_the_rescue_image_says_so() -> None:
    """The rescue disk is the last one, and the firmware boots it all the same."""
    spec = msgspec.structs.replace(SPEC, disks=("root", "swap"), rescue_image="rescue")
    image = ImageFile("rescue", Path("/r.raw"), ImageFormat.RAW, rescues_in_place=True)
    disks = [word for word in words_of(spec, image) if word.startswith("virtio-blk")]
    ends = [word.rpartition("serial=")[2] for word in disks]
    assert ends == ["root", "swap", "rescue,bootindex=1"]
