"""Telling capabilities: what a zone says of itself, and no more than its settings allow."""

from collections.abc import Mapping, Sequence
from math import isfinite

import numpy as np

from berth.domain.errors import InvalidInputError
from berth.domain.zones.zone import ZoneInfo
from berth.ports.clock import Clock
from berth.services.replica.replica import Replica

VALUE_KINDS = ("free", "total", "metric", "stat")


class CapabilityReport:
    """Rolls up what hosts report: the least and the greatest value over those that are in use.

    Args:
        name: of this zone.
        capabilities: what the settings say of it (`hypervisor`: `kvm`, `qemu`).
        told: the names of values that may be told: `free.CLASS`, `total.CLASS`, `metric.NAME` or
            `stat.NAME`.
        replica: has the hosts.
        clock: tells the time.
        stale_s: seconds without a heartbeat after which a host is left out.

    Raises:
        InvalidInputError: one of `told` has another form.
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
                reason = f"{one!r} must be one of {forms}"
                raise InvalidInputError("zones.told_capabilities", reason)
        self._name = name
        self._capabilities = capabilities
        self._told = told
        self._replica = replica
        self._clock = clock
        self._stale_s = stale_s

    def info(self) -> ZoneInfo:
        """Return what the zone tells now; a name that no host reports is left out."""
        # Where nothing is told, the time that it takes says nothing of the number of hosts, too.
        rows = self._rows() if self._told else []
        ranges: dict[str, tuple[float, float]] = {}
        for name in self._told if rows else ():
            values = [value for value in self._values(name, rows) if isfinite(value)]
            if values:
                ranges[name] = (min(values), max(values))
        return ZoneInfo(self._name, self._capabilities, ranges)

    def _rows(self) -> list[int]:
        """Return the rows of hosts that are enabled and fresh."""
        hosts, oldest_s = self._replica.hosts, self._clock.now_s() - self._stale_s
        found: list[int] = []
        for row in hosts.alive_rows().tolist():
            service = hosts.service(hosts.name(row))
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
