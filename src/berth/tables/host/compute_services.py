"""Compute services, stored in the columns of their hosts where those suffice."""

from dataclasses import replace

from berth.domain.compute.host import NO_AUDIT, Service
from berth.domain.inventory.resources import AMOUNT_MAX
from berth.tables.columnar.host_names import HostNames
from berth.tables.host.host_columns import HostColumns


class ComputeServices:
    """Services by host name.

    The columns of a service's hosts hold all fields of a plain service. A service is also stored as
    a record if it has no host in the table, or if the columns cannot hold one of its fields: a
    disabled reason, attestations, audit notices, failures by tenant, a failure level, or a count
    out of range.
    """

    def __init__(self, columns: HostColumns, names: HostNames) -> None:
        self._columns = columns
        self._names = names
        self._kept: dict[str, Service] = {}

    def get(self, name: str) -> Service | None:
        """Return the service of the host with the given name, or None if it has none."""
        kept = self._kept.get(name)
        if kept is not None:
            return kept
        row = next(iter(self._names.of_name(name)), None)
        return None if row is None else self._columns.service(row, name)

    def put(self, service: Service) -> frozenset[int]:
        """Set a service, and return the rows of its hosts."""
        rows = self._names.of_name(service.host)
        self._keep(service, is_needed=not rows or not _is_plain(service))
        for row in rows:
            self._columns.put_service(row, service, self._names.node(row))
        return rows

    def remove(self, name: str) -> frozenset[int]:
        """Remove a service, and return the rows of its hosts."""
        self._kept.pop(name, None)
        rows = self._names.of_name(name)
        for row in rows:
            self._columns.put_service(row, None, self._names.node(row))
        return rows

    def put_seen(self, name: str, at_s: float) -> frozenset[int]:
        """Set the time of a service's last heartbeat, in Unix seconds, and return its rows.

        An unknown service is ignored; the result is then empty.
        """
        kept = self._kept.get(name)
        if kept is not None:
            self._kept[name] = replace(kept, last_seen_s=at_s)
        rows = self._names.of_name(name)
        last_seen_s, is_served = self._columns.last_seen_s, self._columns.is_served
        # A heartbeat may arrive before the record of its service, or after its removal.
        seen = frozenset(row for row in rows if is_served.item(row))
        for row in seen:
            last_seen_s[row] = at_s
        return seen

    def attach_row(self, row: int, name: str, node: str) -> None:
        """Set the service columns of a row that is about to get a host name."""
        service = self.get(name)
        if service is not None:
            self._keep(service, is_needed=not _is_plain(service))
        self._columns.put_service(row, service, node)

    def detach_row(self, row: int) -> None:
        """Store the service of a row that is about to lose its host name, if no other row has it.

        Call this while the row still has the name.
        """
        name = self._names.name(row)
        # The columns of the row will be cleared, but the service still exists in the ledger.
        if name not in self._kept and len(self._names.of_name(name)) == 1:
            service = self._columns.service(row, name)
            if service is not None:
                self._kept[name] = service

    def _keep(self, service: Service, *, is_needed: bool) -> None:
        if is_needed:
            self._kept[service.host] = service
        else:
            self._kept.pop(service.host, None)


def _is_plain(service: Service) -> bool:
    """Return whether the columns hold all fields of a service."""
    return (
        service.disabled_reason is None
        and not service.attestations
        and service.audit == NO_AUDIT
        and not service.build_failures
        and not service.failure_level
        and 0 <= service.failed_builds <= AMOUNT_MAX
    )
