"""The part of a request class that the kernel does, where there is one."""

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
"""(row, score, raw values, normalised values)"""


class KernelBoard:
    """Takes in changed rows, and finds the best, in compiled code.

    It writes to the arrays of the class's stages and scores; what it does comes out as what
    numpy does there, to the last bit.

    Attributes:
        rescales: it can score everybody, as all values are kept and all multipliers the same.
        explains: it can tell all that weighers gave a host, as all multipliers are the same.
    """

    def __init__(
        self,
        kernel: Kernel,
        context: EngineContext,
        stages: Stages,
        scoring: Scoring,
        scores: BlockedScores,
    ) -> None:
        """Make a board for a class, of which these are the parts."""
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
        self.rescales = not scoring.varies and not scoring.measures.reads_request
        told = scoring.explained_terms()
        self.explains = told is not None
        if told is not None:
            self.board.set_told(told)

    def set_scales(self, scales: Scales) -> None:
        """Put scores on these scales from now on."""
        self.board.set_ends(scales.each)

    def rescale(self) -> None:
        """Score everybody anew on the scales, while `rescales`.

        Raises:
            NonFiniteValueError: a value is not finite, or a score.
        """
        if self.board.rescale(self._order, self._readings.values):
            raise NonFiniteValueError

    def apply_changes(
        self, query: Query, rows: list[int], own: list[list[float]], scales: Scales
    ) -> bool:
        """Make stages, extremes and scores true to rows that changed.

        Args:
            query: the request at hand, of the class.
            rows: each once; what is settled of them has been looked at.
            own: for each row the values of the weighers that read the request, if there are any.
            scales: those that scores are on.

        Returns:
            Whether scores hold; everything is to be scored anew when they do not.

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
        if flags & kernel.VALUES_UNFIT:
            raise NonFiniteValueError
        if flags & kernel.STAGES_MOVED:
            stages.invalidate_counts()
        if flags & kernel.EXTREMES_MOVED:
            scoring.invalidate_scales()
        return not flags & kernel.SCORES_UNFIT

    def finds(self, count: int) -> bool:
        """Tell whether so many of the best can be found here."""
        return count <= self._kernel.BEST_MAX

    def top(self, count: int) -> list[int]:
        """Return the positions of the greatest scores, best first, low positions first."""
        return self.board.best(count, None)

    def top_rows(self, count: int) -> list[int]:
        """Return the rows at those positions."""
        return self.board.best(count, self._order)

    def explain(self, rows: list[int], own: list[list[float]]) -> Iterator[ScoredRow]:
        """Tell of rows what each weigher gave them, while `explains` and on the scales of scores.

        Args:
            rows: their numbers.
            own: for each row the values of the weighers that read the request, if there are any.

        Raises:
            NonFiniteValueError: a value is not finite.
        """
        try:
            told = self.board.tell(rows, self._readings.values, own)
        except ArithmeticError:
            raise NonFiniteValueError from None
        for row, (score, raw, normalised) in zip(rows, told, strict=True):
            yield row, score, raw, normalised
