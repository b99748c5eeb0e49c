"""The list of one host, as the ledger has it."""

from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.ports.ledger import InstanceQuery, Ledger, MigrationQuery
from berth.tables.host.feed import located_resident
from berth.tables.host.orphans import LocatedResident

_PAGE = 1000


async def read_list(ledger: Ledger, host: str) -> list[LocatedResident]:
    """Read the instances and the moves that a host has, a page at a time.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    records: list[Instance | Migration] = [*await _instances(ledger, host)]
    records += await _moves(ledger, host)
    told = map(located_resident, records)
    return [one for one in told if one is not None and one.name == host]


async def read_group(ledger: Ledger, group_uuid: str) -> list[LocatedResident]:
    """Read where the members of a server group are, moves under way too.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    found: list[LocatedResident] = []
    marker: str | None = None
    while True:
        query = InstanceQuery(group_uuid=group_uuid, limit=_PAGE, marker=marker)
        members = await ledger.instances(query)
        for member in members:
            move = None
            if member.migration_uuid is not None:
                move = await ledger.get(Migration, member.migration_uuid)
            told = [located_resident(one) for one in (member, move) if one is not None]
            found += [one for one in told if one is not None]
        if len(members) < _PAGE:
            return found
        marker = members[-1].uuid


async def _instances(ledger: Ledger, host: str) -> list[Instance]:
    found: list[Instance] = []
    marker: str | None = None
    while True:
        page = await ledger.instances(InstanceQuery(host=host, limit=_PAGE, marker=marker))
        found += page
        if len(page) < _PAGE:
            return found
        marker = page[-1].uuid


async def _moves(ledger: Ledger, host: str) -> list[Migration]:
    found: list[Migration] = []
    marker: str | None = None
    while True:
        query = MigrationQuery(host=host, is_live=True, limit=_PAGE, marker=marker)
        page = await ledger.migrations(query)
        found += page
        if len(page) < _PAGE:
            return found
        marker = page[-1].uuid
