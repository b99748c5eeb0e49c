"""The engine: request classes of one policy on one table, made when they pay and kept a while."""

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
from berth.scheduling.evaluation.assignments import Assigning
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.evaluation.weighing import is_off, values_of
from berth.scheduling.rules.rule import Filter, Query, Weigher
from berth.tables.columnar.journal import GROUPS
from berth.tables.host.hosts import HostTable

_KEPT_ROWS: Final = 1 << 25
"""Rows that all classes may keep together, about 11 bytes each."""

_PROFILES_MAX: Final = 512
_PROFILES_MIN: Final = 8
_PROBATION_MAX: Final = 4
_KEYS_MAX: Final = 4_096
_POLICIES_MAX: Final = 4
_CACHE: Final = "engine"


class Engine:
    """Keeps request classes. It knows one table and one policy.

    Rules whose verdicts cannot be kept only stand in the way of requests that they concern.

    A class costs no more than one full evaluation, so it is made at once; but until its kind of
    request comes again it is a guest, of which only the newest few are kept.
    """

    def __init__(self, hosts: HostTable, policy: Policy) -> None:
        self.policy = policy
        self.assigning = Assigning(policy.filters)
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
        """Return the class of a request, true to the table; None to evaluate in full.

        Args:
            query: the instance to be placed.
            instances: how many the request asks for.
            known: the class of an earlier instance of the same request, neither of them being
                on a host already.
        """
        if not self._is_supported or (self._uncacheable and self._concerns_uncacheable_rule(query)):
            return None
        if known is not None:
            self._readings.catch_up(query)
            if self._is_current(known, query):
                return known
        try:
            key = self._key(query)
        except (AttributeError, TypeError):
            return None
        self._drop_after_membership_change()
        self._readings.catch_up(query)
        for timed in self._timed.values():
            timed.catch_up(query)
        try:
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
        """Tell whether a rule that cannot be kept has anything to say of a request."""
        policy, none = self.policy, np.zeros(0, dtype=np.intp)
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
        """Return what tells this kind of request from others.

        Raises:
            AttributeError: a rule reads what requests do not have.
            TypeError: what a rule reads cannot be compared.
        """
        switches = [is_off(self._hosts, weigher) for weigher in self._switched]
        own = [part(self._hosts, query) for part in self._other_parts]
        key = (self._flavor_key(query), *own, *switches)
        hash(key)
        return key

    def _flavor_key(self, query: Query) -> Hashable:
        """Return a number that tells flavor and image from others that rules read differently."""
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
        """Drop a class after a rule failed half-way: it may be true of nothing."""
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
        """Find a class; a guest is one no longer."""
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
        """Keep a new class; as a guest, if its kind of request has not been seen before."""
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
        """Start again when hosts have come or gone: everybody's place has changed."""
        if self._membership_epoch != self._hosts.membership_epoch:
            self._membership_epoch = self._hosts.membership_epoch
            self._profiles.clear()
            self._probation.clear()
            self._timed.clear()
            self._readings.reset()
            self._context = self._make_context()


def engine_of(hosts: HostTable, policy: Policy) -> Engine:
    """Return the engine of a policy on a table; it lives as long as the table."""
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
    """Tell whether two policies have the same rules; how to choose is no matter of an engine."""
    if one.normalisation is not other.normalisation:
        return False
    return one.filters is other.filters and one.weighers is other.weighers


class _Engines:
    """The engines of one table, newest first."""

    def __init__(self) -> None:
        self.all: list[Engine] = []


class ProfileRanking:
    """The hosts of a request class in order of their scores; see `Ranked`.

    Hosts are named by their rows.
    """

    def __init__(self, kept: RequestProfile, query: Query, engine: Engine) -> None:
        self._profile = kept
        self._query = query
        self._engine = engine
        self._ordered: list[int] = []
        self._asked = 0
        self.size = kept.count

    def best(self, count: int) -> list[int]:
        """See `Ranked.best`; the fewer are the first of the more."""
        if count > self._asked:
            try:
                self._ordered = self._profile.best(self._query, count)
            except BaseException:
                self._engine.drop(self._profile)
                raise
            self._asked = count
        return self._ordered[:count]

    def tied(self) -> list[int]:
        """See `Ranked.tied`."""
        try:
            return self._profile.tied(self._query)
        except BaseException:
            self._engine.drop(self._profile)
            raise

    def row(self, number: int) -> int:
        """See `Ranked.row`."""
        return number

    def find(self, row: int) -> int | None:
        """See `Ranked.find`."""
        (passes,) = self._profile.stages.passing(np.array([row]))
        return row if passes else None

    def scored(self, numbers: Sequence[int]) -> list[ScoredHost]:
        """See `Ranked.scored`."""
        try:
            return self._profile.scored(self._query, numbers)
        except BaseException:
            self._engine.drop(self._profile)
            raise


def _is_cacheable(rule: Filter | Weigher) -> bool:
    """Tell whether verdicts of a rule can be kept.

    One that changes by time alone is kept once for all classes, so it may read nothing else.
    """
    if not rule.reads.row_local or not set(rule.reads.columns) <= set(GROUPS):
        return False
    if "now_s" not in rule.reads.request:
        return True
    return isinstance(rule, Filter) and rule.holds_until is not None and _is_timed(rule)


def _is_of_flavor_or_image(path: str) -> bool:
    """Tell whether a path leads into flavor and image, which many requests share."""
    return path.partition(".")[0] in {"flavor", "image", "needs"}


def _is_timed(rule: Filter) -> bool:
    return tuple(rule.reads.request) == ("now_s",)
