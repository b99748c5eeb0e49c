"""Deciding on the provider table what to write, and deciding anew when somebody was faster.

Names, parents and loops are looked up in the table, which is caught up with the ledger first. What
was read is named by guards, so a decision on a table that has changed meanwhile is refused by the
ledger, and made again here: no client ever hears of it.
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
from berth.services.replica.follower import Follower
from berth.services.replica.provider_replica import ProviderReplica
from berth.tables.provider.providers import ProviderTable

_TRIES: Final = 50


def provider_guard(uuid: str) -> str:
    """Return the guard of all that is said of a provider."""
    return f"provider {uuid}"


def name_guard(name: str) -> str:
    """Return the guard of who has a name."""
    return f"provider name {name}"


def class_guard(name: str) -> str:
    """Return the guard of a resource class: that there is one, or that nobody has any."""
    return f"resource class {name}"


def trait_guard(name: str) -> str:
    """Return the guard of a trait: that there is one, or that nobody has it."""
    return f"trait {name}"


def class_guards(names: Iterable[str], seen: int) -> list[Guard]:
    """Name resource classes that a write needs to be there."""
    return [Guard(class_guard(name), seen, is_shared=True) for name in names]


def trait_guards(names: Iterable[str], seen: int) -> list[Guard]:
    """Name traits that a write needs to be there."""
    return [Guard(trait_guard(name), seen, is_shared=True) for name in names]


def row_in(table: ProviderTable, uuid: str) -> int:
    """Return the row of a provider.

    Raises:
        ProviderRefusedError: it is not there.
    """
    row = table.row_of(uuid)
    if row is None:
        raise ProviderRefusedError(RefusalRule.NO_PROVIDER, uuid)
    return row


class ProviderRevision(NamedTuple):
    """What is to be said of a provider.

    Attributes:
        record: None when it is to stay as it is.
        guards: what the change relies on.
        raises: by how much the generation goes up.
    """

    record: Provider | None
    guards: Sequence[Guard] = ()
    raises: int = 1


async def save_decided(
    follower: Follower, ledger: Ledger, decide: Callable[[int], Unit], tries: int = _TRIES
) -> int:
    """Catch up, decide, commit; when somebody else was faster, do it again.

    Args:
        follower: keeps the tables true to the ledger.
        ledger: where to.
        decide: returns what to write, from the tables as of the version it is given; no writes say
            that nothing is to be done. It may refuse, and is called anew after each race.
        tries: how often.

    Returns:
        The version of the unit; that of the tables when nothing was to be done.

    Raises:
        ProviderRefusedError: the generation differs from the one that the writes name, something is
            in use, or every try lost a race.
        UnitRejectedError: another refusal of the ledger, the same twice.
        UnavailableError: the ledger cannot be reached.
        BerthError: whatever `decide` raises.
    """
    before = await _try_once(follower, ledger, decide)
    if isinstance(before, int):
        return before
    async with follower.contention_lock:
        for _ in range(tries - 1):
            outcome = await _try_once(follower, ledger, decide)
            if isinstance(outcome, int):
                return outcome
            if outcome == before and not outcome.stale:
                raise UnitRejectedError(outcome)
            before = outcome
    raise ProviderRefusedError(RefusalRule.CONTENDED, "the record")


async def _try_once(
    follower: Follower, ledger: Ledger, decide: Callable[[int], Unit]
) -> int | Rejected:
    """Catch up, decide and commit; return the version, or why it was refused if that is odd."""
    await follower.catch_up()
    unit = decide(follower.version)
    if not unit:
        return follower.version
    (outcome,) = await ledger.commit([unit])
    if isinstance(outcome, Committed):
        return outcome.version
    if not outcome.stale:
        _raise_refused(outcome)
    return outcome


def _raise_refused(outcome: Rejected) -> None:
    """Turn a refusal into an error where its cause says which."""
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
    """Return a provider as the unit of a version left it.

    Not as it is now: whoever is told the generation of a later change would take that one for seen.
    Only when the feed has the version no more, it is returned as the table has it.

    Raises:
        ProviderRefusedError: it is in neither.
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
    """What all who decide on the provider table have in common.

    Args:
        follower: keeps the table true to the ledger.
        ledger: where to.
        replica: has the table, and the names that are known.
        clock: tells when something was changed.
    """

    def __init__(
        self, *, follower: Follower, ledger: Ledger, replica: ProviderReplica, clock: Clock
    ) -> None:
        self._follower = follower
        self._ledger = ledger
        self._replica = replica
        self._clock = clock

    async def _save(self, decide: Callable[[int], Unit]) -> int:
        """See `save_decided`."""
        return await save_decided(self._follower, self._ledger, decide)


class ProviderRevisions(ProviderWrites):
    """Changes one provider's record: what it has, and what it is said to be."""

    async def revise(
        self, uuid: str, generation: int | None, change: Callable[[Provider, int], ProviderRevision]
    ) -> Provider:
        """Change a provider, once whatever comes between.

        Args:
            uuid: of the provider.
            generation: the one that the client has seen; None: whatever it is.
            change: returns what is to be said of the provider, which it gets with the version
                that it is true of. It may refuse.

        Returns:
            The provider as this change left it, or as it was if nothing was to be changed. What is
            used of it may be missing.

        Raises:
            ProviderRefusedError: there is no such provider, its generation differs, it is in
                use, or `change` refuses.
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
            # With the generation that it is at, what the ledger makes of it is known, too.
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
    """The rule that stood in the way."""

    NO_PROVIDER = "no such provider"
    UUID_TAKEN = "another provider has the uuid"
    NAME_TAKEN = "another provider has the name"
    NO_NAME = "a provider needs a name"
    NO_PARENT = "there is no such parent"
    OWN_PARENT = "a provider cannot be its own parent"
    MOVES = "the provider has a parent already and may not be moved"
    BECOMES_ROOT = "the provider has a parent and may not become a root"
    LOOP = "the new parent is below the provider"
    HAS_CHILDREN = "the provider has children"
    HAS_ALLOCATIONS = "something of the provider is used"
    GENERATION = "the provider has changed since"
    NO_CLASS = "no such resource class"
    NO_INVENTORY = "the provider has nothing of the class"
    INVENTORY_EXISTS = "the provider has the class already"
    INVENTORY_IN_USE = "something of the class is used"
    CLASS_EXISTS = "there is such a resource class already"
    CLASS_IS_STANDARD = "the resource class is a standard one"
    CLASS_IN_USE = "a provider has the resource class"
    CLASS_IS_SPREAD = "too many providers have the resource class"
    NO_TRAIT = "no such trait"
    TRAIT_IS_STANDARD = "the trait is a standard one"
    TRAIT_IN_USE = "a provider has the trait"
    CONTENDED = "others keep changing it; try again"


class ProviderRefusedError(ConflictError):
    """A change is refused, and nothing was changed.

    Args:
        why: the rule.
        subject: uuid of the provider, or name of the class or trait, it is about.
        names: resource classes or traits that stood in the way, if there are several.
    """

    def __init__(self, why: RefusalRule, subject: str, names: tuple[str, ...] = ()) -> None:
        super().__init__(f"{why}: {', '.join(names) or subject}")
        self.why = why
        self.subject = subject
        self.names = names


class UnitRejectedError(ConflictError):
    """The ledger refuses a unit, the same twice, for something else than what was decided on.

    Args:
        rejected: its answer.
    """

    def __init__(self, rejected: Rejected) -> None:
        super().__init__(rejected.conflict or str(rejected.shortages))
        self.rejected = rejected
