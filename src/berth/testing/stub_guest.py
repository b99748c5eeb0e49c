"""Assembles the stub guest, and parses its console output.

`python -m berth.testing.stub_guest` assembles it and writes `stub_guest.b85` next to its source.
"""

import base64
import re
import shutil
import subprocess
import tempfile
import textwrap
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from berth.adapters.virt import stub_guest

# The image ends at 4 GiB, because x86 processors begin to execute 16 bytes below that address. In
# real mode, the same bytes are addressed in a segment that ends at 64 KiB.
_FLAT_END = 1 << 32
_LOW_END = 1 << 16
_READY = re.compile(
    re.escape(stub_guest.READY) + r"([0-9a-f-]{36}) cpus=([0-9a-f]{4}) mib=([0-9a-f]{8})\r?\n"
)
TOOLS = ("as", "ld")


@dataclass(frozen=True, slots=True)
class StubGuestReady:
    """The parsed line that a stub guest writes when it starts."""

    uuid: str
    vcpus: int
    memory_mb: int


def starts_of(console: str) -> list[StubGuestReady]:
    """Return the starts of a stub guest that its console output shows, in order."""
    found = _READY.findall(console)
    return [StubGuestReady(uuid, int(cpus, 16), int(mib, 16)) for uuid, cpus, mib in found]


def lacking_tools() -> list[str]:
    """Return the names of the required binutils programs that are not installed."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def assemble() -> bytes:
    """Return the image, assembled from the source with binutils.

    Raises:
        subprocess.CalledProcessError: the source has an error, which is printed to standard error.
    """
    size = stub_guest.IMAGE_BYTES
    source = files(stub_guest).joinpath("stub_guest.S").read_bytes()
    symbols = [f"IMAGE_BYTES={size}", f"IMAGE_LOW={_LOW_END - size}"]
    with tempfile.TemporaryDirectory() as folder:
        defined = [part for symbol in symbols for part in ("--defsym", symbol)]
        _run(["as", "--32", *defined, "-o", "stub.o", "-"], folder, source)
        at = f"{_FLAT_END - size:#x}"
        link = ["ld", "-m", "elf_i386", "-Ttext", at, "-e", "start16", "--oformat", "binary"]
        _run([*link, "-o", "stub.bin", "stub.o"], folder)
        return Path(folder, "stub.bin").read_bytes()


def _run(command: list[str], folder: str, given: bytes = b"") -> None:
    subprocess.run(command, cwd=folder, input=given, check=True)  # noqa: S603 - names are fixed


def _write() -> None:
    text = base64.b85encode(assemble()).decode()
    target = Path(stub_guest.__file__).with_name("stub_guest.b85")
    target.write_text("\n".join(textwrap.wrap(text, 100)) + "\n")


if __name__ == "__main__":
    _write()
