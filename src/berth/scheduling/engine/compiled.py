"""The steps of a request profile that the compiled kernel executes."""

from collections.abc import Iterator

import numpy as np

from berth.scheduling.engine.blocks import BlockedScores
from berth.scheduling.engine.engine_context import EngineContext
from berth.scheduling.engine.kernel import Changes, Kernel
from berth.scheduling.engine.measures import NonFiniteValueError
from berth.scheduling.engine.scales import Scales
from berth.scheduling.engine.scoring import Scoring
from berth.scheduling.engine.stages import Stages
from berth.scheduling.rules.rule import Query

ScoredRow = tuple[int, float, tuple[float, ...], tuple[float, ...]]
"""(row, score, raw values, normalised values) of one host."""


class KernelBoard:
    """A kernel board for one request profile: it applies changed rows and finds the best hosts.

    The board writes to the arrays of the profile's stages and scores. Its results equal those of
    the NumPy steps to the last bit: the kernel is optional, and a plan must not depend on whether a
    scheduler has it (ADR 13). Each step exists twice, here and in `RequestProfile`, `Stages`,
    `Scoring` and `BlockedScores`; change both.

    Attributes:
        board: the board of the kernel.
        can_rescale: whether the kernel can score all hosts: all values are in the readings, and
            every multiplier is the same for all hosts.
        can_explain: whether the kernel can return score parts: every multiplier is the same for all
            hosts.
    """

    def __init__(
        self,
        kernel: Kernel,
        context: EngineContext,
        stages: Stages,
        scoring: Scoring,
        scores: BlockedScores,
    ) -> None:
        """Create the board of a profile with these parts."""
        self._kernel = kernel
        self._hosts = context.hosts
        self._readings = context.readings
        self._order = context.order
        self._stages = stages
        self._scoring = scoring
        self.board = kernel.Board(
            stage=stages.stage,
            settled=stages.settled,
            counts=stages.counts,
            passed=stages.passed,
            scores=scores.values,
            greatest=scores.greatest,
            shift=scores.shift,
            lines=scoring.measures.lines,
            by_share=scoring.by_share,
        )
        self.can_rescale = not scoring.varies and not scoring.measures.reads_request
        terms = scoring.explained_terms()
        self.can_explain = terms is not None
        if terms is not None:
            self.board.set_told(terms)

    def set_scales(self, scales: Scales) -> None:
        """Set the scales on which the board scores hosts from now on."""
        self.board.set_ends(scales.each)

    def rescale(self) -> None:
        """Score all hosts on the current scales; requires `can_rescale`.

        Raises:
            NonFiniteValueError: a value or score is not finite.
        """
        if self.board.rescale(self._order, self._readings.values):
            raise NonFiniteValueError

    def apply_changes(
        self, query: Query, rows: list[int], own: list[list[float]], scales: Scales
    ) -> bool:
        """Update stages, extremes and scores for changed rows.

        Args:
            query: a request of the profile.
            rows: the changed rows, each once; their settled stages must be up to date.
            own: the own values of each row; empty if no weigher has own values.
            scales: the scales of the stored scores.

        Returns:
            Whether the new scores are finite. If not, they are not stored, and the caller must
            rescale all scores.

        Raises:
            NonFiniteValueError: a value is not finite.
        """
        kernel, stages, scoring = self._kernel, self._stages, self._scoring
        limits = stages.limits(query)
        asked = (
            None if limits is not None else stages.evaluate(query, np.array(rows, dtype=np.intp))
        )
        factors = None
        if scoring.varies:
            factors = scoring.factors(np.array(rows, dtype=np.intp), scales)
        changes = Changes(
            rows,
            None if self._order is None else self._hosts.rank,
            self._readings.values,
            limits,
            stages.limited_stage,
            asked,
            own,
            factors,
            scoring.search,
        )
        flags = self.board.update(changes)
        if not flags:
            return True
        # If a value is not finite, the board has updated the stages, but neither extremes nor
        # scores, so the caller must drop the profile.
        if flags & kernel.VALUES_UNFIT:
            raise NonFiniteValueError
        if flags & kernel.STAGES_MOVED:
            stages.invalidate_counts()
        if flags & kernel.EXTREMES_MOVED:
            scoring.invalidate_scales()
        return not flags & kernel.SCORES_UNFIT

    def can_find(self, count: int) -> bool:
        """Return whether the kernel can find this many best hosts."""
        return count <= self._kernel.BEST_MAX

    def top(self, count: int) -> list[int]:
        """Return the positions of the greatest scores, best first, ties by position."""
        return self.board.best(count, None)

    def top_rows(self, count: int) -> list[int]:
        """Return the rows with the greatest scores, best first, ties by position."""
        return self.board.best(count, self._order)

    def explain(self, rows: list[int], own: list[list[float]]) -> Iterator[ScoredRow]:
        """Yield the score parts of each row on the stored scores' scales; requires `can_explain`.

        Args:
            rows: the rows.
            own: the own values of each row; empty if no weigher has own values.

        Raises:
            NonFiniteValueError: a value is not finite.
        """
        try:
            parts = self.board.tell(rows, self._readings.values, own)
        except ArithmeticError:
            raise NonFiniteValueError from None
        for row, (score, raw, normalised) in zip(rows, parts, strict=True):
            yield row, score, raw, normalised
