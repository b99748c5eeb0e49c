"""The stub guest: firmware that is a whole guest, to try accelerators and drivers with.

Its source is `stub_guest.S`, what that assembles to is kept beside it as text (`make stub-guest`
writes it anew), so nobody needs an assembler.
"""

import base64
from importlib.resources import files

READY = "BERTH-GUEST ready uuid="
"""How the line begins that it writes to its serial console when it has started."""
IMAGE_BYTES = 1024
_ROM_BYTES = 65_536
"""QEMU takes firmware in multiples of this."""


def stub_image() -> bytes:
    """Return what the source assembles to."""
    return base64.b85decode("".join(files(__name__).joinpath("stub_guest.b85").read_text().split()))


def stub_firmware() -> bytes:
    """Return the stub guest as QEMU takes it: the processor starts at its end."""
    image = stub_image()
    return bytes(_ROM_BYTES - len(image)) + image
