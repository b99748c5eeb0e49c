"""Paths that cannot lead out of the folder to which they belong."""

from pathlib import Path
from typing import Final

from berth.domain.errors import DriverError

_NAME_BYTES_MAX: Final = 255


def contained_path(folder: Path, *names: str) -> Path:
    """Return the path of the given names under a folder; each name must be a plain file name.

    Names come from orders, addresses and files of other hosts. The folder itself may be a symbolic
    link, because an operator names it, but nothing under it may be one.

    Args:
        folder: the folder, which need not exist.
        names: the parts of the path under it.

    Raises:
        DriverError: a name is not a plain file name, or the path leads through a symbolic link.
    """
    path = folder
    for name in names:
        path /= checked_name(name)
        if path.is_symlink():
            raise DriverError(f"{path} is a symbolic link; delete it, because Berth creates none")
    return path


def checked_name(name: str) -> str:
    """Return a plain file name: neither empty nor a path, and without control characters.

    Raises:
        DriverError: the name is not plain.
    """
    is_plain = name not in {"", ".", ".."} and name.isprintable() and "/" not in name
    # An unpaired surrogate is not printable, so every plain name can be encoded.
    if not is_plain or len(name.encode()) > _NAME_BYTES_MAX:
        raise DriverError(
            f"cannot use {name[:80]!r} as a file name, because it is empty, too long, a path or "
            "not printable"
        )
    return name
