"""Canaries: names and numbers of a zone that a search finds in any output.

Everything that a zone must not disclose contains one of a few marks that occur nowhere else: names,
uuids and addresses have a mark each, which all zones share, and numbers are in ranges of their own.
So a search over many megabytes needs only a few passes.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final
from urllib.parse import unquote_to_bytes

MARK: Final = "zqxjkvwyq"
"""The mark in each name that tenants must not see."""
UUID_TAIL: Final = "4bad-8ced-d00dfacefeed"
"""The end of each provider's uuid."""
ADDRESS: Final = "fd5a:9c3e:71b4:e08d"
"""The start of each address."""

_BEYOND: Final = 90_000
"""The most of one host's amount that the instances of a test may use."""
_AROUND: Final = 24
_ENDS: Final = rb"(?=[KMGT]i?B\b|[^A-Za-z0-9-]|$)"
_NUMBERS: Final = (
    re.compile(rb"(?<![A-Za-z0-9._-])\d{4,}" + _ENDS),
    re.compile(rb"(?<![A-Za-z0-9.,_-])\d{1,3}(?:,\d{3})+" + _ENDS),
)
_VERSION: Final = re.compile(rb'"table_version":\d+')
"""The version of a zone's table, which is near the number of its hosts but does not reveal it."""
_BLOB: Final = re.compile(rb'("(?:blob|select_id)": ?")[A-Za-z0-9_-]{20,}(?=")')
_LENGTH: Final = re.compile(rb"(?im)^content-length: \d+$")


@dataclass(frozen=True)
class Canaries:
    """The secrets of one zone: its word, its number of hosts, and the totals of each host.

    With `hosts` 0 the search ignores that number, as a small one occurs everywhere.
    At most 90,000 of each amount in `totals` are ever used.
    """

    word: str
    hosts: int
    totals: dict[str, int] = field(default_factory=dict[str, int])

    def host_name(self, index: int) -> str:
        """Return the name of a host."""
        return f"{MARK}-{self.word}-host-{index}"

    def node_name(self, index: int) -> str:
        """Return the name of a host's node."""
        return f"{MARK}-{self.word}-node-{index}"

    def uuid(self, index: int) -> str:
        """Return the uuid of a host, which is that of its provider."""
        return f"{self._number:04x}{index:04x}-face-{UUID_TAIL}"

    def address(self, index: int) -> str:
        """Return the address of a host."""
        return f"{ADDRESS}::{self._number:x}:{index + 1:x}"

    @property
    def aggregate(self) -> str:
        """The name of an aggregate, which only operators may see."""
        return f"{MARK}-{self.word}-aggregate"

    @property
    def _number(self) -> int:
        return int.from_bytes(self.word.encode()[:2])

    def hidden(self, data: bytes) -> bytes:
        """Return the bytes without this zone's own secrets, which its operators may read."""
        own = rb"%s-%s|%04x[0-9a-f]{4}-face-%s|%s::%x:"
        secrets = (MARK.encode(), self.word.encode(), self._number, UUID_TAIL.encode())
        pattern = own % (*secrets, ADDRESS.encode(), self._number)
        return re.sub(pattern, b"own", data)

    def ranges(self) -> Iterator[tuple[str, int, int]]:
        """Yield each range of forbidden numbers: what it reveals, the least and the greatest."""
        if self.hosts:
            yield "hosts", self.hosts - 3, self.hosts + 1
        for name, total in self.totals.items():
            yield name, total - _BEYOND, total + 1
            whole = total * max(1, self.hosts)
            yield f"{name} of all", whole - whole // 50, whole + 1


@dataclass(frozen=True)
class Leak:
    """One leak: what was disclosed, in which form, and the bytes around it."""

    what: str
    form: str
    around: bytes


def leaks_in(data: bytes, zones: Iterable[Canaries] = ()) -> list[Leak]:
    """Return the leaks in the bytes: names, uuids and addresses of any zone, numbers of some.

    Args:
        data: bytes that have left a zone.
        zones: the zones whose numbers are searched for.
    """
    found = [*_named(data), *_numbers(data, zones)]
    if b"%" in data:
        found += (Leak(one.what, "in percents", one.around) for one in _named(_unquoted(data)))
    if b"\\u" in data:
        found += (Leak(one.what, "escaped", one.around) for one in _named(_unescaped(data)))
    return found


def _named(data: bytes) -> Iterator[Leak]:
    small = data.lower()
    for what, form, pattern, in_any_case in _PATTERNS:
        at = (small if in_any_case else data).find(pattern)
        if at >= 0:
            yield Leak(what, form, data[max(0, at - 3 * _AROUND) : at + 3 * _AROUND])


def _numbers(data: bytes, zones: Iterable[Canaries]) -> Iterator[Leak]:
    ranges = [
        (f"{one.word}: {what}", least, most) for one in zones for what, least, most in one.ranges()
    ]
    if not ranges:
        return
    data = _LENGTH.sub(b"", _VERSION.sub(b"", _BLOB.sub(rb"\1", data)))
    seen: set[bytes] = set()
    for match in chain.from_iterable(pattern.finditer(data) for pattern in _NUMBERS):
        text = match[0]
        if text in seen:
            continue
        seen.add(text)
        number = int(text.replace(b",", b""))
        for what, least, most in ranges:
            if least <= number <= most:
                around = data[max(0, match.start() - 3 * _AROUND) : match.end() + _AROUND]
                yield Leak(what, "as a number", around)


def _unquoted(data: bytes) -> bytes:
    return unquote_to_bytes(data)


def _unescaped(data: bytes) -> bytes:
    return re.sub(rb"\\u00([0-9a-fA-F]{2})", lambda match: bytes.fromhex(match[1].decode()), data)


def _forms(what: str, raw: bytes) -> Iterator[tuple[str, str, bytes, bool]]:
    """Yield the forms in which a secret could be sent, and whether case is ignored."""
    yield what, "as it is", raw.lower(), True
    yield what, "in hex", raw.hex().encode(), True
    for shift in range(3):
        coded = base64.b64encode(b"\0" * shift + raw)
        inner = coded[-(-shift * 8 // 6) : len(coded) - (4 if (len(raw) + shift) % 3 else 0)]
        yield what, f"in base64, from byte {shift}", inner, False
        yield what, f"in base64 of URLs, from byte {shift}", inner.translate(_OF_URLS), False
    yield what, "reversed", raw[::-1].lower(), True


_OF_URLS: Final = bytes.maketrans(b"+/", b"-_")
_PATTERNS: Final = (
    *_forms("a name", MARK.encode()),
    *_forms("the uuid of a provider", UUID_TAIL.encode()),
    *_forms("the uuid of a provider, packed", bytes.fromhex(UUID_TAIL.replace("-", ""))),
    *_forms("an address", ADDRESS.encode()),
    *_forms("an address, packed", bytes.fromhex(ADDRESS.replace(":", ""))),
)


def planted(zone: Canaries) -> Iterator[tuple[str, bytes]]:
    """Yield texts with one secret each, which a search must find, and their descriptions."""
    secrets = {
        "host": zone.host_name(7),
        "node": zone.node_name(7),
        "aggregate": zone.aggregate,
        "uuid": zone.uuid(7),
        "address": zone.address(7),
    }
    for name, secret in secrets.items():
        raw = secret.encode()
        yield f"{name}, plain", b'{"a": "' + raw + b'"}'
        yield f"{name}, in capitals", raw.upper()
        yield f"{name}, in hex", raw.hex().encode()
        yield f"{name}, in percents", "".join(f"%{byte:02X}" for byte in raw).encode()
        yield f"{name}, escaped", "".join(f"\\u{byte:04x}" for byte in raw).encode()
        for shift in range(3):
            yield f"{name}, in base64 from {shift}", base64.b64encode(b"x" * shift + raw)
            yield f"{name}, in URLs from {shift}", base64.urlsafe_b64encode(b"x" * shift + raw)
    packed = bytes.fromhex(zone.uuid(7).replace("-", ""))
    yield "uuid, packed", b"\1" + packed
    yield "memory, with a unit", b"free: %dMB" % next(iter(zone.totals.values()))
    yield "memory, in a list", b"[1,%d,2]" % next(iter(zone.totals.values()))
    yield "uuid, packed in base64", base64.b64encode(b"\1" + packed)
    for name, total in zone.totals.items():
        for number in (total, total - 16, total - _BEYOND, total * max(1, zone.hosts) - 12_345):
            yield f"{name}, {number}", json.dumps({"free": number, "b": [1]}).encode()
            yield f"{name}, {number} as a fraction", json.dumps({"free": float(number)}).encode()
            yield f"{name}, {number} in words", f"only {number:,} MB are free".encode()
            yield f"{name}, {number} as a metric", f'berth_free{{x="y"}} {number}\n'.encode()
    for number in (zone.hosts, zone.hosts - 1) if zone.hosts else ():
        yield f"hosts, {number}", json.dumps({"hosts": number}).encode()
        yield f"hosts, {number} in words", f"of {number:,} hosts, one is left".encode()
