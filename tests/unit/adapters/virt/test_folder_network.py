"""The folder through which fake machines of several processes hand over guests and disks."""

from pathlib import Path

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost, FolderNetwork
from berth.domain.compute.build_failure import BuildError
from berth.domain.errors import InvalidInputError, MigrationError
from berth.ports.virt import Power
from berth.testing.builders import make_instance
from berth.testing.virtual_time import VirtualClock

_INSTANCE = make_instance()
_UUID = _INSTANCE.uuid


def driver_of(name: str, folder: Path) -> FakeDriver:
    """Return the driver of a host in a process of its own."""
    return FakeDriver(FakeHost(name), VirtualClock(), network=FolderNetwork(folder))


def files_of(folder: Path) -> list[Path]:
    """Return the files in a folder and below."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "address",
    [
        "fake+folder:///../secret.json",
        "fake+folder:///hosts/../../secret/disks-x.json",
        f"fake+folder:///hosts/../disks-{_UUID}.json",
        "fake+folder:///stored/disks-/../../secret.json",
        f"fake+folder:////etc/disks-{_UUID}.json",
        f"fake+folder:///hosts/b/arrived-{_UUID}.json",
        f"fake+folder:///stored/disks-{_UUID}.json\n",
        f"fake+stored:///{_UUID}",
    ],
)
async def test_an_address_never_leads_out_of_the_folder(tmp_path: Path, address: str) -> None:
    """Reading, deleting and writing refuse addresses of anything but disks and waiting guests."""
    shared = tmp_path / "shared"
    text = f'{{"host":"b","disk":"secret","at_s":1,"power":"running","boots":1,"uuid":"{_UUID}"}}'
    driver = driver_of("a", shared)
    for name in ("secret.json", "secret/disks-x.json", f"shared/hosts/b/arrived-{_UUID}.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = files_of(tmp_path)
    with pytest.raises(BuildError, match="none are offered there"):
        await driver.fetch_disks(_INSTANCE, address)
    await driver.drop_stored(address)
    await driver.spawn(_INSTANCE)
    with pytest.raises(MigrationError, match="no guest waits"):
        await driver.hand_over(_UUID, address)
    assert files_of(tmp_path) == before


async def test_hosts_may_have_any_name(tmp_path: Path) -> None:
    """Guests move between hosts whose names are no file names; all files stay in the folder."""
    shared = tmp_path / "shared"
    names = ["..", "a/b", "", "x" * 255, "ä b%2f"]
    source = driver_of("a", shared)
    await source.spawn(_INSTANCE)
    for name in names:
        target = driver_of(name, shared)
        await source.hand_over(_UUID, await target.take_in(_INSTANCE))
        assert [one.power for one in await target.guests()] == [Power.RUNNING]
        source = target
        await target.stop(_UUID, grace_s=0)
        await target.offer_disks(_UUID)
        assert files_of(tmp_path) == files_of(shared) != []
        await target.spawn(_INSTANCE)
    await source.destroy(_UUID)
    assert files_of(tmp_path) == []


async def test_a_guest_is_handed_over_once(tmp_path: Path) -> None:
    """Of two sources, one hands its guest over; the guest of the other stays."""
    one, two, target = (driver_of(name, tmp_path) for name in "abc")
    for driver in (one, two):
        await driver.spawn(_INSTANCE)
    address = await target.take_in(_INSTANCE)
    await one.hand_over(_UUID, address)
    with pytest.raises(MigrationError, match="no guest waits"):
        await two.hand_over(_UUID, address)
    assert [await driver.running() for driver in (one, two)] == [[], [_UUID]]


async def test_a_target_that_gave_up_receives_nothing(tmp_path: Path) -> None:
    """After `destroy`, or a new process of the target, the guest stays on the source."""
    source, target = driver_of("a", tmp_path), driver_of("b", tmp_path)
    await source.spawn(_INSTANCE)
    address = await target.take_in(_INSTANCE)
    await target.destroy(_UUID)
    with pytest.raises(MigrationError, match="no guest waits"):
        await source.hand_over(_UUID, address)
    await target.take_in(_INSTANCE)
    FolderNetwork(tmp_path).clear("b")
    with pytest.raises(MigrationError, match="no guest waits"):
        await source.hand_over(_UUID, address)
    assert await source.running() == [_UUID]


async def test_a_repeated_announcement_disappears_with_the_arrival(tmp_path: Path) -> None:
    """A target that announces a guest again while it arrives receives it once."""
    source, target = driver_of("a", tmp_path), driver_of("b", tmp_path)
    await source.spawn(_INSTANCE)
    address = await target.take_in(_INSTANCE)
    await source.hand_over(_UUID, address)
    FolderNetwork(tmp_path).take_in(target.machine, _UUID)
    assert [one.waits for one in await target.guests()] == [False]
    assert files_of(tmp_path) == []


async def test_stored_disks_outlive_the_process(tmp_path: Path) -> None:
    """A new process of the host that stored disks reports them; clearing the host keeps them."""
    source = driver_of("a", tmp_path)
    await source.spawn(_INSTANCE)
    await source.stop(_UUID, grace_s=0)
    address = await source.store_disks(_UUID)
    FolderNetwork(tmp_path).clear("a")
    assert [one.address for one in await driver_of("a", tmp_path).leftovers()] == [address]
    assert await driver_of("b", tmp_path).leftovers() == []


async def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A damaged file fails the build with an error that names it."""
    driver = driver_of("a", tmp_path)
    (tmp_path / "stored" / f"disks-{_UUID}.json").write_text("{")
    with pytest.raises(BuildError, match=f"cannot read .*disks-{_UUID}.json"):
        await driver.fetch_disks(_INSTANCE, f"fake+folder:///stored/disks-{_UUID}.json")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """The error names the setting and the folder."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match=r"virt\.fake_network_dir: .*file/below"):
        FolderNetwork(tmp_path / "file" / "below")
