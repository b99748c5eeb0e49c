"""Tests for the committed image of the stub guest."""

import pytest

from berth.adapters.virt.stub_guest import IMAGE_BYTES, READY, stub_firmware, stub_image
from berth.testing.stub_guest import StubGuestReady, assemble, lacking_tools, starts_of

UUID = "12345678-9abc-def0-1234-56789abcdef0"


def test_the_bytes_are_those_of_the_source() -> None:
    """The committed image equals the assembled source; `make stub-guest` renews it."""
    if missing := lacking_tools():
        pytest.skip(f"no {', '.join(missing)} of binutils here")
    assert assemble() == stub_image()


def test_the_firmware_ends_with_the_guest() -> None:
    """The firmware is 64 KiB long and ends with the guest, whose entry is a jump."""
    firmware = stub_firmware()
    assert len(firmware) == 65_536
    assert firmware.endswith(stub_image())
    assert len(stub_image()) == IMAGE_BYTES
    jump = 0xE9
    assert firmware[-16] == jump


def test_starts_are_read_from_the_console() -> None:
    """Each complete ready line of the console is read, with hexadecimal numbers."""
    line = f"{READY}{UUID} cpus=0010 mib=00000400\r\n"
    console = f"cut off{line}BERTH-GUEST tick 00000007\r\n{line}{READY}{UUID} cpus=00"
    assert starts_of(console) == [StubGuestReady(UUID, 16, 1024)] * 2
    assert starts_of("") == []
