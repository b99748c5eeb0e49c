"""Conversion of libvirt's errors to errors that explain them or say what to do."""

import re

from berth.adapters.virt.libvirt.binding import FROM_RPC, ErrorCode, VirtError
from berth.domain.errors import DriverError

_TOLD_CHARS = 500
_QEMU_SAID = re.compile(
    r"(?:process exited while connecting to monitor|unexpectedly closed the monitor):?"
)
_NOT_THERE = "cannot connect to libvirtd; check that it is running and that virt.uri is correct"
_EXPLANATIONS = {
    ErrorCode.NO_CONNECT: _NOT_THERE,
    ErrorCode.RPC: _NOT_THERE,
    ErrorCode.CONFIG_UNSUPPORTED: "this host's QEMU does not support what the guest needs",
    ErrorCode.OPERATION_TIMEOUT: "libvirtd is still busy with the guest; try again later",
    ErrorCode.OPERATION_ABORTED: "the operation was cancelled",
    ErrorCode.MIGRATE_UNSAFE: "libvirt considers the migration unsafe for the guest's disks",
    ErrorCode.XML_ERROR: "libvirt rejected the guest's domain XML",
}


class LibvirtRefusedError(DriverError):
    """libvirt rejected an operation, or the operation failed.

    Args:
        code: libvirt's error code.
        message: libvirt's message.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(error_text(code, message))
        self.code = code


class LibvirtUnreachableError(DriverError):
    """libvirtd is unreachable or the connection was lost, so the operation's outcome is unknown."""


def libvirt_error_of(error: VirtError) -> LibvirtRefusedError | LibvirtUnreachableError:
    """Return the `DriverError` for an error of libvirt.

    It is a `LibvirtUnreachableError` if the error comes from libvirt's RPC layer, and a
    `LibvirtRefusedError` otherwise.
    """
    code = error.get_error_code()
    # Failures of the RPC layer have various codes, such as that of a system call ("Cannot write
    # data: Broken pipe"); only the error domain identifies them.
    if error.get_error_domain() == FROM_RPC:
        return LibvirtUnreachableError(error_text(ErrorCode.RPC, error.get_error_message()))
    return LibvirtRefusedError(code, error.get_error_message())


def error_text(code: int, message: str) -> str:
    """Return the text of an error: an explanation, if there is one, and libvirt's message.

    If libvirt's message quotes the output of QEMU, the text is the end of that output, which states
    the cause.
    """
    qemu_said = _QEMU_SAID.split(message, maxsplit=1)
    if len(qemu_said) > 1:
        lines = [line.strip() for line in qemu_said[1].splitlines() if line.strip()]
        return f"QEMU: {' | '.join(lines)[-_TOLD_CHARS:]}"
    text = " ".join(message.split())[-_TOLD_CHARS:]
    if code in _EXPLANATIONS:
        return f"{_EXPLANATIONS[ErrorCode(code)]} ({text})"
    return text or f"libvirt's error {code}"
