"""Connections to the VNC servers of libvirt guests."""

import socket
from xml.etree import ElementTree as ET

from berth.adapters.virt.libvirt.binding import OPEN_GRAPHICS_SKIPAUTH, Domain


def vnc_socket_of(domain: Domain) -> socket.socket | None:
    """Return a socket that is connected to the VNC server of a running guest.

    The result is None if the guest has no VNC server. The calls block the thread, and raise
    libvirt's own errors.
    """
    xml = ET.fromstring(domain.XMLDesc(0))  # noqa: S314 - libvirt wrote it
    if xml.find("devices/graphics[@type='vnc']") is None:
        return None
    return socket.socket(fileno=domain.openGraphicsFD(0, OPEN_GRAPHICS_SKIPAUTH))
