"""The translation of libvirt's states, events, errors and addresses to those of the port."""

from dataclasses import replace

import pytest

from berth.adapters.virt.libvirt.binding import FROM_RPC, ErrorCode, VirtError
from berth.adapters.virt.libvirt.errors import (
    LibvirtRefusedError,
    LibvirtUnreachableError,
    error_text,
    libvirt_error_of,
)
from berth.adapters.virt.libvirt.host import cpu_models_of, instances_of
from berth.adapters.virt.libvirt.migration import address_of, target_of
from berth.adapters.virt.libvirt.states import hint_of, is_moving, power_of
from berth.domain.errors import DriverError
from berth.ports.virt import Power
from tests.unit.adapters.virt.libvirt.test_libvirt_xml import DISK, HOST, KERNEL, UUID

RUNNING, PAUSED, SHUT_OFF, CRASHED = 1, 3, 5, 6


@pytest.mark.parametrize(
    ("state", "reason", "known", "power"),
    [
        (RUNNING, 1, Power.RUNNING, Power.RUNNING),
        (2, 0, Power.RUNNING, Power.RUNNING),
        (RUNNING, 1, Power.STOPPED, Power.RUNNING),
        (PAUSED, 1, Power.RUNNING, Power.PAUSED),
        (PAUSED, 10, Power.RUNNING, Power.CRASHED),
        (CRASHED, 1, Power.RUNNING, Power.CRASHED),
        (SHUT_OFF, 1, Power.RUNNING, Power.STOPPED),
        (SHUT_OFF, 2, Power.RUNNING, Power.STOPPED),
        (SHUT_OFF, 3, Power.RUNNING, Power.CRASHED),
        (SHUT_OFF, 8, Power.RUNNING, Power.CRASHED),
        (SHUT_OFF, 0, Power.RUNNING, Power.CRASHED),
        (SHUT_OFF, 0, Power.STOPPED, Power.STOPPED),
        (SHUT_OFF, 3, Power.STOPPED, Power.STOPPED),
        (0, 0, Power.STOPPED, Power.STOPPED),
    ],
)
def test_a_state_is_a_power(state: int, reason: int, known: Power, power: Power) -> None:
    """A guest that ended while it was to run has crashed, unless libvirt gives a regular reason."""
    found, told_why = power_of(state, reason, is_saved=False, known=known)
    assert found is power
    assert bool(told_why) or power is not Power.CRASHED


def test_a_guest_whose_memory_is_kept_is_suspended() -> None:
    """A shut-off guest with saved memory is suspended; a running guest is running."""
    assert power_of(SHUT_OFF, 0, is_saved=True, known=Power.RUNNING)[0] is Power.SUSPENDED
    assert power_of(RUNNING, 0, is_saved=True, known=Power.RUNNING)[0] is Power.RUNNING


def test_a_guest_that_moves_stands_still() -> None:
    """A guest is moving if libvirt paused it for a migration, but not if its user paused it."""
    assert is_moving(PAUSED, 2)
    assert not is_moving(PAUSED, 1)
    assert not is_moving(RUNNING, 0)


@pytest.mark.parametrize(
    ("event", "detail", "power"),
    [
        (2, 0, Power.RUNNING),
        (2, 1, None),
        (3, 0, Power.PAUSED),
        (4, 0, Power.RUNNING),
        (5, 0, Power.STOPPED),
        (5, 1, Power.STOPPED),
        (5, 3, Power.STOPPED),
        (5, 4, Power.SUSPENDED),
        (5, 5, Power.CRASHED),
        (8, 0, Power.CRASHED),
        (0, 0, None),
        (1, 0, None),
        (6, 0, None),
    ],
)
def test_an_event_is_a_hint(event: int, detail: int, power: Power | None) -> None:
    """An event is translated to a power state, or to None if it does not imply one."""
    hint = hint_of(event, detail)
    assert (None if hint is None else hint[0]) is power


def test_what_qemu_said_is_kept() -> None:
    """The text is QEMU's message on one line, without libvirt's prefix, cut to a limit."""
    message = (
        "internal error: process exited while connecting to monitor: 2026-11-22T00:00:00Z\n"
        "qemu-system-x86_64: cannot set up guest memory 'pc.ram': Cannot allocate memory\n"
    )
    text = error_text(ErrorCode.INTERNAL, message)
    assert text.startswith("QEMU: ")
    assert text.endswith("Cannot allocate memory")
    assert "\n" not in text
    assert len(error_text(ErrorCode.INTERNAL, message * 100)) < 600


def test_errors_say_what_to_do() -> None:
    """A failed connection names the setting to check; other errors keep the text of libvirt."""
    text = error_text(ErrorCode.NO_CONNECT, "Failed to connect socket")
    assert "virt.uri" in text
    assert "Failed to connect socket" in text
    assert (
        error_text(ErrorCode.SYSTEM_ERROR, "Cannot get interface\nMTU")
        == "Cannot get interface MTU"
    )
    assert error_text(9999, "") == "libvirt's error 9999"


class BrokenError(VirtError):
    """The error of a call that did not reach libvirtd."""

    def __init__(self, domain: int) -> None:
        self.domain = domain

    def get_error_domain(self) -> int:
        """Return the part of libvirt that reports the error."""
        return self.domain

    def get_error_code(self) -> int:
        """Return the code."""
        return ErrorCode.SYSTEM_ERROR

    def get_error_message(self) -> str:
        """Return the message."""
        return "Cannot write data: Broken pipe"


def test_a_call_that_does_not_get_through_says_so() -> None:
    """An error from the RPC domain means that libvirtd is unreachable; other domains do not."""
    cut_off, other = (
        libvirt_error_of(BrokenError(FROM_RPC)),
        libvirt_error_of(BrokenError(FROM_RPC + 1)),
    )
    assert isinstance(cut_off, LibvirtUnreachableError)
    assert "libvirtd" in str(cut_off)
    assert "Broken pipe" in str(cut_off)
    assert isinstance(other, LibvirtRefusedError)
    assert str(other) == "Cannot write data: Broken pipe"


def test_an_address_says_where_everything_is() -> None:
    """An address is decoded to the host, URI and files that were encoded in it."""
    target = target_of(address_of(HOST, UUID, KERNEL), UUID)
    assert (target.host, target.uri) == (HOST.name, "qemu+tls://127.0.0.1/system")
    assert target.address == "127.0.0.1"
    assert (target.files.state_dir, target.files.image) == (HOST.state_dir, KERNEL.file)
    assert target.files.initrd == KERNEL.initrd
    assert target_of(address_of(HOST, UUID, DISK), UUID).files.initrd is None


@pytest.mark.parametrize("address", ["", "qemu://h:1/", f"libvirt://h/{UUID}", "libvirt:///x"])
def test_other_addresses_are_refused(address: str) -> None:
    """An address of another form, such as that of another driver, is refused."""
    with pytest.raises(DriverError, match="not an address of a libvirt driver"):
        target_of(address, UUID)


@pytest.mark.parametrize(
    "uri",
    [
        "http://h/",
        "qemu+ext:///system?command=/bin/sh",
        "qemu+ssh://h/system?netcat=sh",
        "xen:///",
        "qemu+tls://h/system?no_verify=1",
        "qemu+tls://h/system?pkipath=/etc",
        "qemu+ssh://h/system?command",
    ],
)
def test_no_address_starts_a_program(uri: str) -> None:
    """A URI that would start a program or lead to something other than libvirtd is refused."""
    address = address_of(replace(HOST, peer_uri=uri), UUID, DISK)
    with pytest.raises(DriverError, match="not an acceptable URI"):
        target_of(address, UUID)


@pytest.mark.parametrize("uri", ["qemu+tls://[/system", "qemu+tls://8.8.8.8/system"])
def test_an_address_leads_to_a_host(uri: str) -> None:
    """A URI that is malformed, or leads out of the networks of hosts, is refused."""
    inside = address_of(replace(HOST, peer_uri="qemu+tls://127.0.0.2/system"), UUID, DISK)
    assert target_of(inside, UUID, ("127.0.0.0/8",)).address == "127.0.0.1"
    address = address_of(replace(HOST, peer_uri=uri), UUID, DISK)
    with pytest.raises(DriverError, match=r"not a URI of a libvirtd|none of the networks"):
        target_of(address, UUID, ("127.0.0.0/8",))


def test_an_address_is_of_one_guest() -> None:
    """An address is refused for any other guest than its own."""
    with pytest.raises(DriverError, match="not an address"):
        target_of(address_of(HOST, UUID, DISK), UUID[:-1] + "1")


def test_kvm_is_offered_where_it_boots_guests() -> None:
    """KVM is listed only on request, since libvirt reports it wherever its device node exists."""
    text = """<capabilities><host/><guest><os_type>hvm</os_type><arch name='x86_64'>
        <domain type='qemu'/><domain type='kvm'/></arch></guest></capabilities>"""
    assert instances_of(text, with_kvm=False) == (("x86_64", "qemu", "hvm"),)
    assert len(instances_of(text, with_kvm=True)) == 2


def test_processors_that_can_be_had_are_told() -> None:
    """The usable CPU models are returned in alphabetical order."""
    text = """<domainCapabilities><cpu><mode name='host-model'><model>EPYC</model></mode>
        <mode name='custom'><model usable='yes'>qemu64</model><model usable='no'>Denverton</model>
        <model usable='yes'>Nehalem</model></mode></cpu></domainCapabilities>"""
    assert cpu_models_of(text) == ("Nehalem", "qemu64")
