"""Writes that are decided on the provider table, and decided again after a lost race.

Names, parents and loops are looked up in the table, which catches up with the ledger first. Guards
name what was read, so the ledger rejects a decision on an outdated table. The decision is then made
again here, so clients do not see the race. A refusal by a rule raises `ProviderRefusedError`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final, NamedTuple

from berth.domain.errors import ConflictError, FeedGapError
from berth.domain.inventory.provider import Provider
from berth.domain.ledger.write import (
    Committed,
    Guard,
    Rejected,
    RejectionCause,
    ReplaceProvider,
    Unit,
)
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.services.providers.guarded_saves import rejection_text
from berth.services.replica.follower import Follower
from berth.services.replica.provider_replica import ProviderReplica
from berth.tables.provider.providers import ProviderTable

# After this many lost races the client gets an error and may retry. Each lost race means that
# another change succeeded.
_TRIES: Final = 50


def provider_guard(uuid: str) -> str:
    """Return the name of the guard on a provider's record."""
    return f"provider {uuid}"


def name_guard(name: str) -> str:
    """Return the name of the guard on the owner of a provider name."""
    return f"provider name {name}"


def class_guard(name: str) -> str:
    """Return the name of the guard on a resource class.

    It protects the existence of the class, or the fact that no provider has it.
    """
    return f"resource class {name}"


def trait_guard(name: str) -> str:
    """Return the name of the guard on a trait.

    It protects the existence of the trait, or the fact that no provider has it.
    """
    return f"trait {name}"


def class_guards(names: Iterable[str], seen: int) -> list[Guard]:
    """Return the shared guards on resource classes that a write requires to exist."""
    # The guards are shared, so writers that need a class conflict only with its removal.
    return [Guard(class_guard(name), seen, is_shared=True) for name in names]


def trait_guards(names: Iterable[str], seen: int) -> list[Guard]:
    """Return the shared guards on traits that a write requires to exist."""
    return [Guard(trait_guard(name), seen, is_shared=True) for name in names]


def row_in(table: ProviderTable, uuid: str) -> int:
    """Return the row of a provider in the provider table.

    Raises:
        ProviderRefusedError: there is no such provider.
    """
    row = table.row_of(uuid)
    if row is None:
        raise ProviderRefusedError(RefusalRule.NO_PROVIDER, uuid)
    return row


class ProviderRevision(NamedTuple):
    """A change of a provider.

    Attributes:
        record: the new record, or None if the provider stays unchanged.
        guards: the guards on what the change relies on.
        raises: the increment of the generation.
    """

    record: Provider | None
    guards: Sequence[Guard] = ()
    raises: int = 1


async def save_decided(
    follower: Follower, ledger: Ledger, decide: Callable[[int], Unit], tries: int = _TRIES
) -> int:
    """Catch up, decide and commit, and repeat this after a lost race.

    Args:
        follower: keeps the tables up to date with the ledger.
        ledger: receives the unit.
        decide: given the version of the tables, returns the writes, or no writes if there is
            nothing to do. It may raise a refusal, and is called again after each lost race.
        tries: the maximum number of attempts.

    Returns:
        The version of the unit, or that of the tables if there was nothing to do.

    Raises:
        ProviderRefusedError: a provider is missing, its generation differs from the one that the
            writes name, something is in use, or every attempt lost a race.
        UnitRejectedError: the ledger rejected the unit twice in a row for the same other reason.
        UnavailableError: the ledger cannot be reached.
        BerthError: `decide` raised it.
    """
    before = await _try_once(follower, ledger, decide)
    if isinstance(before, int):
        return before
    async with follower.contention_lock:
        for _ in range(tries - 1):
            outcome = await _try_once(follower, ledger, decide)
            if isinstance(outcome, int):
                return outcome
            # The same rejection after another catch-up is not a lost race.
            if outcome == before and not outcome.stale:
                raise UnitRejectedError(outcome)
            before = outcome
    raise ProviderRefusedError(RefusalRule.CONTENDED, "")


async def _try_once(
    follower: Follower, ledger: Ledger, decide: Callable[[int], Unit]
) -> int | Rejected:
    """Catch up, decide and commit; return the version, or a rejection that may be a lost race."""
    await follower.catch_up()
    unit = decide(follower.version)
    # If there are no writes, the tables already have what the caller wants.
    if not unit:
        return follower.version
    (outcome,) = await ledger.commit([unit])
    if isinstance(outcome, Committed):
        return outcome.version
    if not outcome.stale:
        _raise_refused(outcome)
    return outcome


def _raise_refused(outcome: Rejected) -> None:
    """Raise the refusal that corresponds to the cause of a rejection, if there is one."""
    match outcome.cause:
        case RejectionCause.MISSING:
            raise ProviderRefusedError(RefusalRule.NO_PROVIDER, outcome.subject)
        case RejectionCause.GENERATION:
            raise ProviderRefusedError(RefusalRule.GENERATION, outcome.subject)
        case RejectionCause.IN_USE:
            raise ProviderRefusedError(RefusalRule.INVENTORY_IN_USE, outcome.subject, outcome.names)
        case _:
            pass


async def provider_at_version(
    ledger: Ledger, replica: ProviderReplica, version: int, uuid: str
) -> Provider:
    """Return a provider as the unit that was committed as `version` left it.

    The current record may be newer. A client that got the newer generation could overwrite a change
    that it has not seen. The table's record is returned only if the feed has no record of the
    provider at that version.

    Raises:
        ProviderRefusedError: neither the feed nor the table has the provider.
        UnavailableError: the ledger cannot be reached.
    """
    try:
        changes = await ledger.changes(version - 1, 1)
    except FeedGapError:
        changes = []
    for change in reversed(changes):
        if isinstance(change.event, Provider) and change.event.uuid == uuid:
            return change.event
    return replica.table.record(row_in(replica.table, uuid))


class ProviderWrites:
    """The base class of services that decide on the provider table.

    Args:
        follower: keeps the table up to date with the ledger.
        ledger: receives the units.
        replica: contains the table and the known names.
        clock: provides the times in records.
    """

    def __init__(
        self, *, follower: Follower, ledger: Ledger, replica: ProviderReplica, clock: Clock
    ) -> None:
        self._follower = follower
        self._ledger = ledger
        self._replica = replica
        self._clock = clock

    async def _save(self, decide: Callable[[int], Unit]) -> int:
        """Call `save_decided` and return its version."""
        return await save_decided(self._follower, self._ledger, decide)


class ProviderRevisions(ProviderWrites):
    """Changes the record of one provider: its inventories, traits and aggregates."""

    async def revise(
        self, uuid: str, generation: int | None, change: Callable[[Provider, int], ProviderRevision]
    ) -> Provider:
        """Change a provider, and retry after lost races.

        Args:
            uuid: the provider.
            generation: the generation that the client has seen, or None for any.
            change: returns the revision, from the old record and the table's version. It may raise
                a refusal.

        Returns:
            The provider as this change left it, or as it was if nothing changed. Its usage may be
            missing.

        Raises:
            ProviderRefusedError: there is no such provider, its generation differs, it is in use,
                `change` refuses, or every attempt lost a race.
            UnitRejectedError: the ledger rejected the change twice in a row for another reason.
            UnavailableError: the ledger cannot be reached.
        """
        now_s = self._clock.now_s()
        known: Provider | None = None

        def decide(seen: int) -> Unit:
            nonlocal known
            table = self._replica.table
            row = row_in(table, uuid)
            if generation is not None and table.generations.item(row) != generation:
                raise ProviderRefusedError(RefusalRule.GENERATION, uuid)
            record, guards, raises = change(table.base_record(row), seen)
            if record is None:
                known = table.record(row)
                return ()
            record = replace(record, updated_at_s=now_s)
            # A known generation makes the whole new record known, so it need not be read.
            known = None
            if generation is not None:
                known = replace(record, generation=generation + raises)
            return (
                Guard(provider_guard(uuid), seen),
                *guards,
                ReplaceProvider(record, generation, raises),
            )

        version = await self._save(decide)
        return known or await provider_at_version(self._ledger, self._replica, version, uuid)


class RefusalRule(StrEnum):
    """The rule by which a change was refused."""

    NO_PROVIDER = "no such provider"
    UUID_TAKEN = "another provider has the uuid"
    NAME_TAKEN = "another provider has the name"
    NO_NAME = "the provider has no name"
    NO_PARENT = "no such parent provider"
    OWN_PARENT = "a provider cannot be its own parent"
    MOVES = "the provider already has a parent and cannot be moved"
    BECOMES_ROOT = "the provider has a parent and cannot become a root"
    LOOP = "the new parent is a descendant of the provider"
    HAS_CHILDREN = "the provider has children"
    HAS_ALLOCATIONS = "the provider is in use"
    GENERATION = "the provider has changed since it was read"
    NO_CLASS = "no such resource class"
    NO_INVENTORY = "the provider has no inventory of the class"
    INVENTORY_EXISTS = "the provider already has an inventory of the class"
    INVENTORY_IN_USE = "the class is in use"
    CLASS_EXISTS = "the resource class already exists"
    CLASS_IS_STANDARD = "the resource class is a standard one"
    CLASS_IN_USE = "a provider has the resource class"
    CLASS_IS_SPREAD = "too many providers have the resource class"
    NO_TRAIT = "no such trait"
    TRAIT_IS_STANDARD = "the trait is a standard one"
    TRAIT_IN_USE = "a provider has the trait"
    CONTENDED = "too many concurrent changes; try again"


class ProviderRefusedError(ConflictError):
    """A change was refused, and nothing was changed.

    Args:
        why: the rule that refused it.
        subject: the uuid of the provider, or the name of the class or trait; empty if the rule is
            about none of these.
        names: the resource classes or traits that caused the refusal, if there are several.
    """

    def __init__(self, why: RefusalRule, subject: str, names: tuple[str, ...] = ()) -> None:
        about = ", ".join(names) or subject
        super().__init__(f"{why}: {about}" if about else str(why))
        self.why = why
        self.subject = subject
        self.names = names


class UnitRejectedError(ConflictError):
    """The ledger rejected a unit twice in a row, for a reason that has no `RefusalRule`.

    Args:
        rejected: the rejection.
    """

    def __init__(self, rejected: Rejected) -> None:
        super().__init__(rejection_text(rejected))
        self.rejected = rejected
