"""The stub guest: firmware that is a complete guest, for testing accelerators and drivers.

The source is `stub_guest.S`. The assembled image is kept as text in `stub_guest.b85`, so that
installing Berth needs no assembler; `make stub-guest` regenerates it.
"""

import base64
from importlib.resources import files

READY = "BERTH-GUEST ready uuid="
"""The start of the line that the guest writes to its serial console when it is ready."""
IMAGE_BYTES = 1024
# QEMU requires the size of firmware to be a multiple of 64 KiB.
_ROM_BYTES = 65_536


def stub_image() -> bytes:
    """Return the assembled image."""
    return base64.b85decode("".join(files(__name__).joinpath("stub_guest.b85").read_text().split()))


def stub_firmware() -> bytes:
    """Return a ROM that ends with the image, since the CPU's reset vector is at its end."""
    image = stub_image()
    return bytes(_ROM_BYTES - len(image)) + image
