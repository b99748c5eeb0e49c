"""What the driver keeps of a guest in libvirt's description of it, in a namespace of its own."""

from xml.etree import ElementTree as ET

import msgspec

from berth.adapters.virt.guest_disks import GuestSize
from berth.domain.hardware.assignment import CellShare
from berth.ports.virt import Power

NAMESPACE = "urn:berth:guest:1"
PREFIX = "berth"
_TAG = f"{{{NAMESPACE}}}guest"


class GuestRecord(msgspec.Struct, frozen=True):
    """What a guest is and was last told to do.

    `power` is what it does as far as this driver knows: what is off and should run has crashed,
    unless libvirt knows better.
    """

    uuid: str
    host: str
    """The host whose agent looks after it; others leave it alone."""
    image_id: str
    machine: str
    size: GuestSize
    wanted: GuestSize
    """Its size from the next start on."""
    disks: tuple[str, ...] = ()
    power: Power = Power.RUNNING
    reason: str = ""
    needs_image: bool = False
    """It boots more of its image than what its root disk has of it."""
    waits: bool = False
    """It is the target of a live migration that has not come to its end."""
    address: str = ""
    """Where that live migration arrives, or where its disks are offered."""
    cells: tuple[CellShare, ...] = ()
    """What it has of the host's NUMA cells."""
    devices: tuple[str, ...] = ()
    """Addresses of the host's PCI devices that it has (`0000:3b:00.1`)."""


def to_element(record: GuestRecord) -> ET.Element:
    """Return a record as what stands in a description's metadata."""
    element = ET.Element(_TAG, {"host": record.host})
    element.text = msgspec.json.encode(record).decode()
    return element


def to_text(record: GuestRecord) -> str:
    """Return a record as libvirt takes new metadata: it adds the namespace's prefix itself."""
    element = to_element(record)
    element.tag = "guest"
    return ET.tostring(element, encoding="unicode")


def of_text(text: str) -> GuestRecord | None:
    """Read a record from metadata; None of one that cannot be read.

    Args:
        text: the element, as libvirt gives it out.
    """
    try:
        element = ET.fromstring(text)  # noqa: S314 - libvirt wrote it, and refuses entities
        return msgspec.json.decode(element.text or "", type=GuestRecord)
    except (ET.ParseError, msgspec.DecodeError):
        return None
