"""Retention: how much history a ledger keeps."""

from dataclasses import dataclass

from berth.domain.errors import InvalidInputError

# A ledger trims this often while the feed advances by its full length: the feed holds up to 2 %
# more than `feed_versions`, and batches seldom pay for a trim.
_TRIMS_PER_SPAN = 50


@dataclass(frozen=True, slots=True)
class Retention:
    """The history that is kept at least. Somewhat more may remain, since trimming is done rarely.

    `feed_versions` and `decisions` count the newest ones kept. A claim key is known for
    `claim_keys_s` seconds after its commit: a retry must come within that time. A deleted instance
    can be read for `deleted_instances_s` seconds after its last change.
    """

    feed_versions: int = 200_000
    decisions: int = 100_000
    claim_keys_s: float = 3600.0
    deleted_instances_s: float = 7 * 86_400.0

    def __post_init__(self) -> None:
        """Check that every value is positive.

        Raises:
            InvalidInputError: a value is not above 0; it names the field.
        """
        for name in ("feed_versions", "decisions", "claim_keys_s", "deleted_instances_s"):
            if getattr(self, name) <= 0:
                raise InvalidInputError(name, "must be above 0")

    def is_due(self, before: int, after: int) -> bool:
        """Return whether a batch that took the ledger from one version to another should trim."""
        step = max(1, self.feed_versions // _TRIMS_PER_SPAN)
        return before // step != after // step

    def trim_parameters(self, version: int, now_s: float) -> dict[str, int | float]:
        """Return the bounds of what is kept, by the parameter names of the trimming statements."""
        return {
            "floor": max(0, version - self.feed_versions),
            "before_s": now_s - self.claim_keys_s,
            "kept": self.decisions - 1,
            "deleted_before_s": now_s - self.deleted_instances_s,
        }
