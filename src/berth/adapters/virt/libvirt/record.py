"""The driver's record of a guest, kept as JSON in the metadata of its domain.

libvirt stores a domain and its metadata in one transaction, so both always match.
"""

from xml.etree import ElementTree as ET

import msgspec

from berth.adapters.virt.guest_disks import GuestSize
from berth.domain.hardware.assignment import CellShare
from berth.ports.virt import Power

NAMESPACE = "urn:berth:guest:1"
PREFIX = "berth"
_TAG = f"{{{NAMESPACE}}}guest"


class GuestRecord(msgspec.Struct, frozen=True):
    """The driver's description of a guest.

    `power` is the last power state that the driver commanded or observed, `reason` its explanation.
    A guest that is off but should run has crashed, unless libvirt reports a regular shutdown.
    """

    uuid: str
    host: str
    """The host whose agent manages the guest; other agents leave it alone."""
    image_id: str
    machine: str
    size: GuestSize
    wanted: GuestSize
    """The size that applies from the next start on."""
    disks: tuple[str, ...] = ()
    power: Power = Power.RUNNING
    reason: str = ""
    needs_image: bool = False
    """Whether the guest boots from the image's file rather than from its root disk alone."""
    waits: bool = False
    """Whether the guest is the target of an unfinished live migration."""
    address: str = ""
    """The address of the live migration to this host, or of the export of its disks."""
    rescue_image: str = ""
    """The id of the image from which the guest boots while it is rescued."""
    cells: tuple[CellShare, ...] = ()
    """The guest's shares of the host's NUMA cells."""
    devices: tuple[str, ...] = ()
    """The addresses of the guest's PCI devices (`0000:3b:00.1`)."""


def to_element(record: GuestRecord) -> ET.Element:
    """Return a record as an element of a domain's metadata."""
    element = ET.Element(_TAG, {"host": record.host})
    element.text = msgspec.json.encode(record).decode()
    return element


def to_text(record: GuestRecord) -> str:
    """Return a record as text for `setMetadata`, which adds the namespace prefix itself."""
    element = to_element(record)
    element.tag = "guest"
    return ET.tostring(element, encoding="unicode")


def of_text(text: str) -> GuestRecord | None:
    """Parse a record, or return None when it cannot be read.

    Args:
        text: the metadata element, as libvirt returns it.
    """
    try:
        element = ET.fromstring(text)  # noqa: S314 - libvirt wrote it, and refuses entities
        return msgspec.json.decode(element.text or "", type=GuestRecord)
    except (ET.ParseError, msgspec.DecodeError):
        return None
