"""Audits of hosts by their own agents: what an agent has found and mended there."""

from dataclasses import dataclass
from typing import Final

NOTICES_MAX: Final = 20
"""Notes of each sort that are kept of one host, the newest."""


@dataclass(frozen=True, slots=True)
class HostNotice:
    """One thing that an agent has found, or has mended.

    `code` is a discrepancy's, or the name of what only an agent can see: `orphan_guest`,
    `orphan_files`, `orphan_disks`. `key` is the uuid that it is about. `at_s` is Unix seconds.
    """

    code: str
    key: str
    text: str
    at_s: float


@dataclass(frozen=True, slots=True)
class HostAudit:
    """What the agent of a host tells of its audits.

    `found` is what is there still, and only the agent can see; `found_total` counts those that
    are left out, too. `mended` is what it has mended last, newest first.
    """

    found: tuple[HostNotice, ...] = ()
    found_total: int = 0
    mended: tuple[HostNotice, ...] = ()


NO_AUDIT: Final = HostAudit()
"""Of a host whose agent has found nothing."""
