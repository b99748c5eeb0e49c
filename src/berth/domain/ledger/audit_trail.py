"""The audit log: who changed what, as a chain of hashes.

Each entry has a hash over its own content and the hash of the entry before, so an entry cannot be
altered, inserted, removed or moved without changing the hashes of all entries after it
(docs/adr/0040-the-audit-log.md).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, NamedTuple, cast

FIRST_HASH: Final = "0" * 64
"""The hash before the first entry."""

PRUNED: Final = "audit_log_pruned"
"""The operation of the entry that records a removal of old entries."""
LOST: Final = "audit_entries_lost"
"""The operation of the entry that records how many entries a process had to drop."""

_KEY_DIGITS: Final = 19


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change, and who made it.

    Attributes:
        at_ms: the time when the operation ended, as Unix time in milliseconds.
        operation: the method and route of a request (`POST /v2.1/servers`), or an event of a
            process (`policy_changed`).
        user_id: the caller; empty for an event of a process.
        project_id: the project of the caller.
        roles: the roles of the caller, sorted, where the authentication has roles.
        is_admin: whether the caller was an administrator.
        address: the address of the client.
        parent_zone: the parent zone on whose word the caller is known; empty if none.
        process: the kind of the process and the name of its machine.
        request_id: the id of the request; empty for an event of a process.
        status: the status of the response; 0 for an event, or if there was no response.
        targets: what was changed, by the names in the route, and `created` for a new object.
        details: further facts, such as the name of the action and the body of an administrator's
            request, without secrets.
    """

    at_ms: int
    operation: str
    user_id: str = ""
    project_id: str = ""
    roles: tuple[str, ...] = ()
    is_admin: bool = False
    address: str = ""
    parent_zone: str = ""
    process: str = ""
    request_id: str = ""
    status: int = 0
    targets: Mapping[str, str] = field(default_factory=dict[str, str])
    details: Mapping[str, str] = field(default_factory=dict[str, str])


_FIELDS: Final = tuple(one.name for one in fields(AuditEntry))


@dataclass(frozen=True, slots=True)
class AuditBlock:
    """Consecutive entries of the audit log that were stored together.

    Attributes:
        first: the number of the first entry; the first entry of all has the number 1.
        previous: the hash of the entry before the first one.
        entries: at least one entry.
        hashes: the hash of each entry, in hexadecimal digits.
    """

    first: int
    previous: str
    entries: tuple[AuditEntry, ...]
    hashes: tuple[str, ...]

    @property
    def key(self) -> str:
        """The key of the record: the number of the first entry, in a form that sorts."""
        return audit_key(self.first)

    @property
    def last(self) -> int:
        """The number of the last entry."""
        return self.first + len(self.entries) - 1

    def chained(self) -> "Iterator[ChainedEntry]":
        """Yield the entries with their numbers and hashes."""
        previous = self.previous
        for offset, (entry, stored) in enumerate(zip(self.entries, self.hashes, strict=False)):
            yield ChainedEntry(self.first + offset, previous, stored, entry)
            previous = stored


class ChainedEntry(NamedTuple):
    """An entry with its number, the hash of the entry before, and its own hash."""

    number: int
    previous: str
    hash: str
    entry: AuditEntry

    @property
    def link(self) -> "Link":
        """The entry as `ChainCheck` takes it."""
        return Link(self.number, self.previous, self.hash, content_of(self.entry))


class Link(NamedTuple):
    """An entry with its content as plain JSON, which may have fields of a later version."""

    number: int
    previous: str
    hash: str
    content: Mapping[str, object]


class AuditHead(NamedTuple):
    """The end of the chain: the number and the hash of the last entry."""

    number: int
    hash: str


NO_ENTRIES: Final = AuditHead(0, FIRST_HASH)
"""The head of an empty audit log."""


def audit_key(number: int) -> str:
    """Return the key of a block whose first entry has this number."""
    return f"{number:0{_KEY_DIGITS}d}"


def entry_hash(number: int, previous: str, entry: AuditEntry) -> str:
    """Return the hash of an entry; see `link_hash`."""
    return link_hash(number, previous, content_of(entry))


def content_of(entry: AuditEntry) -> dict[str, object]:
    """Return the fields of an entry."""
    return {name: getattr(entry, name) for name in _FIELDS}


def link_hash(number: int, previous: str, content: Mapping[str, object]) -> str:
    """Return the hash of an entry: SHA-256 over its canonical JSON.

    The JSON is an object of the entry's fields with `number` and `previous`, with sorted keys,
    without spaces, and in ASCII. Empty fields (0, false, and empty texts, lists and objects) are
    left out, so that fields which later versions of Berth add do not change the hashes of
    earlier entries.
    """
    fields_set = {name: value for name, value in content.items() if value}
    fields_set["number"], fields_set["previous"] = number, previous
    text = json.dumps(fields_set, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def chain(head: AuditHead, entries: Iterable[AuditEntry]) -> AuditBlock:
    """Return the block that continues a chain by these entries."""
    stored = tuple(entries)
    hashes: list[str] = []
    previous = head.hash
    for number, entry in enumerate(stored, start=head.number + 1):
        previous = entry_hash(number, previous, entry)
        hashes.append(previous)
    return AuditBlock(head.number + 1, head.hash, stored, tuple(hashes))


def head_of(block: AuditBlock) -> AuditHead:
    """Return the head of a chain whose last block is this one."""
    return AuditHead(block.last, block.hashes[-1])


def storable(entry: AuditEntry) -> AuditEntry:
    """Return an entry whose texts are valid Unicode, with escapes for what is not.

    Names of files and hosts that are not UTF-8 contain lone surrogates, which no ledger stores.
    """
    changed: dict[str, Any] = {}
    for name in _FIELDS:
        value: object = getattr(entry, name)
        clean = _storable_value(value)
        if clean != value:
            changed[name] = clean
    return replace(entry, **changed) if changed else entry


def _storable_value(value: object) -> object:
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="backslashreplace").decode()
    if isinstance(value, tuple):
        return tuple(map(_storable_value, cast("tuple[object, ...]", value)))
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {_storable_value(name): _storable_value(one) for name, one in items}
    return value


class ChainFault(NamedTuple):
    """A place where the chain is broken, and what must have happened there."""

    number: int
    reason: str


class ChainCheck:
    """Checks the entries of an audit log, one after the other, from the oldest to the newest.

    The oldest entry may have a number above 1, because old entries are pruned. An entry after it
    must then record exactly this removal, which `faults` checks at the end.

    Args:
        anchors: hashes by number that were noted elsewhere and that the chain must have.
    """

    def __init__(self, anchors: Mapping[int, str] | None = None) -> None:
        self._anchors = dict(anchors or {})
        self._head: AuditHead | None = None
        self._start: AuditHead = NO_ENTRIES
        self._pruned: set[tuple[str, str]] = set()
        self._faults: list[ChainFault] = []
        self.checked = 0
        """The number of entries that were checked."""

    @property
    def head(self) -> AuditHead:
        """The number and the hash of the newest entry."""
        return self._head or NO_ENTRIES

    def add(self, one: Link) -> None:
        """Check the next entry."""
        if self._head is None:
            self._head = self._start = AuditHead(one.number - 1, one.previous)
            self._check_anchor(self._start)
        self._check(one, self._head)
        self._head = AuditHead(one.number, one.hash)
        self.checked += 1
        if one.content.get("operation") == PRUNED:
            details = cast("Mapping[str, str]", one.content.get("details", {}))
            self._pruned.add((details.get("through", ""), details.get("hash", "")))

    def _check(self, one: Link, head: AuditHead) -> None:
        wanted = head.number + 1
        if one.number > wanted:
            missing = f"{wanted}" if one.number == wanted + 1 else f"{wanted} to {one.number - 1}"
            self._note(one.number, f"the entries {missing} before it are missing")
        elif one.number < wanted:
            self._note(one.number, f"its number should be {wanted}: it was inserted or moved")
        elif one.previous != head.hash:
            self._note(
                one.number,
                "it does not continue the entry before: that one was altered or replaced",
            )
        if link_hash(one.number, one.previous, one.content) != one.hash:
            self._note(one.number, "its content does not have its hash: it was altered")
        self._check_anchor(AuditHead(one.number, one.hash))

    def _check_anchor(self, at: AuditHead) -> None:
        anchor = self._anchors.pop(at.number, None)
        if anchor is not None and anchor != at.hash:
            reason = "its hash is not the one that was noted: the log was rewritten up to here"
            self._note(at.number, reason)

    def faults(self) -> list[ChainFault]:
        """Return all faults, after the last entry was added."""
        found = list(self._faults)
        start = self._start
        if start != NO_ENTRIES and (str(start.number), start.hash) not in self._pruned:
            reason = (
                f"the entries up to {start.number} are missing, and no later entry records that "
                "they were pruned"
            )
            found.insert(0, ChainFault(start.number + 1, reason))
        for number in sorted(self._anchors):
            if number > self.head.number:
                reason = (
                    f"the log ends at {self.head.number}, before the noted entry: its end was cut "
                    "off, or a backup was restored"
                )
                found.append(ChainFault(number, reason))
            elif number < start.number:
                # Otherwise a forger could rewrite the log and claim that it was pruned up to here.
                reason = (
                    "the noted entry was pruned, so nothing could be compared with it; name a head "
                    f"from {start.number} on"
                )
                found.append(ChainFault(number, reason))
        return found

    def _note(self, number: int, reason: str) -> None:
        self._faults.append(ChainFault(number, reason))
