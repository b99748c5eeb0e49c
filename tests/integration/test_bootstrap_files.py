"""Images and fleets are read from files."""

from pathlib import Path

import msgspec
import pytest

from berth.adapters.virt.fake import DriverFaults
from berth.adapters.virt.images import ImageFile, ImageFormat
from berth.config.agent_settings import AgentSettings
from berth.config.json_lists import fake_hosts_of, read_image_files, read_images
from berth.domain.compute.flavor import Image
from berth.domain.errors import InvalidInputError
from berth.ports.virt import DriverFeature


def test_images_are_read_by_id(tmp_path: Path) -> None:
    """The images of a JSON list are returned by id; without a file there are none."""
    file = tmp_path / "images.json"
    file.write_text('[{"image_id": "arm", "properties": {"hw_architecture": "aarch64"}}]')
    assert read_images(file) == {"arm": Image("arm", "", {"hw_architecture": "aarch64"})}
    assert read_images(None) == {}


def test_images_may_be_as_the_image_api_lists_them(tmp_path: Path) -> None:
    """The image API's field names are aliases; a field that is given twice is refused."""
    file = tmp_path / "images.json"
    file.write_text('[{"id": "a", "min_ram": 64, "min_disk": 2, "file": "a.raw", "format": "raw"}]')
    assert read_images(file) == {"a": Image("a", min_memory_mb=64, min_disk_gb=2)}
    assert read_image_files(file) == {"a": ImageFile("a", tmp_path / "a.raw", ImageFormat.RAW)}
    file.write_text('[{"id": "a", "image_id": "b"}]')
    with pytest.raises(InvalidInputError, match=r"\[0\]\.id: duplicates image_id"):
        read_images(file)


@pytest.mark.parametrize("text", ["{}", '[{"name": "x"}]', "nonsense"])
def test_a_wrong_file_is_named(tmp_path: Path, text: str) -> None:
    """The error names the file and what it should be."""
    file = tmp_path / "images.json"
    file.write_text(text)
    with pytest.raises(InvalidInputError, match=r"images\.json: is not a list of images"):
        read_images(file)


def test_a_fleet_names_each_host_once(tmp_path: Path) -> None:
    """A fleet that names a host twice is refused."""
    file = tmp_path / "fleet.json"
    file.write_bytes(msgspec.json.encode([{"name": "a"}, {"name": "a"}]))
    with pytest.raises(InvalidInputError, match="names host a 2 times"):
        fake_hosts_of(AgentSettings(fleet=file))


def test_agents_find_the_files_of_images(tmp_path: Path) -> None:
    """Paths of image files are relative to the list; `read_images` leaves them out."""
    file = tmp_path / "images.json"
    file.write_text(
        """[{"image_id": "a", "file": "a.qcow2"}, {"image_id": "plain"},
            {"image_id": "k", "file": "/boot/vmlinuz", "format": "kernel",
             "initrd": "initrd.gz", "cmdline": "quiet"}]"""
    )
    assert read_image_files(file) == {
        "a": ImageFile("a", tmp_path / "a.qcow2"),
        "k": ImageFile(
            "k", Path("/boot/vmlinuz"), ImageFormat.KERNEL, tmp_path / "initrd.gz", "quiet"
        ),
    }
    assert read_images(file) == {key: Image(key) for key in ("a", "plain", "k")}
    assert read_image_files(None) == {}


KERNELS = """
    {"image_id": "k", "file": "vmlinuz", "format": "kernel",
     "initrd": "own.gz", "cmdline": "quiet"},
    {"image_id": "r", "file": "initrd.gz", "format": "ramdisk"}"""


@pytest.mark.parametrize(
    ("fields", "initrd", "cmdline"),
    [
        ('"properties": {"kernel_id": "k"}', "own.gz", "quiet"),
        ('"properties": {"kernel_id": "k", "ramdisk_id": "r"}', "initrd.gz", "quiet"),
        ('"properties": {"kernel_id": "k", "os_command_line": "ro"}', "own.gz", "ro"),
        ('"properties": {"kernel_id": "k"}, "initrd": "i", "cmdline": "c"', "i", "c"),
    ],
)
def test_a_disk_may_name_the_kernel_that_boots_it(
    tmp_path: Path, fields: str, initrd: str, cmdline: str
) -> None:
    """A disk image may name its kernel and ramdisk; the kernel image fills in other boot fields."""
    file = tmp_path / "images.json"
    file.write_text(f'[{{"image_id": "d", "file": "d.raw", "format": "raw", {fields}}}, {KERNELS}]')
    assert read_image_files(file)["d"] == ImageFile(
        *("d", tmp_path / "d.raw", ImageFormat.RAW),
        *(tmp_path / initrd, cmdline, tmp_path / "vmlinuz"),
    )


@pytest.mark.parametrize("name", ["hw_rescue_device", "hw_rescue_bus"])
def test_a_rescue_image_may_keep_disks_in_place(tmp_path: Path, name: str) -> None:
    """Either property of the image is sufficient."""
    file = tmp_path / "images.json"
    value = {"hw_rescue_device": "disk", "hw_rescue_bus": "virtio"}[name]
    file.write_text(
        f'[{{"image_id": "d", "file": "d.raw", "properties": {{"{name}": "{value}"}}}}]'
    )
    assert read_image_files(file)["d"].rescues_in_place


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ('"properties": {"hw_rescue_device": "cdrom"}', "hw_rescue_device: 'cdrom' .* 'disk'"),
        ('"properties": {"hw_rescue_bus": "scsi"}', "hw_rescue_bus: 'scsi' .* 'virtio'"),
        ('"properties": {"hw_rescue_bus": "virtio", "kernel_id": "k"}', "combined with kernel_id"),
        ('"properties": {"kernel_id": "r"}', "kernel_id: .*format kernel"),
        ('"properties": {"kernel_id": "none"}', "kernel_id: this list has no image 'none'"),
        ('"properties": {"kernel_id": "k", "ramdisk_id": "d"}', "ramdisk_id: .*format ramdisk"),
        ('"properties": {"ramdisk_id": "r"}', "needs a kernel"),
        ('"properties": {"os_command_line": "ro"}', "needs a kernel"),
        ('"initrd": "i"', "needs a kernel"),
    ],
)
def test_a_kernel_that_is_none_is_refused(tmp_path: Path, fields: str, told: str) -> None:
    """A wrong reference to a kernel or ramdisk is refused when the list is read."""
    file = tmp_path / "images.json"
    file.write_text(f'[{{"image_id": "d", "file": "d.raw", "format": "raw", {fields}}}, {KERNELS}]')
    with pytest.raises(InvalidInputError, match=told):
        read_image_files(file)


def test_an_image_has_no_other_fields(tmp_path: Path) -> None:
    """A misspelt field of an image is refused."""
    file = tmp_path / "images.json"
    file.write_text('[{"image_id": "a", "fiel": "a.qcow2"}]')
    for read in (read_images, read_image_files):
        with pytest.raises(InvalidInputError, match=r"\[0\]\.fiel"):
            read(file)


def test_a_fleet_may_have_faults(tmp_path: Path) -> None:
    """A fleet's file may set faults and missing features of a host."""
    file = tmp_path / "fleet.json"
    file.write_text(
        '[{"name": "a", "lacks": ["pause"], "faults": {"share": {"stop": 0.5}, "seed": 3}}]'
    )
    (fake,) = fake_hosts_of(AgentSettings(fleet=file))
    assert fake.faults == DriverFaults(share={"stop": 0.5}, seed=3)
    assert fake.lacks == {DriverFeature.PAUSE}
