"""Writes small ISO 9660 file systems, which every guest system can read (ECMA-119, level 2)."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_SECTOR: Final = 2_048
_SYSTEM_SECTORS: Final = 16
# The primary descriptor, the terminator and both path tables precede the folders.
_PATH_TABLE_AT: Final = _SYSTEM_SECTORS + 2
_FOLDERS_AT: Final = _PATH_TABLE_AT + 2
_SELF: Final = b"\0"
_PARENT: Final = b"\1"
_IS_FOLDER: Final = 2
_NAME_MAX: Final = 30
_UNSET_TIME: Final = b"0" * 16 + b"\0"
_NO_DATE: Final = bytes(7)


@dataclass(slots=True)
class _Folder:
    parent: "_Folder | None" = None
    number: int = 1
    sector: int = 0
    folders: "dict[str, _Folder]" = field(default_factory=dict[str, "_Folder"])
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])


def iso_image(label: str, files: Mapping[str, bytes]) -> bytes:
    """Return a file system that contains the given files.

    Identifiers are in upper case, as the standard requires. Linux shows them in lower case, and
    other systems ignore case.

    Args:
        label: the name of the volume, at most 32 characters.
        files: the content of each file by its path, such as `openstack/latest/meta_data.json`.

    Raises:
        ValueError: a name or the label is too long, or a folder has too many entries.
    """
    root = _tree(files)
    folders = _by_level(root)
    for at, folder in enumerate(folders):
        folder.number, folder.sector = at + 1, _FOLDERS_AT + at
    content_at = _FOLDERS_AT + len(folders)
    blocks: list[bytes] = []
    directories: list[bytes] = []
    for folder in folders:
        records = [_record(_SELF, folder.sector, _SECTOR, _IS_FOLDER)]
        parent = folder.parent or folder
        records.append(_record(_PARENT, parent.sector, _SECTOR, _IS_FOLDER))
        named: list[tuple[bytes, bytes]] = [
            (_named(name), _record(_named(name), one.sector, _SECTOR, _IS_FOLDER))
            for name, one in folder.folders.items()
        ]
        for name, content in folder.files.items():
            at = content_at + len(blocks)
            blocks.extend(_sectors(content))
            identifier = _named(name) + (b";1" if "." in name else b".;1")
            named.append((identifier, _record(identifier, at, len(content), 0)))
        records.extend(record for _, record in sorted(named))
        directories.append(_one_sector(b"".join(records), "a folder"))
    little, big = _path_tables(folders)
    sectors = content_at + len(blocks)
    return b"".join(
        (
            bytes(_SYSTEM_SECTORS * _SECTOR),
            _descriptor(label, root, sectors, len(little)),
            _one_sector(b"\xffCD001\1", "the terminator"),
            _one_sector(little, "the path table"),
            _one_sector(big, "the path table"),
            *directories,
            *blocks,
        )
    )


def _tree(files: Mapping[str, bytes]) -> _Folder:
    root = _Folder()
    for path, content in files.items():
        *names, last = path.split("/")
        at = root
        for name in names:
            at = at.folders.setdefault(name, _Folder(at))
        at.files[last] = content
    return root


def _by_level(root: _Folder) -> list[_Folder]:
    """Return all folders, those of a level sorted by parent and name, as path tables need them."""
    found = [root]
    for folder in found:
        found.extend(one for _, one in sorted(folder.folders.items()))
    return found


def _named(name: str) -> bytes:
    if len(name) > _NAME_MAX:
        raise ValueError(f"the name {name!r} has more than {_NAME_MAX} characters")
    return name.upper().encode("ascii")


def _both(number: int) -> bytes:
    """Return a 32-bit number in both byte orders."""
    return struct.pack("<I", number) + struct.pack(">I", number)


def _both_short(number: int) -> bytes:
    return struct.pack("<H", number) + struct.pack(">H", number)


def _record(identifier: bytes, sector: int, size_bytes: int, flags: int) -> bytes:
    """Return a directory record, whose length is even."""
    body = b"".join(
        (
            b"\0",
            _both(sector),
            _both(size_bytes),
            _NO_DATE,
            bytes((flags, 0, 0)),
            _both_short(1),
            bytes((len(identifier),)),
            identifier,
        )
    )
    if len(body) % 2 == 0:
        body += b"\0"
    return bytes((len(body) + 1,)) + body


def _path_tables(folders: list[_Folder]) -> tuple[bytes, bytes]:
    """Return the path table in little-endian and in big-endian order."""
    tables = [b"", b""]
    names = {id(one): _named(name) for folder in folders for name, one in folder.folders.items()}
    for folder in folders:
        name = names.get(id(folder), _SELF)
        parent = 1 if folder.parent is None else folder.parent.number
        for at, order in enumerate("<>"):
            tables[at] += bytes((len(name), 0)) + struct.pack(f"{order}IH", folder.sector, parent)
            tables[at] += name + (b"\0" if len(name) % 2 else b"")
    return tables[0], tables[1]


def _descriptor(label: str, root: _Folder, sectors: int, table_bytes: int) -> bytes:
    """Return the primary volume descriptor."""
    descriptor = b"".join(
        (
            b"\1CD001\1\0",
            b" " * 32,
            _text(label, 32),
            bytes(8),
            _both(sectors),
            bytes(32),
            _both_short(1),
            _both_short(1),
            _both_short(_SECTOR),
            _both(table_bytes),
            struct.pack("<II", _PATH_TABLE_AT, 0),
            struct.pack(">II", _PATH_TABLE_AT + 1, 0),
            _record(_SELF, root.sector, _SECTOR, _IS_FOLDER),
            *(_text("", size) for size in (128, 128, 128, 128, 37, 37, 37)),
            _UNSET_TIME * 4,
            b"\1\0",
        )
    )
    return _one_sector(descriptor, "the descriptor")


def _text(text: str, size: int) -> bytes:
    if len(text) > size:
        raise ValueError(f"{text!r} has more than {size} characters")
    return text.encode("ascii").ljust(size)


def _one_sector(content: bytes, what: str) -> bytes:
    if len(content) > _SECTOR:
        raise ValueError(f"{what} needs more than {_SECTOR} bytes")
    return content.ljust(_SECTOR, b"\0")


def _sectors(content: bytes) -> list[bytes]:
    starts = range(0, len(content), _SECTOR)
    return [content[start : start + _SECTOR].ljust(_SECTOR, b"\0") for start in starts]
