"""Periodic host reports, of which only changes reach the ledger.

Most periodic reports contain nothing new. Each report is therefore first compared with the host
table of this process, and only a report that differs is registered in the ledger.
"""

from collections.abc import Sequence
from dataclasses import replace

from berth.domain.compute.host import Host
from berth.domain.inventory.resources import Inventory
from berth.ports.virt import HostReport
from berth.services.fleet.allocation_ratios import AllocationRatios
from berth.services.fleet.hosts import Hosts
from berth.services.fleet.report_checks import check_report, check_uuid
from berth.services.replica.replica import Replica
from berth.tables.host.hosts import HostTable


class HostReports:
    """Registers the reports of running agents that differ from the host table.

    A host that is removed while its agent runs stays removed until the agent restarts.

    Args:
        hosts: registers hosts in the ledger.
        replica: contains the host table.
        ratios: the allocation ratios that apply to reports.
    """

    def __init__(self, hosts: Hosts, replica: Replica, ratios: AllocationRatios) -> None:
        self._hosts = hosts
        self._replica = replica
        self._ratios = ratios
        # A digest of the parts of a report that are not compared with the table, by host uuid.
        self._reported: dict[str, int] = {}

    async def report(self, reports: Sequence[HostReport]) -> list[str]:
        """Register the hosts whose reports differ from the host table.

        A report also differs if this process's settings force an allocation ratio other than that
        in the table; registering the report restores the forced one.

        Returns:
            The names of the registered hosts.

        Raises:
            InvalidInputError: see `Hosts.register`.
            ConflictError: see `Hosts.register`; or the UUID in a report is another host's.
            UnavailableError: the ledger cannot be reached; the report must be repeated.
        """
        for one in reports:
            check_report(one)
        news = [one for one in reports if self._is_news(one)]
        if news:
            await self._hosts.register(news)
        for one in news:
            self._reported[one.host.uuid] = _digest(one)
        return [one.host.name for one in news]

    def _is_news(self, report: HostReport) -> bool:
        table, uuid = self._replica.hosts, report.host.uuid
        row = table.row_of(uuid)
        # An operator has removed the host, and a periodic report must not bring it back.
        if row is None:
            return False
        check_uuid(report, table.host(row))
        digest = _digest(report)
        if self._reported.setdefault(uuid, digest) != digest:
            return True
        return not self._is_known(table, row, report)

    def _is_known(self, table: HostTable, row: int, report: HostReport) -> bool:
        known: Host = table.host(row)
        settled = self._ratios.settled(report, known, table.memberships.of_host(known.name))
        if replace(settled.host, child_uuids=known.child_uuids) != known:
            return False
        if not settled.provider.traits <= table.traits.get(row):
            return False
        has = table.inventories(row)
        reported = settled.provider.inventories.items()
        return all(name in has and _terms(one) == _terms(has[name]) for name, one in reported)


def _terms(inventory: Inventory) -> tuple[float, ...]:
    return (
        inventory.total,
        inventory.reserved,
        inventory.min_unit,
        inventory.unit_max,
        inventory.step_size,
        inventory.allocation_ratio,
    )


def _digest(report: HostReport) -> int:
    """Return a hash of a host's traits, resource classes and children, for this process only."""
    parts = tuple(
        (one.name, one.parent, one.traits, tuple(sorted(one.inventories.items(), key=_name)))
        for one in report.children
    )
    return hash((report.provider.traits, frozenset(report.provider.inventories), parts))


def _name(item: tuple[str, Inventory]) -> str:
    return item[0]
