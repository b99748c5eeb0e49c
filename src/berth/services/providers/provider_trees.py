"""Merges a host and its child providers, as the agent reports them, into the ledger's trees.

Clients of the Placement API write the same records. A report therefore replaces what the agent
reported before, and keeps what clients have set.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from berth.domain.compute.host import Host
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.provider import Provider, child_uuid
from berth.domain.inventory.resources import check_name, check_reported
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Put, Remove, Write
from berth.ports.virt import ChildReport, HostReport

# The maximum number of child providers that one host may report.
CHILDREN_MAX: Final = 1_024

# Placement's limit of 255 characters, without control characters and line separators.
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,255}")


def tree_guard(root_uuid: str) -> str:
    """Return the name of the guard on the structure of a provider tree."""
    return f"provider tree {root_uuid}"


def children_of(report: HostReport) -> tuple[Provider, ...]:
    """Return the validated child providers of a report.

    The uuid of a child is derived from its host and its name. Its provider name begins with the
    node, because provider names are unique.

    Raises:
        InvalidInputError: the report has too many children, an invalid or repeated name, an unknown
            parent, a loop of parents, or an invalid class or trait name.
    """
    root = report.provider.uuid
    named = {child.name: child for child in report.children}
    where = f"host {report.host.name}: children"
    if len(report.children) > CHILDREN_MAX:
        raise InvalidInputError(
            where,
            f"{len(report.children)} children exceed the maximum of {CHILDREN_MAX}; report fewer",
        )
    if len(named) < len(report.children):
        names = [child.name for child in report.children]
        twice = next(name for name in names if names.count(name) > 1)
        reason = f"two children have the same name {twice[:80]!r}; give each its own"
        raise InvalidInputError(where, reason)
    for child in report.children:
        _check(child, named, f"{where}[{child.name[:80]!r}]")
    return tuple(
        Provider(
            uuid=child_uuid(root, child.name),
            name=_prefix(report.host) + child.name,
            parent_uuid=child_uuid(root, child.parent) if child.parent else root,
            inventories=child.inventories,
            traits=child.traits,
        )
        for child in report.children
    )


def check_inventories(report: HostReport) -> None:
    """Check the inventories that an agent reports for its host and the child providers.

    Raises:
        InvalidInputError: one of the inventories is invalid; see `check_reported`.
    """
    parts = (child.inventories for child in report.children)
    for inventories in (report.provider.inventories, *parts):
        for inventory in inventories.values():
            check_reported(inventory)


def _check(child: ChildReport, named: Mapping[str, ChildReport], where: str) -> None:
    if _NAME.fullmatch(child.name) is None:
        raise InvalidInputError(where, "must have a name of 1 to 255 visible characters")
    for name in (*child.inventories, *child.traits):
        check_name(name, where)
    # A chain of parents that loops would never reach the host.
    seen = {child.name}
    above = child
    while above.parent:
        if above.parent not in named:
            raise InvalidInputError(
                where, f"the parent {above.parent[:80]!r} is missing from the report; add it"
            )
        if above.parent in seen:
            reason = f"its parents form a loop at {above.parent[:80]!r}; end the chain at the host"
            raise InvalidInputError(where, reason)
        above = named[above.parent]
        seen.add(above.name)


def part_name(host: Host, provider: Provider) -> str:
    """Return the name of a child provider as the host's agent reported it."""
    return provider.name.removeprefix(_prefix(host))


def _prefix(host: Host) -> str:
    return f"{host.node}:"


class ProviderNames:
    """Assigns unique names to providers."""

    def __init__(self, providers: Iterable[Provider]) -> None:
        self._owners: dict[str, str] = {}
        for provider in providers:
            self._owners.setdefault(provider.name, provider.uuid)

    def of(self, reported: Provider, stored: Provider | None) -> str:
        """Assign a name to a reported provider and return it; a taken name gets the uuid appended.

        A stored provider keeps its name if it is the reported one, possibly with the uuid appended.
        """
        if stored is not None and is_named(stored, reported):
            return stored.name
        owner = self._owners.setdefault(reported.name, reported.uuid)
        return reported.name if owner == reported.uuid else _told_apart(reported)


def is_named(stored: Provider, reported: Provider) -> bool:
    """Return whether a stored provider has the reported name, with or without its uuid appended."""
    return stored.name in {reported.name, _told_apart(reported)}


def _told_apart(provider: Provider) -> str:
    return f"{provider.name} ({provider.uuid})"


def merged(
    reported: Provider, stored: Provider | None, name: str, parent_uuid: str | None, now_s: float
) -> Provider:
    """Return a provider as it is after a report.

    Args:
        reported: the agent's report; the agent owns its traits and inventories.
        stored: the ledger's record, with what clients of the Placement API have set, or None for a
            new one.
        name: see `ProviderNames.of`.
        parent_uuid: see `StoredProviders.parents_after`.
        now_s: the current time in Unix seconds.
    """
    new = replace(
        reported,
        name=name,
        parent_uuid=parent_uuid,
        owned_traits=reported.traits,
        owned_classes=frozenset(reported.inventories),
        owned_parent_uuid=reported.parent_uuid,
        created_at_s=now_s,
        updated_at_s=now_s,
    )
    if stored is None:
        return new
    # Records of older versions do not name owners; the agent then owns everything.
    owned_classes = stored.inventories if stored.owned_classes is None else stored.owned_classes
    owned_traits = stored.traits if stored.owned_traits is None else stored.owned_traits
    foreign = {
        name: inventory
        for name, inventory in stored.inventories.items()
        # An inventory in use that its agent no longer reports has a total of 0 and is dropped once
        # it is free.
        if name not in owned_classes and inventory.total
    }
    return replace(
        new,
        inventories={**foreign, **reported.inventories},
        traits=reported.traits | (stored.traits - owned_traits),
        aggregates=stored.aggregates,
        created_at_s=stored.created_at_s,
    )


def _from_top(reported: Sequence[Provider]) -> list[Provider]:
    """Return the first provider and all its descendants, each after its parent."""
    below: dict[str | None, list[Provider]] = {}
    for one in reported[1:]:
        below.setdefault(one.parent_uuid, []).append(one)
    ordered = list(reported[:1])
    for one in ordered:
        ordered.extend(below.get(one.uuid, ()))
    return ordered


class StoredProviders:
    """Providers in the ledger: all of them, or only those that a registration needs.

    Attributes:
        by_uuid: the providers.
        names: assigns names that no other provider has.
    """

    def __init__(self, providers: Iterable[Provider]) -> None:
        self.by_uuid = {one.uuid: one for one in providers}
        self.names = ProviderNames(self.by_uuid.values())
        # The index is built on first use, because most registrations change no tree.
        self._below: dict[str, list[str]] | None = None

    def below(self, uuid: str) -> Sequence[str]:
        """Return the uuids of a provider's children."""
        if self._below is None:
            self._below = {}
            for one in self.by_uuid.values():
                if one.parent_uuid is not None:
                    self._below.setdefault(one.parent_uuid, []).append(one.uuid)
        return self._below.get(uuid, ())

    def subtree(self, uuid: str) -> list[str]:
        """Return the uuids of a provider and its descendants; empty if it does not exist."""
        found: dict[str, None] = {}
        coming = [uuid] if uuid in self.by_uuid else []
        for one in coming:
            if one not in found:  # older versions allowed loops
                found[one] = None
                coming.extend(self.below(one))
        return list(found)

    def root_of(self, uuid: str) -> str:
        """Return the uuid of the root of a provider's tree."""
        *_, root = self._upwards(uuid, {})
        return root

    def parents_after(self, reported: Sequence[Provider]) -> dict[str, str | None]:
        """Return the parents of a host's providers after a report, by uuid.

        A provider stays where clients of the Placement API have put it until its agent reports
        another parent than before. A host's root provider, for which its agent reports no parent,
        always stays, and so does a provider that the move would put under itself.

        Args:
            reported: the host's root provider, then its child providers.
        """
        after: dict[str, str | None] = {}
        for one in _from_top(reported):
            old, above = self.by_uuid.get(one.uuid), one.parent_uuid
            there = None if old is None else old.parent_uuid
            if old is not None and above in {None, old.owned_parent_uuid}:
                above = there
            if above not in {None, there} and one.uuid in self._upwards(above, after):
                above = there
            after[one.uuid] = above
        return after

    def are_moved(self, parents: Mapping[str, str | None]) -> bool:
        """Return whether the given parents, by uuid, differ from those of stored providers."""
        there = self.by_uuid
        return any(u in there and there[u].parent_uuid != above for u, above in parents.items())

    def _upwards(self, uuid: str | None, after: Mapping[str, str | None]) -> Iterator[str]:
        """Yield a provider and its ancestors, with the parents in `after` taking precedence."""
        climbed = set[str]()
        while uuid is not None and uuid not in climbed:
            yield uuid
            climbed.add(uuid)
            stored = self.by_uuid.get(uuid)
            uuid = after.get(uuid, None if stored is None else stored.parent_uuid)

    def retire(self, uuids: Iterable[str]) -> tuple[list[Write], list[str]]:
        """Return the writes that remove children that a host no longer reports.

        A child in use stays without inventories until it is free, and so does an ancestor of a
        provider that stays.

        Args:
            uuids: the children; some may already be gone.

        Returns:
            The writes, and the uuids of the children that stay.
        """
        going = {uuid for uuid in uuids if uuid in self.by_uuid}
        staying = [uuid for uuid in going if self._must_stay(uuid, going)]
        kept = set[str]()
        while staying:
            uuid = staying.pop()
            kept.add(uuid)
            above = self.by_uuid[uuid].parent_uuid
            if above in going and above not in kept:
                staying.append(above)
        writes: list[Write] = [
            Put(replace(self.by_uuid[uuid], inventories={}, owned_classes=frozenset()))
            if uuid in kept
            else Remove(Kind.PROVIDER, uuid)
            # The uuids are sorted, so that equal reports result in equal units.
            for uuid in sorted(going)
        ]
        return writes, sorted(kept)

    def _must_stay(self, uuid: str, going: Container[str]) -> bool:
        """Return whether a child is in use, or clients have put providers under it."""
        if any(self.by_uuid[uuid].used.values()):
            return True
        return any(below not in going for below in self.below(uuid))
