"""The hosts that a request allows by name, before any rule runs (nova-behaviour.md 2.2)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from berth.domain.compute.request import Destination, Request
from berth.tables.columnar.bitsets import Mask
from berth.tables.host.hosts import HostTable

CHECK_TYPE: Final = "_nova_check_type"
"""The hint that names an operation (`rebuild`) for which hosts are only checked, not chosen."""

REBUILD: Final = ("rebuild",)
"""The value of the hint `CHECK_TYPE` for the rebuild of an instance on its host."""


@dataclass(frozen=True, slots=True)
class Restriction:
    """One field of a request that allows only certain hosts.

    `what` describes the field in messages ("forced hosts"). `allows` is True on the (N,) rows that
    the field allows. `forces` means that the field forces hosts, which skips most filters.
    """

    what: str
    allows: Mask
    forces: bool = False


@dataclass(frozen=True, slots=True)
class Reduction:
    """The hosts that a request allows by name.

    `mask` is True on the (N,) rows that remain. `restrictions` are the fields that allow only
    certain hosts, in the order in which they apply. `check_type` is the value of the hint
    `CHECK_TYPE`; empty for a request that is to be placed.
    """

    mask: Mask
    restrictions: tuple[Restriction, ...] = ()
    check_type: tuple[str, ...] = ()

    @property
    def forced(self) -> bool:
        """Whether the request forces hosts or nodes, which skips most filters."""
        return any(one.forces for one in self.restrictions)

    @property
    def what(self) -> str:
        """The restrictions as text; empty if there are none."""
        return " and ".join(one.what for one in self.restrictions)


def is_reduced(request: Request) -> bool:
    """Return whether a request names hosts or has the hint `CHECK_TYPE` (nova-behaviour.md 2.2)."""
    return bool(
        request.destination
        or request.ignore_hosts
        or request.force_hosts
        or request.force_nodes
        or CHECK_TYPE in request.hints
    )


def reduce_hosts(hosts: HostTable, request: Request) -> Reduction:
    """Return the hosts that the destination and the ignored and forced hosts of a request allow.

    The destination and `force_nodes` are case-sensitive; `ignore_hosts` and `force_hosts` are not,
    as in Nova. If both force lists are given, a host must be in both.
    """
    named: list[Restriction] = []
    if request.destination is not None:
        rows = _destined(hosts, request.destination)
        named.append(Restriction("requested destination", _only(rows, len(hosts))))
    if request.ignore_hosts:
        named.append(Restriction("ignored hosts", ~_named(hosts, request.ignore_hosts)))
    if request.force_hosts:
        forced = _named(hosts, request.force_hosts)
        named.append(Restriction("forced hosts", forced, forces=True))
    if request.force_nodes:
        nodes = {row for node in request.force_nodes for row in hosts.host_names.of_node(node)}
        named.append(Restriction("forced nodes", _only(nodes, len(hosts)), forces=True))
    # The column belongs to the table and is copied, because restrictions are applied in place.
    mask = hosts.alive.copy()
    for one in named:
        mask &= one.allows
    return Reduction(mask, tuple(named), request.hints.get(CHECK_TYPE, ()))


def _destined(hosts: HostTable, wanted: Destination) -> list[int]:
    rows = hosts.host_names.of_name(wanted.host)
    return [row for row in rows if not wanted.node or hosts.node(row) == wanted.node]


def _named(hosts: HostTable, names: Iterable[str]) -> Mask:
    wanted = {name.casefold() for name in names}
    rows = [row for name in wanted for row in hosts.host_names.of_folded_name(name)]
    return _only(rows, len(hosts))


def _only(rows: Iterable[int], count: int) -> Mask:
    mask = np.zeros(count, dtype=np.bool_)
    mask[list(rows)] = True
    return mask
