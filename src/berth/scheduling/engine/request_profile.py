"""Request profiles: stages and scores of all hosts for requests that rules cannot distinguish."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from berth.domain.compute.decision import ScoredHost
from berth.scheduling.engine.blocks import BlockedScores
from berth.scheduling.engine.compiled import KernelBoard
from berth.scheduling.engine.engine_context import EngineContext
from berth.scheduling.engine.kernel import Kernel, kernel
from berth.scheduling.engine.measures import NonFiniteValueError, are_finite, check_finite
from berth.scheduling.engine.scales import Scales, drift, prepared
from berth.scheduling.engine.scoring import Scoring
from berth.scheduling.engine.stages import Stages
from berth.scheduling.engine.timed import JournalCursor, TimedVerdicts
from berth.scheduling.evaluation.weighing import Scale, is_off, values_of
from berth.scheduling.rules.rule import Normalisation, Query, Scores, Weigher
from berth.tables.columnar.bitsets import Rows
from berth.tables.columnar.journal import VOLATILE

# Up to this many candidates are evaluated exactly, which is cheaper than rescaling all scores.
_FEW: Final = 256

# Up to this many changed rows are updated one by one, because plain numbers are then faster than
# arrays: each NumPy call costs about a microsecond whatever its arrays hold (ADR 13).
_ONE_BY_ONE: Final = 3

# A profile caches the values and score parts of about this many hosts, half a kilobyte each.
_SCORED_MAX: Final = 256

# For a request of several instances, one call computes the own values of this many best hosts.
_AHEAD: Final = 32

# After this many decisions on drifted scores, all scores are rescaled, because each such decision
# evaluates some hosts exactly.
_DRIFTED_MAX: Final = 16

# With up to this many hosts, rescaling in the kernel is faster than searching drifted scores.
_SOON_SCALED: Final = 8_192

# If more than about 1/4 of the rows have changed, the profile is rebuilt.
_CHANGED_SHARE: Final = 4


class StaleProfileError(Exception):
    """The profile must be rebuilt, because updating it is impossible or would cost more."""


class RequestProfile:
    """Stages, extremes and scores of all hosts for one request profile on one table."""

    def __init__(
        self, context: EngineContext, timed: Sequence[TimedVerdicts], query: Query
    ) -> None:
        hosts, readings, normalisation = context.hosts, context.readings, context.normalisation
        self._context = context
        self._hosts = hosts
        self._readings = readings
        self._epoch = readings.epoch
        self._normalisation = normalisation
        self._timed = timed
        self._timed_at = [one.position for one in timed]
        self.stages = Stages(hosts, context.filters, timed, query)
        concerned = [weigher for weigher in context.weighers if self._concerns(weigher, query)]
        self._scoring = Scoring(
            hosts, concerned, normalisation, query, self.stages.passing, readings
        )
        self._order = context.order
        self._scores = BlockedScores(np.full(len(hosts), -np.inf))
        self._compiled = self._compile(kernel())
        self._scoring.begin(None if self._compiled is None else self._compiled.board)
        self._scored: dict[int, ScoredHost] = {}
        self._scored_scales: tuple[Scale, ...] = ()
        # Own values of rows: those of weighers that read the request; see `Measures.own_values`.
        self._own: dict[int, list[float]] = {}
        groups = self.stages.groups.union(
            *(weigher.reads.columns for weigher in concerned),
            {"aggregates"} if any(weigher.multiplier_key for weigher in concerned) else (),
        )
        self._positions = JournalCursor(hosts.journal, groups)
        self._rescale(query)

    @property
    def count(self) -> int:
        """The number of hosts that pass all filters."""
        return self.stages.count

    def catch_up(self, query: Query) -> None:
        """Update the profile for the rows that have changed in the table.

        Raises:
            StaleProfileError: the profile must be rebuilt.
            NonFiniteValueError: a value or score is not finite; evaluate the request in full.
        """
        # If the readings have gained or lost a line, the line indices of this profile are outdated.
        if self._epoch != self._readings.epoch:
            raise StaleProfileError
        volatile, settled = self._changed()
        changed = volatile | settled if settled else volatile
        if not changed:
            return
        if len(changed) <= _ONE_BY_ONE and not settled and self._compiled is None:
            for row in changed:
                self._catch_up_one(query, row)
            return
        if len(changed) * _CHANGED_SHARE > len(self._hosts) + _FEW:
            raise StaleProfileError
        # Kernel and scoring are set up either for multipliers that vary between hosts or for equal
        # ones.
        if settled and self._scoring.has_switched():
            raise StaleProfileError
        listed = list(changed)
        if self._compiled is not None:
            self._apply_by_kernel(query, listed, settled, self._compiled)
            return
        rows = np.array(listed, dtype=np.intp)
        also = np.array(list(settled), dtype=np.intp) if settled else None
        # Stages are updated first, because extremes are those of the rows that pass now.
        passes = self.stages.update(query, rows, also)
        values = self._scoring.measures.values(query, rows)
        scores = self._scoring.scores(values, self._reference, rows)
        check_finite(values)
        self._forget(listed)
        self._remember(listed, values[self._scoring.measures.own].T.tolist())
        self._scoring.update(rows, changed, values, passes)
        if not are_finite(scores):
            # Scores that overflow on the old scales may be finite on the current ones.
            self._rescale(query)
            return
        scores[~passes] = -np.inf
        self._scores.put(self._positions_of(rows), scores)

    def _compile(self, kernel: Kernel | None) -> KernelBoard | None:
        if kernel is None:
            return None
        return KernelBoard(kernel, self._context, self.stages, self._scoring, self._scores)

    def _apply_by_kernel(
        self, query: Query, rows: list[int], settled: set[int], compiled: KernelBoard
    ) -> None:
        """Update changed rows in the kernel; `catch_up` has the same steps in NumPy."""
        if settled:
            self.stages.update_settled(query, np.array(list(settled), dtype=np.intp))
            # Own values of weighers that read nothing volatile are reused for rows that changed in
            # volatile columns only (`own_values_of_one`). After other changes, they may be
            # outdated.
            self._own.clear()
        own = self._own_values(query, rows)
        self._forget(rows)
        self._remember(rows, own)
        if not compiled.apply_changes(query, rows, own, self._reference):
            self._rescale(query)

    def _own_values(self, query: Query, rows: list[int]) -> list[list[float]]:
        """Return the own values of each row; an empty list when no weigher reads the request."""
        measures, known = self._scoring.measures, self._own
        if not measures.reads_request:
            return []
        if len(rows) <= _ONE_BY_ONE:
            return [measures.own_values_of_one(query, row, known.get(row)) for row in rows]
        return measures.own_values(query, np.array(rows, dtype=np.intp))

    def _catch_up_one(self, query: Query, row: int) -> None:
        """Update one row of which only volatile columns have changed."""
        scoring = self._scoring
        passes = self.stages.update_one(query, row)
        own = self._own_values(query, [row])
        values = scoring.measures.whole(row, own[0] if own else ())
        if not all(map(math.isfinite, values)):
            raise NonFiniteValueError
        score = scoring.score_of_one(values, self._reference, row)
        self._forget([row])
        self._remember([row], own)
        scoring.update_one(row, values, passes=passes)
        if not math.isfinite(score):
            self._rescale(query)
            return
        position = row if self._order is None else self._hosts.rank.item(row)
        self._scores.put_one(position, score if passes else -math.inf)

    def best(self, query: Query, count: int) -> list[int]:
        """Return the rows of the `count` best hosts, or of all if fewer pass.

        The best host is first; hosts with equal scores are sorted by name.

        Raises:
            NonFiniteValueError: a value, scale or score is not finite; evaluate the request in
                full.
        """
        now = self._scoring.scales()
        # On unchanged scales, the stored scores are exact.
        if now == self._reference.all:
            return self._top_rows(count)
        compiled = self._compiled
        if compiled is not None and compiled.can_rescale and len(self._hosts) <= _SOON_SCALED:
            self._rescale(query)
            return self._top_rows(count)
        positions = self._top(count)
        if positions:
            positions = self._best_of_drifted(query, positions, count, now)
        return self._rows_of(positions)

    def _top(self, count: int) -> list[int]:
        """Return the positions of the greatest scores on the reference scales."""
        if self._compiled is not None and self._compiled.can_find(count):
            return self._compiled.top(count)
        return self._scores.best(count)

    def _top_rows(self, count: int) -> list[int]:
        """Return the rows of the greatest scores on the reference scales."""
        if self._compiled is not None and self._compiled.can_find(count):
            return self._compiled.top_rows(count)
        return self._rows_of(self._scores.best(count))

    def tied(self, query: Query) -> list[int]:
        """Return the rows of all hosts that share the best score, sorted by name.

        Raises:
            NonFiniteValueError: see `best`.
        """
        if self._scoring.scales() != self._reference.all:
            self._rescale(query)
        (first,) = self._top(1)
        return self._rows_of(self._scores.at_least(float(self._scores.values[first])).tolist())

    def scored(self, query: Query, rows: Sequence[int]) -> list[ScoredHost]:
        """Return hosts with the parts of their scores, cached until the host or the scales change.

        Under Nova's normalisation, a single passing host is not weighed and scores 0.

        Args:
            query: a request of this profile.
            rows: the rows of the hosts.

        Raises:
            NonFiniteValueError: see `best`.
        """
        if self.count <= 1 and self._normalisation is Normalisation.NOVA:
            named = map(self._hosts.identity, rows)
            return [ScoredHost(name, node, 0.0) for name, node, _ in named]
        scales, known = self._scoring.scales(), self._scored
        if scales is not self._scored_scales and scales != self._scored_scales:
            known.clear()
        self._scored_scales = scales
        unknown = [row for row in rows if row not in known]
        if unknown:
            if len(known) > _SCORED_MAX:
                self._own.clear()
                known.clear()
                unknown = list(rows)
            self._score_parts(query, unknown)
        return [known[row] for row in rows]

    def _score_parts(self, query: Query, rows: list[int]) -> None:
        """Compute and cache the score parts of the rows, reusing own values that are valid."""
        scoring, hosts, compiled = self._scoring, self._hosts, self._compiled
        own = self._known_values(query, rows) if scoring.measures.reads_request else []
        if (
            compiled is not None
            and compiled.can_explain
            and scoring.scales() == self._reference.all
        ):
            for row, score, given, normalised in compiled.explain(rows, own):
                name, node, _ = hosts.identity(row)
                self._scored[row] = ScoredHost(
                    name, node, score, scoring.names, given, normalised, scoring.plain_factors
                )
            return
        if scoring.measures.reads_request:
            raw = [scoring.measures.whole(*one) for one in zip(rows, own, strict=True)]
            check_finite(np.array(raw))
        else:
            values = scoring.measures.values(query, np.array(rows, dtype=np.intp))
            check_finite(values)
            raw = values.T.tolist()
        for row, part in zip(rows, scoring.parts(rows, raw), strict=True):
            name, node, _ = hosts.identity(row)
            self._scored[row] = ScoredHost(
                name, node, part.score, scoring.names,
                raw=part.raw, normalised=part.normalised, multipliers=part.factors,
            )  # fmt: skip

    def _known_values(self, query: Query, rows: list[int]) -> list[list[float]]:
        """Return the own values of each row, and cache them."""
        known = self._own
        unknown = [row for row in rows if row not in known]
        if unknown:
            if len(query.request.instance_uuids) > 1:
                # The other instances of the request will probably be placed on the next best hosts,
                # so one call computes the values of all.
                ahead = self._top_rows(_AHEAD)
                unknown.extend(row for row in ahead if row not in known and row not in rows)
            known.update(zip(unknown, self._own_values(query, unknown), strict=True))
        return [known[row] for row in rows]

    def _remember(self, rows: list[int], own: list[list[float]]) -> None:
        """Cache the own values of changed rows, unless there are many."""
        # The best of the changed rows will be read again soon.
        if not self._scoring.measures.reads_request or len(rows) > _SCORED_MAX // 2:
            return
        if len(self._own) + len(rows) > _SCORED_MAX:
            self._own.clear()
            self._scored.clear()
        self._own.update(zip(rows, own, strict=True))

    def _forget(self, rows: list[int]) -> None:
        """Drop cached values and score parts of changed rows."""
        for known in (self._scored, self._own):
            for row in known.keys() & rows if len(rows) > 1 else rows:
                known.pop(row, None)

    def _concerns(self, weigher: Weigher, query: Query) -> bool:
        """Return whether a weigher applies to requests of this profile."""
        if is_off(self._hosts, weigher):
            return False
        first = (self._hosts.alive.argmax(),) if len(self._hosts) else ()
        some = np.array(first, dtype=np.intp)
        return values_of(weigher, self._normalisation, self._hosts, query, some) is not None

    def _changed(self) -> tuple[set[int], set[int]]:
        """Return the rows changed in volatile columns, and those changed in any other way.

        The second set includes rows whose timed verdict changed.

        Raises:
            StaleProfileError: the journal or the log of a timed filter no longer lists all changes.
        """
        found = self._positions.changed()
        if found is None:
            raise StaleProfileError
        volatile: set[int] = set()
        settled: set[int] = set()
        for group, rows in found.items():
            (volatile if group in VOLATILE else settled).update(rows)
        for index, one in enumerate(self._timed):
            position = one.position
            if position == self._timed_at[index]:
                continue
            turned = one.since(self._timed_at[index])
            if turned is None:
                raise StaleProfileError
            settled.update(turned)
            self._timed_at[index] = position
        return volatile, settled

    def _best_of_drifted(
        self, query: Query, positions: list[int], count: int, now: tuple[Scale, ...]
    ) -> list[int]:
        """Return the positions of the best hosts although stored scores are on outdated scales.

        Let `most` be the greatest amount by which any score can have risen, and let `worst` be the
        lowest exact score of the hosts with the best stored scores. A host whose stored score is
        more than `most` below `worst` cannot be among the best. All others are evaluated exactly.
        If these are many, or after many such decisions, all scores are rescaled instead.
        """
        self._drifted += 1
        if self._drifted <= _DRIFTED_MAX:
            scales = prepared(self._scoring.weighers, now)
            _, most = drift(self._scoring.weighers, self._reference.all, now, self._scoring.extent)
            exact = self._exact(query, np.array(positions, dtype=np.intp), scales)
            # Slack covers rounding: stored and exact scores are sums of differently scaled
            # products.
            bound = float(exact.min()) - most - self._scoring.slack
            if len(positions) < count:
                # Fewer hosts than requested pass, so every passing one is among the best.
                bound = float(np.finfo(np.float64).min)
            if math.isfinite(bound) and (best := self._best_above(bound, query, count, scales)):
                return best
        self._rescale(query)
        return self._top(count)

    def _best_above(
        self, bound: float, query: Query, count: int, scales: Scales
    ) -> list[int] | None:
        """Return the best hosts with stored scores of at least `bound`; None if there are many."""
        near = self._scores.at_least(bound)
        if near.size > _FEW:
            return None
        best: list[int] = near[
            # The position, which follows the order of names, decides between equal scores.
            np.lexsort((near, -self._exact(query, near, scales)))[:count]
        ].tolist()
        return best

    def _exact(self, query: Query, positions: Rows, scales: Scales) -> Scores:
        rows = positions if self._order is None else self._order[positions]
        values = self._scoring.measures.values(query, rows)
        check_finite(values)
        return self._scoring.scores(values, scales, rows)

    def _rescale(self, query: Query) -> None:
        """Score all hosts on the current scales.

        Raises:
            NonFiniteValueError: a value, scale or score is not finite.
        """
        self._drifted = 0
        self._scoring.reference = self._scoring.scales()
        self._reference = prepared(self._scoring.weighers, self._scoring.reference)
        if self._compiled is not None:
            self._compiled.set_scales(self._reference)
            if self._compiled.can_rescale:
                self._compiled.rescale()
                return
        self._scores.fill(self._all_scores(query))

    def _all_scores(self, query: Query) -> Scores:
        """Return the scores of all hosts on the reference scales, by position."""
        everyone = self._hosts.all_rows
        values = self._scoring.measures.values(query, everyone)
        check_finite(values)
        scores = self._scoring.scores(values, self._reference, everyone)
        passes = self.stages.passing(everyone)
        if not are_finite(scores) and not are_finite(scores[passes]):
            raise NonFiniteValueError
        scores[~passes] = -np.inf
        return scores if self._order is None else scores[self._order]

    def _positions_of(self, rows: Rows) -> Rows:
        return rows if self._order is None else self._hosts.rank[rows]

    def _rows_of(self, positions: list[int]) -> list[int]:
        if self._order is None:
            return positions
        rows: list[int] = self._order[positions].tolist()
        return rows
