"""TrustedFilter: the host is attested at the level that the flavor requires.

The extra spec `trust:trusted_host` names the level. A missing or expired attestation counts as
`unknown` (nova-behaviour.md 2.6).
"""

import math
from collections.abc import Sequence

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.host import UNKNOWN_LEVEL
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable

NAME = "TrustedFilter"
_SPEC = "trust:trusted_host"


def build() -> Filter:
    """Build the filter. It has no options, because each attestation has its own expiry time."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(request=("flavor.extra_specs", "now_s"), columns=("service",)),
        once_per_request=True,
        holds_until=_holds_until,
    )


def _asked(query: Query) -> str:
    return query.request.flavor.extra_specs.get(_SPEC, "")


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    level = _asked(query)
    if not level:
        return None
    kept = hosts.attestations.has(level, rows, query.now_s)
    if level == UNKNOWN_LEVEL:
        kept |= ~hosts.attestations.is_valid(rows, query.now_s)
    return kept


def _holds_until(hosts: HostTable, query: Query, rows: Selection) -> float:
    ends_s = hosts.attestations.until_s(rows)
    return float(ends_s[ends_s >= query.now_s].min(initial=math.inf))


def _why(hosts: HostTable, query: Query, row: int) -> str:
    host = hosts.host(row)
    service = hosts.services.get(host.name)
    found = None if service is None else service.attestations.get(host.node)
    asked = f"the flavor requires {_SPEC}={_asked(query)}"
    if found is None:
        return f"it is not attested; {asked}"
    if found.level_at(query.now_s) != found.level:
        past_s = query.now_s - found.valid_until_s
        return f"its attestation as {found.level!r} expired {past_s:,.0f} s ago; {asked}"
    return f"it is attested as {found.level!r}; {asked}"


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    return without(NAME, _SPEC, f"the extra spec {_SPEC}", hosts, rows)
