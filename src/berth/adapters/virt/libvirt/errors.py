"""What libvirt complains about, as errors that say what to do."""

import re

from berth.adapters.virt.libvirt.binding import FROM_RPC, ErrorCode, VirtError
from berth.domain.errors import DriverError

_TOLD_CHARS = 500
_QEMU_SAID = re.compile(
    r"(?:process exited while connecting to monitor|unexpectedly closed the monitor):?"
)
_NOT_THERE = "no libvirtd can be spoken to: is it running, and is its address (virt.uri) right?"
_WHAT_TO_DO = {
    ErrorCode.NO_CONNECT: _NOT_THERE,
    ErrorCode.RPC: _NOT_THERE,
    ErrorCode.CONFIG_UNSUPPORTED: "this host's QEMU cannot give the guest what it asks for",
    ErrorCode.OPERATION_TIMEOUT: "libvirtd is still busy with the guest; try again later",
    ErrorCode.OPERATION_ABORTED: "it was cancelled",
    ErrorCode.MIGRATE_UNSAFE: "libvirt does not think that the guest's disks survive the move",
    ErrorCode.XML_ERROR: "libvirt does not take the guest's description",
}


class LibvirtRefusedError(DriverError):
    """libvirt refused to do something, or failed.

    Args:
        code: libvirt's number of the error.
        message: what it says.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(error_text(code, message))
        self.code = code


class LibvirtUnreachableError(DriverError):
    """libvirtd cannot be reached, or was lost; nobody knows whether it has done what was asked."""


def libvirt_error_of(error: VirtError) -> LibvirtRefusedError | LibvirtUnreachableError:
    """Return an error of libvirt as one of ours."""
    code = error.get_error_code()
    # What breaks between libvirt's client and its daemon comes with the codes of the system's calls
    # and of all else ("Cannot write data: Broken pipe"); only the domain tells.
    if error.get_error_domain() == FROM_RPC:
        return LibvirtUnreachableError(error_text(ErrorCode.RPC, error.get_error_message()))
    return LibvirtRefusedError(code, error.get_error_message())


def error_text(code: int, message: str) -> str:
    """Return what an error means; of one of QEMU's own, what QEMU wrote."""
    # libvirt quotes all that QEMU wrote before it ended; what counts stands at the end.
    qemu_said = _QEMU_SAID.split(message, maxsplit=1)
    if len(qemu_said) > 1:
        lines = [line.strip() for line in qemu_said[1].splitlines() if line.strip()]
        return f"QEMU: {' | '.join(lines)[-_TOLD_CHARS:]}"
    text = " ".join(message.split())[-_TOLD_CHARS:]
    if code in _WHAT_TO_DO:
        return f"{_WHAT_TO_DO[ErrorCode(code)]} ({text})"
    return text or f"libvirt's error {code}"
