"""ComputeCapabilitiesFilter: the host's attributes meet the extra specs.

The key `b` of the host's attribute (or stat) `a` must match the requirement of
`capabilities:a:b = requirement`. A key without a scope is compared only on hosts that have an
attribute or stat of that name; other scopes belong to other rules (nova-behaviour.md 2.6).
`hw:maxphysaddr_bits = n` requires at least n address bits in the host's `cpu_info`.

Some attributes (`free_ram_mb`, `num_instances`, ...) change with every placed instance. Nova still
runs this filter once per request, and so does Berth: all instances of a request are compared with
the host as it was before the first.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.attributes import (
    HOST_ATTRIBUTES,
    PROFILE_ATTRIBUTES,
    ROW_ATTRIBUTES,
    profile_value,
)
from berth.scheduling.rules.operators import flaw_of, matches
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.host.hosts import HostTable
from berth.tables.host.profiles import Profile

NAME = "ComputeCapabilitiesFilter"
_SCOPE = "capabilities"
_ADDRESS_BITS = "hw:maxphysaddr_bits"


def build() -> Filter:
    """Build the filter; it has no options."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(
            request=("flavor.extra_specs",), columns=("host", "used", "instances", "service")
        ),
        # Nova runs this filter once per request, although placements change some attributes.
        once_per_request=True,
    )


def _demands(hosts: HostTable, query: Query, rows: Selection) -> Iterator[tuple[str, Mask]]:
    """Yield each extra spec that this filter reads, with the rows that meet it."""
    for key, requirement in query.request.flavor.extra_specs.items():
        path, scoped = _path_of(key)
        wanted = _wanted(key, requirement)
        if not path:
            continue
        if len(path) == 1 and path[0] in ROW_ATTRIBUTES:
            yield key, _match_rows(hosts, path[0], wanted, rows)
        elif len(path) == 1 and path[0] in HOST_ATTRIBUTES:
            yield key, _match_hosts(hosts, path[0], wanted, rows)
        elif scoped or _is_known(hosts, path[0]):
            yield key, _match_profiles(hosts, path, wanted, rows, scoped=scoped)


def _wanted(key: str, requirement: str) -> str:
    return f">= {requirement}" if key == _ADDRESS_BITS else requirement


def _path_of(key: str) -> tuple[list[str], bool]:
    """Return the path of a key, empty if it belongs to another rule, and whether it is scoped."""
    if key == _ADDRESS_BITS:
        return ["cpu_info", "maxphysaddr", "bits"], True
    path = key.split(":")
    if path[0] == _SCOPE and len(path) > 1:
        return path[1:], True
    return (path, False) if len(path) == 1 else ([], False)


def _is_known(hosts: HostTable, name: str) -> bool:
    return name in PROFILE_ATTRIBUTES or any(
        name == stat
        for profile in hosts.profiles.all
        if profile is not None
        for stat, _ in profile.stats
    )


def _match_rows(hosts: HostTable, name: str, requirement: str, rows: Selection) -> Mask:
    # Matching runs in Python, which is slow, so each distinct value is matched only once.
    values, places = np.unique(ROW_ATTRIBUTES[name](hosts)[rows], return_inverse=True)
    verdicts = np.array([matches(value.item(), requirement) for value in values], np.bool_)
    kept: Mask = verdicts[places]
    return kept


def _match_hosts(hosts: HostTable, name: str, requirement: str, rows: Selection) -> Mask:
    read, alive = HOST_ATTRIBUTES[name], hosts.alive
    here: list[int] = np.arange(len(hosts))[rows].tolist()
    met = [bool(alive[row]) and matches(read(hosts, row), requirement) for row in here]
    return np.array(met, dtype=np.bool_)


def _match_profiles(
    hosts: HostTable, path: Sequence[str], requirement: str, rows: Selection, *, scoped: bool
) -> Mask:
    def meets(profile: Profile) -> bool:
        value = profile_value(profile, path)
        if value is None:
            return not scoped
        return matches(str(value), requirement)

    return hosts.profiles.mask(hosts.profile[rows], meets)


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    if not any(_path_of(key)[0] for key in query.request.flavor.extra_specs):
        return None
    kept = np.ones(count_of(rows), dtype=np.bool_)
    for _, meets in _demands(hosts, query, rows):
        kept &= meets
    return kept


def _why(hosts: HostTable, query: Query, row: int) -> str:
    specs = query.request.flavor.extra_specs
    here = np.array([row])
    demands = _demands(hosts, query, here)
    unmet = [
        f"{key}={specs[key]}{_flaw(key, specs[key])}" for key, meets in demands if not meets[0]
    ]
    return f"it does not meet {', '.join(unmet)}"


def _flaw(key: str, requirement: str) -> str:
    """Return, in parentheses, why no host can meet an extra spec; empty if some host may."""
    flaw = flaw_of(_wanted(key, requirement))
    return f" ({flaw})" if flaw else ""


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    demands = list(_demands(hosts, query, rows))
    # A relaxation is a single change, so it helps only hosts that fail no other demand.
    failed = np.sum([~meets for _, meets in demands], axis=0)
    found: list[Relaxation] = []
    for key, meets in demands:
        winners = rows[~meets & (failed == 1)]
        found.extend(without(NAME, key, f"the extra spec {key}", hosts, winners))
    return found
