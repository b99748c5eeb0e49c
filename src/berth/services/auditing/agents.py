"""Agents: what they have found and mended on their hosts, which no ledger can tell by itself."""

from collections.abc import Iterator, Mapping
from typing import Final

from berth.domain.compute.host import HostNotice, Service
from berth.domain.ledger.discrepancy import Discrepancy, DiscrepancyCode
from berth.domain.ledger.record import Kind
from berth.services.auditing.books import Books

_ADVICE: Final[Mapping[DiscrepancyCode, str]] = {
    DiscrepancyCode.ORPHAN_GUEST: (
        "look what it is on {host}; Berth leaves it alone, and counts nothing for it"
    ),
    DiscrepancyCode.ORPHAN_FILES: (
        "look at the folder on {host}; move it away, or delete it if nobody wants it"
    ),
    DiscrepancyCode.ORPHAN_DISKS: (
        "look at the folder where disks are stored; delete it if nobody wants it"
    ),
}


def told_by_agents(books: Books, host: str | None) -> Iterator[Discrepancy]:
    """Yield what agents have seen on their hosts, or on one host, and leave to people."""
    for service in _of(books, host):
        for note in service.audit.found:
            try:
                code = DiscrepancyCode(note.code)
            except ValueError:
                continue  # of a newer Berth
            if code in _ADVICE:
                yield Discrepancy(
                    code=code,
                    kind=Kind.INSTANCE,
                    key=note.key,
                    text=f"{service.host}: {note.text}",
                    advice=_ADVICE[code].format(host=service.host),
                    host=service.host,
                    since_s=note.at_s,
                )


def mended_by_agents(books: Books, host: str | None) -> dict[str, tuple[HostNotice, ...]]:
    """Return what agents have mended by themselves lately, by host; the newest first."""
    return {one.host: one.audit.mended for one in _of(books, host) if one.audit.mended}


def _of(books: Books, host: str | None) -> Iterator[Service]:
    for name in sorted(books.services):
        if host in {None, name}:
            yield books.services[name]
