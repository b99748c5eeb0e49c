"""Provider trees: the parts of a host that its agent reports, as records of the ledger."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from berth.domain.errors import InvalidInputError
from berth.domain.provider import Provider, child_uuid
from berth.domain.record import Kind
from berth.domain.resources import check_name
from berth.domain.write import Put, Remove, Write
from berth.ports.ledger import Records
from berth.ports.virt import ChildReport, Report

CHILDREN_MAX: Final = 1_024
"""Most parts that one host may report."""

_NAME: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,255}")


def tree_guard(root_uuid: str) -> str:
    """Return the guard of which children a host has."""
    return f"provider tree {root_uuid}"


def children_of(report: Report) -> tuple[Provider, ...]:
    """Return the child providers of a report, checked; a name always gives the same uuid.

    Raises:
        InvalidInputError: too many, a bad name or the same one twice, a parent that is not there
            or a ring of parents, or a bad name of a class or trait.
    """
    root = report.provider.uuid
    named = {child.name: child for child in report.children}
    where = f"host {report.host.name}: children"
    if len(report.children) > CHILDREN_MAX:
        raise InvalidInputError(where, f"{len(report.children)} are above {CHILDREN_MAX}")
    if len(named) < len(report.children):
        raise InvalidInputError(where, "two have the same name; give each its own")
    for child in report.children:
        _check(child, named, f"{where}[{child.name[:80]!r}]")
    return tuple(
        Provider(
            uuid=child_uuid(root, child.name),
            name=child.name,
            parent_uuid=child_uuid(root, child.parent) if child.parent else root,
            inventories=child.inventories,
            traits=child.traits,
        )
        for child in report.children
    )


def _check(child: ChildReport, named: Mapping[str, ChildReport], where: str) -> None:
    if _NAME.fullmatch(child.name) is None:
        raise InvalidInputError(where, "must have a name of 1 to 255 visible characters")
    for name in (*child.inventories, *child.traits):
        check_name(name, where)
    seen = {child.name}
    above = child
    while above.parent:
        if above.parent not in named:
            raise InvalidInputError(where, f"its parent {above.parent[:80]!r} is not reported")
        if above.parent in seen:
            raise InvalidInputError(where, "is above itself; let its parents end at the host")
        above = named[above.parent]
        seen.add(above.name)


async def retire(records: Records, uuids: Iterable[str]) -> tuple[list[Write], list[str]]:
    """Do away with children that a host does not report any more.

    One of which something is used stays, with nothing more to give, until it is free.

    Returns:
        What to write, and the uuids of those that stay.
    """
    writes: list[Write] = []
    left: list[str] = []
    for uuid in uuids:
        old = await records.get(Provider, uuid)
        if old is None:
            continue
        if any(old.used.values()):
            left.append(uuid)
            writes.append(Put(Provider(uuid, old.name, old.parent_uuid, traits=old.traits)))
        else:
            writes.append(Remove(Kind.PROVIDER, uuid))
    return writes, left
