"""Steps: what a query takes, and how much it may take."""

from typing import Final

from berth.domain.errors import InvalidInputError

STEPS_AT_LEAST: Final = 50_000
STEPS_AN_ANCHOR: Final = 500
STEPS_A_CANDIDATE: Final = 200
"""What a query may take together, and for each of its anchors and of the candidates found."""


class TooManyWaysError(InvalidInputError):
    """So much was tried that nobody could wait for the answer; nothing is known of the rest."""

    def __init__(self, steps: int) -> None:
        super().__init__(
            "allocation_candidates",
            f"there are too many ways to arrange these groups: after {steps:,} steps it is not "
            "known which go together. Ask for fewer groups, a smaller limit or one tree.",
        )


class Steps:
    """How many choices were tried, over all anchors of a query.

    Attributes:
        count: choices that were tried.
        most: how many may be.
    """

    def __init__(self, anchors: int) -> None:
        """Start with none, for a query of so many anchors."""
        self.count = 0
        self.most = STEPS_AT_LEAST + STEPS_AN_ANCHOR * anchors

    def allow_more(self) -> None:
        """Let a candidate that was found pay for the next one."""
        self.most += STEPS_A_CANDIDATE

    def check(self) -> None:
        """Check that not too many were tried.

        Raises:
            TooManyWaysError: they were.
        """
        if self.count > self.most:
            raise TooManyWaysError(self.count)
