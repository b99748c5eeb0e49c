"""Allocations of consumers, as clients of the Placement API claim, move and free them.

A claim is one unit that the ledger checks, so nothing is read before it and no concurrent change
makes a retry necessary. The table is read only to explain a rejection.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from berth.domain.errors import ConflictError
from berth.domain.inventory.allocation import Shortage, ShortageRule
from berth.domain.ledger.write import ConsumerUpdate, Free, Reallocate, Rejected, RejectionCause
from berth.ports.ledger import Ledger
from berth.services.replica.follower import Follower
from berth.services.replica.provider_replica import ProviderReplica

# Resource classes by provider uuid.
ClassesByProvider = Mapping[str, Iterable[str]]

_NOTHING: Final[ClassesByProvider] = {}


class AllocationRule(StrEnum):
    """The rule by which allocations were refused."""

    NO_PROVIDER = "no such provider"
    NO_CLASS = "no such resource class"
    CONSUMER_GENERATION = "the consumer has changed since it was read"
    NOT_HELD = "the consumer has no allocations"
    NO_INVENTORY = "the provider has no inventory of the class"
    UNITS = "the amount is below min_unit, above max_unit or not a multiple of step_size"
    CAPACITY = "the remaining capacity is too small"


class AllocationRefusedError(ConflictError):
    """Allocations were refused, and nothing was changed.

    Args:
        rule: the rule that refused them.
        subject: the uuid of the provider or, for rules about consumers, of the consumer; several
            providers are joined by commas.
        names: the resource classes that the rule is about.
        seen: the consumer generation that the client has seen.
        actual: the current consumer generation, or None if there is no such consumer.
    """

    def __init__(
        self,
        rule: AllocationRule,
        subject: str,
        names: tuple[str, ...] = (),
        *,
        seen: int | None = None,
        actual: int | None = None,
    ) -> None:
        super().__init__(f"{rule}: {', '.join((subject, *names))}")
        self.rule = rule
        self.subject = subject
        self.names = names
        self.seen = seen
        self.actual = actual


class AllocationService:
    """Replaces and frees the allocations of consumers.

    Args:
        follower: keeps the tables up to date with the ledger.
        ledger: checks and stores the allocations.
        replica: explains rejections.
    """

    def __init__(self, *, follower: Follower, ledger: Ledger, replica: ProviderReplica) -> None:
        self._follower = follower
        self._ledger = ledger
        self._replica = replica

    async def put(self, shares: Sequence[ConsumerUpdate]) -> None:
        """Replace the allocations of all the given consumers, or of none.

        Raises:
            AllocationRefusedError: there is no such provider, class or inventory, a consumer has
                changed, an amount does not fit its units, or capacity is short.
            ConflictError: the ledger rejected the allocations for another reason.
            UnavailableError: the ledger cannot be reached.
        """
        (outcome,) = await self._ledger.commit([(Reallocate(tuple(shares)),)])
        if isinstance(outcome, Rejected):
            await self._follower.catch_up()
            raise refusal_error(outcome, shares, self._replica)

    async def release(self, consumer_uuid: str) -> None:
        """Free all allocations of a consumer.

        Raises:
            AllocationRefusedError: the consumer has no allocations.
            UnavailableError: the ledger cannot be reached.
        """
        (outcome,) = await self._ledger.commit([(Free(consumer_uuid, must_hold=True),)])
        if isinstance(outcome, Rejected):
            raise refusal_error(outcome, (), self._replica)


def refusal_error(
    rejected: Rejected,
    shares: Sequence[ConsumerUpdate],
    replica: ProviderReplica,
    given: ClassesByProvider = _NOTHING,
) -> ConflictError:
    """Return the error for rejected allocations, about the rule that Placement checks first.

    Args:
        rejected: the ledger's rejection.
        shares: the rejected allocations.
        replica: the provider replica, which has caught up with the ledger.
        given: the resource classes that the same unit would have given to providers, by provider.

    Returns:
        An `AllocationRefusedError`, or a plain `ConflictError` for a rejection of another kind.
    """
    match rejected.cause:
        case RejectionCause.CONSUMER_GENERATION:
            seen = next(one.seen for one in shares if one.consumer.uuid == rejected.subject)
            return AllocationRefusedError(
                AllocationRule.CONSUMER_GENERATION,
                rejected.subject,
                seen=seen,
                actual=rejected.actual,
            )
        case RejectionCause.NOT_HELD:
            return AllocationRefusedError(AllocationRule.NOT_HELD, rejected.subject)
        case _ if rejected.shortages:
            return _short(rejected.shortages, shares, replica, given)
        case _:
            return ConflictError(rejected.conflict or "the ledger refused the allocations")


def _short(
    shortages: Sequence[Shortage],
    shares: Sequence[ConsumerUpdate],
    replica: ProviderReplica,
    given: ClassesByProvider,
) -> AllocationRefusedError:
    """Return the error for the shortage that Placement's checks would find first."""
    units = ShortageRule.UNITS
    odd, rules = set[tuple[str, str, int]](), dict[tuple[str, str], ShortageRule]()
    for one in shortages:
        if one.rule is units:  # the rule is about one amount; others of the class may fit
            odd.add((one.provider_uuid, one.resource_class, one.asked))
        else:
            rules[one.provider_uuid, one.resource_class] = one.rule
    asked = [
        (uuid, name, amount)
        for share in shares
        for uuid, amounts in share.allocations.items()
        for name, amount in amounts.items()
    ]
    left = {(one.provider_uuid, one.resource_class): one.left for one in shortages}
    enough = list(_enough(asked, left))
    found = [(*one[:2], units if one in odd else rules.get(one[:2])) for one in asked]
    short = [
        (uuid, name, rule)
        for (uuid, name, rule), fits in zip(found, enough, strict=True)
        if rule is not None and not (fits and rule is ShortageRule.CAPACITY)
    ]
    # Placement checks for unknown providers, then for unknown classes, then for missing
    # inventories, and then the amounts.
    for uuid, _, rule in short:
        if rule is ShortageRule.NO_PROVIDER:
            return AllocationRefusedError(AllocationRule.NO_PROVIDER, uuid)
    for uuid, name, _ in short:
        if not replica.vocabulary.classes.is_known(name):
            return AllocationRefusedError(AllocationRule.NO_CLASS, uuid, (name,))
    names = dict.fromkeys(name for _, name, _ in asked)
    bare = _bare(found, names, replica, given)
    if bare:
        # Placement lists the classes in the order of their ids.
        classes = tuple(replica.vocabulary.classes.in_order(names))
        return AllocationRefusedError(AllocationRule.NO_INVENTORY, ", ".join(bare), classes)
    uuid, name, rule = short[0]
    return AllocationRefusedError(AllocationRule[rule.name], uuid, (name,))


def _enough(
    asked: Iterable[tuple[str, str, int]], left: Mapping[tuple[str, str], int]
) -> Iterator[bool]:
    """Yield for each amount whether it fits together with the preceding amounts."""
    sums: Counter[tuple[str, str]] = Counter()
    for uuid, name, amount in asked:
        sums[uuid, name] += amount
        yield sums[uuid, name] <= left.get((uuid, name), 0)


def _bare(
    found: Iterable[tuple[str, str, ShortageRule | None]],
    names: Iterable[str],
    replica: ProviderReplica,
    given: ClassesByProvider,
) -> list[str]:
    """Return the providers that have no inventory of any requested class."""
    has: dict[str, bool] = {}
    for uuid, _, rule in found:
        has[uuid] = has.get(uuid, False) or rule is not ShortageRule.NO_INVENTORY
    return [
        uuid
        for uuid, is_there in has.items()
        if not (is_there or _has_any(replica, uuid, names, given))
    ]


def _has_any(
    replica: ProviderReplica, uuid: str, names: Iterable[str], given: ClassesByProvider
) -> bool:
    """Return whether a provider has any of the classes; True if the table does not show it."""
    row = replica.table.row_of(uuid)
    if row is None:
        return True
    has = replica.table.base_record(row).inventories.keys() | given.get(uuid, ())
    return not has.isdisjoint(names)
