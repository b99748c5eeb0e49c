"""The engine: the cache of request profiles for one policy on one table."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from itertools import count
from typing import Final

import numpy as np

from berth.domain.compute.decision import ScoredHost
from berth.scheduling.engine.engine_context import EngineContext, rows_by_name
from berth.scheduling.engine.keys import parts_of, paths_of
from berth.scheduling.engine.measures import NonFiniteValueError
from berth.scheduling.engine.needs_cache import NeedsCache
from berth.scheduling.engine.readings import Readings
from berth.scheduling.engine.request_profile import RequestProfile, StaleProfileError
from berth.scheduling.engine.stages import FILTERS_MAX
from berth.scheduling.engine.timed import TimedVerdicts
from berth.scheduling.evaluation.assignments import Assigner
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.evaluation.weighing import is_off, values_of
from berth.scheduling.rules.rule import Filter, Query, Weigher
from berth.tables.columnar.journal import GROUPS
from berth.tables.host.hosts import HostTable

# All cached profiles together have at most this many rows. At about 11 bytes per row and profile,
# this bounds the cache to some 370 MB, unless `_PROFILES_MIN` profiles of a very large fleet take
# more.
_KEPT_ROWS: Final = 1 << 25

# The cache keeps at most this many profiles, however small the fleet.
_PROFILES_MAX: Final = 512

# The cache keeps up to this many profiles, however large the fleet: with fewer, it would evaluate
# nearly every request in full.
_PROFILES_MIN: Final = 8

# At most this many profiles are kept for keys that were requested once. One-off requests (an
# unusual hint, for example) would otherwise evict profiles that are requested again.
_PROBATION_MAX: Final = 4

# The engine remembers this many keys as requested before; a key costs far less than a profile.
_KEYS_MAX: Final = 4_096

# A table keeps the engines of at most this many policies, so that the engine of a policy that was
# replaced by a reload is eventually freed.
_POLICIES_MAX: Final = 4

_CACHE: Final = "engine"


class Engine:
    """Creates, updates and caches the request profiles of one table under one policy.

    Creating a profile costs no more than a full evaluation, so a profile is created at the first
    request with its key. Until the second request with this key, the profile is on probation, and
    only the newest few profiles on probation are kept.

    Attributes:
        policy: the policy.
        assigner: the assigner of the policy's filters.
    """

    def __init__(self, hosts: HostTable, policy: Policy) -> None:
        self.policy = policy
        self.assigner = Assigner(policy.filters)
        self._hosts = hosts
        self._membership_epoch = hosts.membership_epoch
        self._profiles: OrderedDict[Hashable, RequestProfile] = OrderedDict()
        self._probation: OrderedDict[Hashable, RequestProfile] = OrderedDict()
        self._seen_keys: OrderedDict[Hashable, None] = OrderedDict()
        self._timed: dict[int, TimedVerdicts] = {}
        rules: tuple[Filter | Weigher, ...] = (*policy.filters, *policy.weighers)
        self._is_supported = len(policy.filters) <= FILTERS_MAX
        self._uncacheable = [rule for rule in rules if not _is_cacheable(rule)]
        kept = (one for one in policy.weighers if _is_cacheable(one))
        self._readings = Readings(hosts, kept, policy.normalisation)
        self._context = self._make_context()
        paths = paths_of(rules)
        self._flavor_parts = parts_of(path for path in paths if _is_of_flavor_or_image(path))
        self._other_parts = parts_of(path for path in paths if not _is_of_flavor_or_image(path))
        self._flavor_keys = NeedsCache[int]()
        self._numbers: dict[Hashable, int] = {}
        self._next = count()
        self._switched = [one for one in policy.weighers if not one.multiplier]

    def profile_of(
        self, query: Query, instances: int, known: RequestProfile | None = None
    ) -> RequestProfile | None:
        """Return the up-to-date profile of a request, or None when it must be evaluated in full.

        The result is None if the policy has more than `FILTERS_MAX` filters, if an uncacheable rule
        applies, if the request has no key, or if a value or score is not finite. It is also None if
        the request has several instances and a filter must be evaluated once for all of them or
        reads the hosts of their server group.

        Args:
            query: the instance to be placed.
            instances: the number of instances of the request.
            known: the profile that was returned for an earlier instance of the same request, if
                neither instance was on a host before the request; otherwise None.

        Raises:
            NonFiniteValueError: `known` could not be updated, because a value or score is not
                finite.
            InvalidInputError: a rule rejects the request (an invalid hint, for example).
        """
        if not self._is_supported or (self._uncacheable and self._concerns_uncacheable_rule(query)):
            return None
        if known is not None:
            # The same request has the same key, and computing a key takes longer than most updates.
            self._readings.catch_up(query)
            if self._is_current(known, query):
                return known
        try:
            key = self._key(query)
        except (AttributeError, TypeError):
            return None
        # Readings are updated before profiles, because a profile checks their epoch before it uses
        # their lines. Timed verdicts are also updated first, because a profile reads changed rows
        # from their logs.
        self._drop_after_membership_change()
        self._readings.catch_up(query)
        for timed in self._timed.values():
            timed.catch_up(query)
        try:
            # A failure may leave the cached profile partly updated, so the profile is forgotten.
            return self._profile(key, query, instances)
        except NonFiniteValueError:
            self._forget(key)
            return None
        except Exception:
            self._forget(key)
            raise

    def _make_context(self) -> EngineContext:
        policy, hosts = self.policy, self._hosts
        return EngineContext(
            hosts,
            policy.filters,
            policy.weighers,
            policy.normalisation,
            self._readings,
            rows_by_name(hosts),
        )

    def _concerns_uncacheable_rule(self, query: Query) -> bool:
        """Return whether an uncacheable rule applies to a request."""
        policy, none = self.policy, np.zeros(0, dtype=np.intp)
        # Whether a rule applies depends on the request alone, so an empty selection suffices.
        for rule in self._uncacheable:
            if isinstance(rule, Filter):
                if rule.keep(self._hosts, query, none) is not None:
                    return True
            elif not is_off(self._hosts, rule):
                found = values_of(rule, policy.normalisation, self._hosts, query, none)
                if found is not None:
                    return True
        return False

    def _key(self, query: Query) -> Hashable:
        """Return a key that is equal for two requests only if all rules read the same of both.

        Raises:
            AttributeError: a rule reads an attribute that requests do not have.
            TypeError: a rule reads a value that has no hashable form.
        """
        # A weigher with multiplier 0 takes effect only while an aggregate overrides the multiplier.
        switches = [is_off(self._hosts, weigher) for weigher in self._switched]
        own = [part(self._hosts, query) for part in self._other_parts]
        key = (self._flavor_key(query), *own, *switches)
        hash(key)
        return key

    def _flavor_key(self, query: Query) -> Hashable:
        """Return an id of flavor and image; rules cannot distinguish pairs with the same id."""
        return self._flavor_keys.get(query.request, lambda: self._number(query))

    def _number(self, query: Query) -> int:
        kind = tuple(part(self._hosts, query) for part in self._flavor_parts)
        number = self._numbers.get(kind)
        if number is None:
            if len(self._numbers) >= _KEYS_MAX:
                self._numbers.clear()
            number = self._numbers[kind] = next(self._next)
        return number

    def _is_current(self, known: RequestProfile, query: Query) -> bool:
        try:
            known.catch_up(query)
        except StaleProfileError:
            return False
        except Exception:
            self.drop(known)
            raise
        return True

    def drop(self, found: RequestProfile) -> None:
        """Drop a profile from the cache after updating or reading it has failed."""
        for kept in (self._profiles, self._probation):
            for key in [key for key, one in kept.items() if one is found]:
                del kept[key]

    def _forget(self, key: Hashable) -> None:
        self._profiles.pop(key, None)
        self._probation.pop(key, None)

    def _profile(self, key: Hashable, query: Query, instances: int) -> RequestProfile | None:
        found = self._cached(key)
        if found is not None:
            try:
                found.catch_up(query)
            except StaleProfileError:
                found = self._profiles[key] = self._make(query)
        else:
            found = self._make(query)
            self._admit(key, found)
        if instances > 1 and (found.stages.is_sticky or found.stages.reads_groups):
            return None
        return found

    def _cached(self, key: Hashable) -> RequestProfile | None:
        """Return the cached profile of a key, or None; promote a profile on probation."""
        found = self._profiles.get(key)
        if found is not None:
            self._profiles.move_to_end(key)
            return found
        found = self._probation.pop(key, None)
        if found is not None:
            self._profiles[key] = found
            self._make_room()
        return found

    def _admit(self, key: Hashable, made: RequestProfile) -> None:
        """Cache a new profile, on probation unless its key is remembered as requested before."""
        if key in self._seen_keys:
            self._profiles[key] = made
            self._make_room()
            return
        self._seen_keys[key] = None
        if len(self._seen_keys) > _KEYS_MAX:
            self._seen_keys.popitem(last=False)
        self._probation[key] = made
        if len(self._probation) > _PROBATION_MAX:
            self._probation.popitem(last=False)

    def _make(self, query: Query) -> RequestProfile:
        policy = self.policy
        timed = [self._timed_of(rule, query) for rule in policy.filters if _is_timed(rule)]
        return RequestProfile(self._context, timed, query)

    def _timed_of(self, rule: Filter, query: Query) -> TimedVerdicts:
        found = self._timed.get(id(rule))
        if found is None:
            found = self._timed[id(rule)] = TimedVerdicts(rule, self._hosts, query)
        return found

    def _make_room(self) -> None:
        most = min(max(_KEPT_ROWS // max(len(self._hosts), 1), _PROFILES_MIN), _PROFILES_MAX)
        while len(self._profiles) > most:
            self._profiles.popitem(last=False)

    def _drop_after_membership_change(self) -> None:
        """Drop all cached data if hosts were added, removed or renamed, which moves positions."""
        if self._membership_epoch != self._hosts.membership_epoch:
            self._membership_epoch = self._hosts.membership_epoch
            self._profiles.clear()
            self._probation.clear()
            self._timed.clear()
            self._readings.reset()
            self._context = self._make_context()


def engine_of(hosts: HostTable, policy: Policy) -> Engine:
    """Return the engine of a policy on a table, cached with the table."""
    engines = hosts.caches.get(_CACHE)
    if not isinstance(engines, _Engines):
        engines = hosts.caches[_CACHE] = _Engines()
    for found in engines.all:
        if _has_same_rules(found.policy, policy):
            return found
    found = Engine(hosts, policy)
    engines.all = [found, *engines.all[: _POLICIES_MAX - 1]]
    return found


def _has_same_rules(one: Policy, other: Policy) -> bool:
    """Return whether two policies share their filters, weighers and normalisation."""
    if one.normalisation is not other.normalisation:
        return False
    # Identity suffices: copies that differ only in how they choose among the best hosts share these
    # tuples.
    return one.filters is other.filters and one.weighers is other.weighers


class _Engines:
    """The engines of one table, the last created first."""

    def __init__(self) -> None:
        self.all: list[Engine] = []


class ProfileRanking:
    """The hosts of a request profile, ordered by score; see `Ranking`.

    The index of a host is its row.
    """

    def __init__(self, kept: RequestProfile, query: Query, engine: Engine) -> None:
        self._profile = kept
        self._query = query
        self._engine = engine
        self._ordered: list[int] = []
        self._asked = 0
        self.size = kept.count

    def count(self, maximum: int) -> int:
        """See `Ranking.count`."""
        return min(self.size, maximum)

    def best(self, count: int) -> list[int]:
        """See `Ranking.best`; the longest result is cached, since shorter ones are its prefixes."""
        if count > self._asked:
            try:
                self._ordered = self._profile.best(self._query, count)
            except BaseException:
                self._engine.drop(self._profile)
                raise
            self._asked = count
        return self._ordered[:count]

    def tied(self) -> list[int]:
        """See `Ranking.tied`."""
        try:
            return self._profile.tied(self._query)
        except BaseException:
            self._engine.drop(self._profile)
            raise

    def row(self, number: int) -> int:
        """See `Ranking.row`."""
        return number

    def find(self, row: int) -> int | None:
        """See `Ranking.find`."""
        (passes,) = self._profile.stages.passing(np.array([row]))
        return row if passes else None

    def scored(self, numbers: Sequence[int]) -> list[ScoredHost]:
        """See `Ranking.scored`."""
        try:
            return self._profile.scored(self._query, numbers)
        except BaseException:
            self._engine.drop(self._profile)
            raise


def _is_cacheable(rule: Filter | Weigher) -> bool:
    """Return whether the engine can cache the verdicts or values of a rule.

    The rule must be row-local and declare known groups of columns only. A rule that reads the time
    must be a filter with `holds_until` that reads nothing else of the request, because all profiles
    share its verdicts.
    """
    if not rule.reads.row_local or not set(rule.reads.columns) <= set(GROUPS):
        return False
    if "now_s" not in rule.reads.request:
        return True
    return isinstance(rule, Filter) and rule.holds_until is not None and _is_timed(rule)


def _is_of_flavor_or_image(path: str) -> bool:
    """Return whether a path leads into flavor, image or needs, which many requests share."""
    return path.partition(".")[0] in {"flavor", "image", "needs"}


def _is_timed(rule: Filter) -> bool:
    return tuple(rule.reads.request) == ("now_s",)
