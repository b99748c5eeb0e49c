"""The retention of a ledger: the minimum history that it keeps."""

from dataclasses import dataclass

from berth.domain.errors import InvalidInputError

# A ledger trims this many times while the feed advances by `feed_versions`. The feed thus has at
# most about 2 % more versions, and few batches are delayed by a trim.
_TRIMS_PER_SPAN = 50


@dataclass(frozen=True, slots=True)
class Retention:
    """The minimum history that a ledger keeps; it keeps more until the next trim.

    Attributes:
        feed_versions: the number of newest versions that stay in the change feed.
        decisions: the number of newest decisions that are kept.
        claim_keys_s: the seconds for which a claim key is kept after its commit; a retry must come
            within this time.
        deleted_instances_s: the seconds for which a deleted instance is kept after its last change.
    """

    feed_versions: int = 200_000
    decisions: int = 100_000
    claim_keys_s: float = 3600.0
    deleted_instances_s: float = 7 * 86_400.0

    def __post_init__(self) -> None:
        """Check that every value is positive.

        Raises:
            InvalidInputError: a value is not above 0; the error names the field.
        """
        for name in ("feed_versions", "decisions", "claim_keys_s", "deleted_instances_s"):
            if getattr(self, name) <= 0:
                raise InvalidInputError(name, f"{getattr(self, name)} must be above 0")

    def is_due(self, before: int, after: int) -> bool:
        """Return whether to trim after a batch that took the ledger from one version to another."""
        step = max(1, self.feed_versions // _TRIMS_PER_SPAN)
        return before // step != after // step

    def trim_parameters(self, version: int, now_s: float) -> dict[str, int | float]:
        """Return the limits of the kept history, by the parameter names of the trim statements."""
        return {
            "floor": max(0, version - self.feed_versions),
            "before_s": now_s - self.claim_keys_s,
            "kept": self.decisions - 1,
            "deleted_before_s": now_s - self.deleted_instances_s,
        }
