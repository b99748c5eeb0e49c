"""Why a query has the allocation candidates that it has, as Berth's own API writes it."""

from berth.api.codec import Model, View
from berth.scheduling.candidates.masks import ConstraintKind


class CandidatesQuery(Model):
    """What is asked for, as `GET /placement/allocation_candidates` has it in its newest version.

    `resources`, `required`, `member_of` and `in_tree` may also have a suffix, for another group.
    """

    resources: str | None = None
    required: str | None = None
    member_of: str | None = None
    in_tree: str | None = None
    group_policy: str | None = None
    root_required: str | None = None
    same_subtree: str | None = None
    limit: str | None = None


class LeftView(View):
    """How many providers could give something, and how many trees they could give it to."""

    providers: int
    trees: int


class StepView(View):
    """One constraint of a group, or of the query as a whole (`group` is null)."""

    group: str | None
    constraint: ConstraintKind
    names: list[str]
    before: LeftView
    after: LeftView


class ExplanationAnswer(View):
    """What each constraint leaves of the fleet.

    `ends_at` is the place in `steps` of the first one that leaves nothing; null when there are
    candidates.
    """

    fleet: LeftView
    steps: list[StepView]
    ends_at: int | None
