"""The capabilities that a zone reports to its parents, limited to what its settings allow."""

from collections.abc import Mapping, Sequence
from math import isfinite

import numpy as np

from berth.domain.errors import InvalidInputError
from berth.domain.zones.zone import ZoneInfo
from berth.ports.clock import Clock
from berth.services.replica.replica import Replica

VALUE_KINDS = ("free", "total", "metric", "stat")


class CapabilityReport:
    """Reports a zone's capabilities, and the ranges of values over its hosts in service.

    Args:
        name: the zone's name.
        capabilities: fixed values from the settings (`hypervisor`: `kvm`, `qemu`).
        told: the names of host values that may be reported: `free.CLASS`, `total.CLASS`,
            `metric.NAME` or `stat.NAME`.
        replica: provides the hosts.
        clock: provides the time of day.
        stale_s: seconds without a heartbeat after which a host is left out.

    Raises:
        InvalidInputError: a name in `told` does not have one of these forms.
    """

    def __init__(
        self,
        *,
        name: str,
        capabilities: Mapping[str, tuple[str, ...]],
        told: Sequence[str],
        replica: Replica,
        clock: Clock,
        stale_s: float = 180.0,
    ) -> None:
        for one in told:
            kind, point, rest = one.partition(".")
            if kind not in VALUE_KINDS or not point or not rest:
                forms = ", ".join(f"{kind}.NAME" for kind in VALUE_KINDS)
                reason = f"{one!r} must have one of the forms {forms}"
                raise InvalidInputError("zones.told_capabilities", reason)
        self._name = name
        self._capabilities = capabilities
        self._told = told
        self._replica = replica
        self._clock = clock
        self._stale_s = stale_s

    def info(self) -> ZoneInfo:
        """Return the current report, without the names for which no host has a finite value."""
        # Without names the hosts are not read at all, so that the time of an answer does not
        # disclose how many there are.
        rows = self._rows() if self._told else []
        ranges: dict[str, tuple[float, float]] = {}
        for name in self._told if rows else ():
            values = [value for value in self._values(name, rows) if isfinite(value)]
            if values:
                ranges[name] = (min(values), max(values))
        return ZoneInfo(self._name, self._capabilities, ranges)

    def _rows(self) -> list[int]:
        """Return the rows of enabled hosts with a recent heartbeat that are not forced down."""
        hosts, oldest_s = self._replica.hosts, self._clock.now_s() - self._stale_s
        found: list[int] = []
        for row in hosts.alive_rows().tolist():
            service = hosts.services.get(hosts.name(row))
            is_fresh = service is not None and service.last_seen_s >= oldest_s
            if service is not None and is_fresh and not (service.disabled or service.forced_down):
                found.append(row)
        return found

    def _values(self, name: str, rows: list[int]) -> list[float]:
        kind, _, rest = name.partition(".")
        hosts = self._replica.hosts
        if kind == "metric":
            at = np.array(rows, dtype=np.intp)
            return [float(value) for value in hosts.metrics.values(rest, at).tolist()]
        if kind == "stat":
            return [_number(hosts.host(row).stats.get(rest)) for row in rows]
        columns = hosts.resource(rest)
        if columns is None:
            return []
        column = columns.free if kind == "free" else columns.total
        return [float(max(0, column[row])) for row in rows if columns.total[row]]


def _number(text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        return float("nan")
