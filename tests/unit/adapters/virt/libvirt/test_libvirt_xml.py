"""Guests as libvirt's domain XML describes them."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from berth.adapters.virt.accelerator import Accelerator
from berth.adapters.virt.guest_disks import GuestSize
from berth.adapters.virt.images import ImageFile, ImageFormat
from berth.adapters.virt.libvirt import record as records
from berth.adapters.virt.libvirt.domain_xml import DestinationFiles, domain_xml, moved_xml, name_of
from berth.adapters.virt.libvirt.hardware import (
    ANYWHERE,
    FloatingCpus,
    check_devices,
    check_hardware,
    check_movable,
    devices_of,
    guest_cpus,
)
from berth.adapters.virt.libvirt.host import LibvirtHost
from berth.adapters.virt.libvirt.record import GuestRecord
from berth.domain.compute.build_failure import BuildError, FailureCause
from berth.domain.compute.flavor import Flavor
from berth.domain.errors import DriverError
from berth.domain.hardware.assignment import Assignment, CellShare, DeviceShare
from berth.ports.virt import Power
from berth.testing.builders import make_instance

UUID = "12345678-9abc-4ef0-9234-56789abcdef0"
HOST = LibvirtHost("host <1>", Path("/guests & more"), machine="pc-q35-7.2")
RECORD = GuestRecord(
    UUID,
    HOST.name,
    "img",
    "pc-q35-6.2",
    GuestSize(2, 512),
    GuestSize(4, 1024),
    disks=("root", "swap"),
)
DISK = ImageFile("img", Path("/images/a.qcow2"))
KERNEL = ImageFile(
    "img", Path("/images/vmlinuz"), ImageFormat.KERNEL, Path("/images/initrd"), "quiet <&>"
)
CELLS = (
    CellShare(1, 256, page_size_kb=2048, pinned=((0, 4), (2, 5)), emulator_cpus=frozenset({6})),
    CellShare(0, 256, shared_cpus=2),
)


def described(
    record: GuestRecord = RECORD,
    image: ImageFile = DISK,
    accelerator: Accelerator = Accelerator.TCG,
    floating: FloatingCpus = ANYWHERE,
) -> ET.Element:
    """Return the domain XML of a guest as a parsed element."""
    text = domain_xml(HOST, accelerator, record, image, floating=floating)
    return ET.fromstring(text)  # noqa: S314 - made here


def attributes(element: ET.Element | None) -> dict[str, str]:
    """Return the attributes of an element, which must exist."""
    assert element is not None
    return dict(element.attrib)


def test_a_description_says_what_the_guest_is() -> None:
    """The description has the guest's current size and the machine it was created with."""
    domain = described()
    assert domain.findtext("name") == name_of(UUID)
    assert domain.findtext("uuid") == UUID
    assert (domain.findtext("memory"), domain.findtext("vcpu")) == ("512", "2")
    assert attributes(domain.find("memory")) == {"unit": "MiB"}
    assert attributes(domain.find("os/type")) == {"arch": "x86_64", "machine": "pc-q35-6.2"}
    actions = [domain.findtext(f"on_{name}") for name in ("poweroff", "reboot", "crash")]
    assert actions == ["destroy", "restart", "destroy"]


def test_a_record_survives_in_the_description() -> None:
    """A record is read from the description unchanged, even with XML characters in names."""
    record = msgspec.structs.replace(RECORD, cells=CELLS, devices=("0000:3b:00.1",), waits=True)
    (element,) = described(record).findall("metadata/")
    assert element.get("host") == "host <1>"
    assert records.of_text(ET.tostring(element, encoding="unicode")) == record
    assert records.of_text(records.to_text(record)) == record


@pytest.mark.parametrize("text", ["", "<a", "<guest/>", "<guest>{}</guest>"])
def test_a_record_that_cannot_be_read_is_none(text: str) -> None:
    """An invalid record is read as None, which makes its guest an orphan."""
    assert records.of_text(text) is None


@pytest.mark.parametrize(
    ("accelerator", "kind", "mode"),
    [(Accelerator.TCG, "qemu", "custom"), (Accelerator.KVM, "kvm", "host-passthrough")],
)
def test_the_accelerator_is_said_outright(accelerator: Accelerator, kind: str, mode: str) -> None:
    """The description names the accelerator and does not leave the choice to libvirt."""
    domain = described(accelerator=accelerator)
    assert domain.get("type") == kind
    assert attributes(domain.find("cpu"))["mode"] == mode


def test_what_emulation_keeps_of_code_is_bounded() -> None:
    """Under TCG, the cache of translated code has a limit; under KVM there is no such cache."""
    assert described().findtext("features/tcg/tb-cache") == "32"
    assert described(accelerator=Accelerator.KVM).find("features/tcg") is None


def test_disks_are_in_order_and_have_serial_numbers() -> None:
    """Disks keep their order and have their names as serial numbers, so guests can find them."""
    disks = described().findall("devices/disk")
    assert [disk.findtext("serial") for disk in disks] == ["root", "swap"]
    assert [attributes(disk.find("target"))["dev"] for disk in disks] == ["vda", "vdb"]
    source = attributes(disks[0].find("source"))
    assert source == {"file": f"/guests & more/{UUID}/root.qcow2"}


def test_a_kernel_is_booted_directly() -> None:
    """Under TCG, the command line disables the timer check; under KVM it is unchanged."""
    boot = described(image=KERNEL).find("os")
    assert boot is not None
    assert boot.findtext("kernel") == "/images/vmlinuz"
    assert boot.findtext("initrd") == "/images/initrd"
    assert boot.findtext("cmdline") == "quiet <&> no_timer_check"
    boot = described(image=KERNEL, accelerator=Accelerator.KVM).find("os")
    assert boot is not None
    assert boot.findtext("cmdline") == "quiet <&>"


def test_firmware_is_a_rom() -> None:
    """A firmware image is loaded as a read-only ROM."""
    image = ImageFile("img", Path("/images/stub.bin"), ImageFormat.FIRMWARE)
    loader = described(image=image).find("os/loader")
    assert attributes(loader) == {"readonly": "yes", "type": "rom"}


def test_a_moved_description_differs_in_files_only() -> None:
    """A move changes files, the record and host-specific parts, but not what the guest sees."""
    domain = described(image=KERNEL)
    disk = domain.find("devices/disk")
    serial = domain.find("devices/serial")
    assert disk is not None
    assert serial is not None
    ET.SubElement(disk, "backingStore", {"type": "file"})
    address = ET.SubElement(disk, "address", {"type": "pci", "slot": "0x07"})
    ET.SubElement(serial, "source", {"path": "/dev/pts/4"})
    there = DestinationFiles(Path("/there"), Path("/img/vmlinuz"), Path("/img/initrd"), "/bin/qemu")
    changed = msgspec.structs.replace(RECORD, host="host-2", power=Power.PAUSED)
    text = moved_xml(ET.tostring(domain, encoding="unicode"), there, changed)
    moved = ET.fromstring(text)  # noqa: S314 - made here
    assert moved.findtext("os/kernel") == "/img/vmlinuz"
    assert moved.findtext("os/initrd") == "/img/initrd"
    assert moved.findtext("devices/emulator") == "/bin/qemu"
    sources = [attributes(one)["file"] for one in moved.iterfind("devices/disk/source")]
    assert sources == [f"/there/{UUID}/root.qcow2", f"/there/{UUID}/swap.qcow2"]
    assert moved.find("devices/disk/backingStore") is None
    assert attributes(moved.find("devices/disk/address")) == dict(address.attrib)
    assert moved.find("devices/serial/source") is None
    assert attributes(moved.find("devices/serial/log"))["file"] == f"/there/{UUID}/console.log"
    (element,) = moved.findall("metadata/")
    assert records.of_text(ET.tostring(element, encoding="unicode")) == changed
    assert moved.findtext("memory") == domain.findtext("memory")


def test_a_guest_without_a_part_of_the_host_floats() -> None:
    """The description has no CPU pinning, NUMA cells, huge pages or devices."""
    domain = described()
    assert attributes(domain.find("vcpu")) == {"placement": "static"}
    for tag in ("cputune", "numatune", "memoryBacking", "cpu/numa", "devices/hostdev"):
        assert domain.find(tag) is None


def test_a_guest_floats_over_what_is_nobodys_own() -> None:
    """A guest is limited to CPUs that are not dedicated, after a move to the target's."""
    floating = FloatingCpus(frozenset({0, 1, 3}))
    vcpu = described(floating=floating).find("vcpu")
    assert attributes(vcpu) == {"placement": "static", "cpuset": "0,1,3"}
    moved = described(floating=floating)
    there = DestinationFiles(Path("/there"), Path("/img"), None, "/bin/qemu", "5,6")
    text = ET.tostring(moved, encoding="unicode")
    for destination, cpus in [(there, "5,6"), (replace(there, cpus=""), None)]:
        domain = ET.fromstring(moved_xml(text, destination, RECORD))  # noqa: S314 - made here
        assert attributes(domain.find("vcpu")).get("cpuset") == cpus


def test_what_floats_in_a_cell_stays_on_its_cpus() -> None:
    """Floating CPUs are pinned to the free CPUs of their cell, if it has any."""
    both = (replace(CELLS[0], shared_cpus=1), CELLS[1])
    record = msgspec.structs.replace(RECORD, size=GuestSize(5, 512), cells=both)
    floating = FloatingCpus(frozenset({0, 1, 7}), {0: frozenset({0, 1}), 1: frozenset({7})})
    pins = described(record, floating=floating).findall("cputune/vcpupin")
    assert {pin.get("vcpu"): pin.get("cpuset") for pin in pins} == {
        "0": "4",
        "1": "7",
        "2": "5",
        "3": "0,1",
        "4": "0,1",
    }
    floating = FloatingCpus(frozenset({7}), {0: frozenset(), 1: frozenset({7})})
    pins = described(record, floating=floating).findall("cputune/vcpupin")
    assert sorted(pin.get("vcpu", "") for pin in pins) == ["0", "1", "2"]


def test_cells_have_their_cpus_and_memory_on_the_host() -> None:
    """Dedicated CPUs, the emulator threads, memory and pages are bound to the host's cells."""
    record = msgspec.structs.replace(RECORD, size=GuestSize(4, 512), cells=CELLS)
    domain = described(record)
    pins = [(pin.get("vcpu"), pin.get("cpuset")) for pin in domain.iterfind("cputune/vcpupin")]
    assert pins == [("0", "4"), ("2", "5")]
    assert attributes(domain.find("cputune/emulatorpin")) == {"cpuset": "6"}
    assert attributes(domain.find("numatune/memory")) == {"mode": "strict", "nodeset": "0,1"}
    nodes = [
        (node.get("cellid"), node.get("nodeset")) for node in domain.iterfind("numatune/memnode")
    ]
    assert nodes == [("0", "1"), ("1", "0")]
    cells = [(one.get("cpus"), one.get("memory")) for one in domain.iterfind("cpu/numa/cell")]
    assert cells == [("0,2", "262144"), ("1,3", "262144")]
    pages = [dict(page.attrib) for page in domain.iterfind("memoryBacking/hugepages/page")]
    assert pages == [{"size": "2048", "unit": "KiB", "nodeset": "0"}]
    assert len(domain.findall("cpu")) == 1


def test_the_hypervisors_threads_stay_with_pinned_cpus() -> None:
    """Without CPUs of their own, the emulator threads share the pinned ones."""
    cell = replace(CELLS[0], emulator_cpus=frozenset())
    record = msgspec.structs.replace(RECORD, size=GuestSize(2, 256), cells=(cell,))
    assert attributes(described(record).find("cputune/emulatorpin")) == {"cpuset": "4,5"}


def test_every_cpu_of_a_guest_is_in_one_cell() -> None:
    """Floating CPUs get the numbers that the pinned ones leave free."""
    assert guest_cpus(CELLS) == [[0, 2], [1, 3]]
    assert guest_cpus((CellShare(0, 1, shared_cpus=2), CellShare(1, 1, shared_cpus=1))) == [
        [0, 1],
        [2],
    ]


def test_devices_are_given_by_their_addresses() -> None:
    """Devices are described by their addresses, and can be read back from descriptions."""
    record = msgspec.structs.replace(RECORD, devices=("0000:3b:00.1", "0001:00:1f.7"))
    domain = described(record)
    device = domain.find("devices/hostdev")
    assert attributes(device) == {"mode": "subsystem", "type": "pci", "managed": "yes"}
    text = ET.tostring(domain, encoding="unicode")
    assert devices_of([text]) == {"0000:3b:00.1", "0001:00:1f.7"}


def test_cells_that_do_not_add_up_are_refused() -> None:
    """An assignment that does not match the flavor is refused, and the host is not blamed."""
    flavor = Flavor("f", "f", vcpus=4, memory_mb=512)
    instance = replace(make_instance(1), flavor=flavor, assignment=Assignment(numa=CELLS))
    assert check_hardware(instance) == CELLS
    wrong = replace(instance, flavor=replace(flavor, vcpus=2))
    with pytest.raises(BuildError, match="have 4 CPUs and 512 MiB") as raised:
        check_hardware(wrong)
    assert not raised.value.blames_host
    assert raised.value.cause is FailureCause.CLAIM
    assert check_hardware(replace(wrong, assignment=None)) == ()


def test_a_guest_with_parts_of_its_host_does_not_move_live() -> None:
    """A guest with devices cannot migrate live, and keeps its number of devices where it is."""
    share = DeviceShare("10de/20f1/type-PCI///", 2)
    instance = replace(make_instance(1), assignment=Assignment(devices=(share,)))
    with pytest.raises(BuildError, match="use a cold migration"):
        check_movable(instance)
    check_movable(replace(instance, assignment=None))
    with pytest.raises(DriverError, match="has 0 PCI devices but needs 2"):
        check_devices(instance, RECORD)
    check_devices(instance, msgspec.structs.replace(RECORD, devices=("a", "b")))


def test_a_rescue_disk_comes_before_the_own_disks() -> None:
    """The rescue disk is `vda`; a rescue image that is a kernel needs no disk."""
    rescued = msgspec.structs.replace(RECORD, rescue_image="rescue")
    disks = described(rescued).findall("devices/disk")
    assert [disk.findtext("serial") for disk in disks] == ["rescue", "root", "swap"]
    assert attributes(disks[0].find("target"))["dev"] == "vda"
    disks = described(rescued, KERNEL).findall("devices/disk")
    assert [disk.findtext("serial") for disk in disks] == ["root", "swap"]


def test_disks_stay_in_place_if_the_rescue_image_says_so() -> None:
    """The rescue disk is the last one, and the firmware boots it all the same."""
    rescued = msgspec.structs.replace(RECORD, rescue_image="rescue")
    for image, order in (
        (DISK, ["rescue", "root", "swap"]),
        (replace(DISK, rescues_in_place=True), ["root", "swap", "rescue"]),
    ):
        domain = described(rescued, image)
        disks = domain.findall("devices/disk")
        assert [disk.findtext("serial") for disk in disks] == order
        booted = [disk.findtext("serial") for disk in disks if disk.find("boot") is not None]
        assert booted == ["rescue"]
        assert domain.find("os/boot") is None, "libvirt refuses both"
