"""A reader of ISO 9660 file systems, written from the standard and independent of the writer."""

import struct

SECTOR = 2_048


def label_of(image: bytes) -> str:
    """Return the name of the volume."""
    descriptor = image[16 * SECTOR : 17 * SECTOR]
    assert descriptor[:7] == b"\1CD001\1"
    assert image[17 * SECTOR : 17 * SECTOR + 7] == b"\xffCD001\1"
    return descriptor[40:72].decode().rstrip()


def files_of(image: bytes) -> dict[str, bytes]:
    """Return the files by path, with names as Linux shows them."""
    root = image[16 * SECTOR + 156 : 16 * SECTOR + 190]
    return dict(_walk(image, root, ""))


def _walk(image: bytes, folder: bytes, path: str) -> list[tuple[str, bytes]]:
    content = _content(image, folder)
    found: list[tuple[str, bytes]] = []
    names: list[bytes] = []
    at = 0
    while at < len(content) and content[at]:
        record = content[at : at + content[at]]
        at += content[at]
        name = record[33 : 33 + record[32]]
        if name in {b"\0", b"\1"}:
            continue
        names.append(name)
        shown = name.decode("ascii").lower().partition(";")[0].rstrip(".")
        if record[25] & 2:
            found += _walk(image, record, f"{path}{shown}/")
        else:
            found.append((f"{path}{shown}", _content(image, record)))
    assert names == sorted(names)
    return found


def _content(image: bytes, record: bytes) -> bytes:
    sector, size = struct.unpack_from("<I", record, 2)[0], struct.unpack_from("<I", record, 10)[0]
    assert (sector, size) == (
        struct.unpack_from(">I", record, 6)[0],
        struct.unpack_from(">I", record, 14)[0],
    )
    assert sector * SECTOR + size <= len(image)
    return image[sector * SECTOR : sector * SECTOR + size]
