"""Query and response body for the explanation of allocation candidates."""

from berth.api.codec import Model, View
from berth.scheduling.candidates.masks import ConstraintKind


class CandidatesQuery(Model):
    """The query of `GET /placement/allocation_candidates` in its newest microversion.

    `resources`, `required`, `member_of` and `in_tree` may also have the suffix of a request group.
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
    """The number of providers that remain, and of trees that can still supply a candidate."""

    providers: int
    trees: int


class StepView(View):
    """A constraint of a request group, or of the query if `group` is null, with its effect."""

    group: str | None
    constraint: ConstraintKind
    names: list[str]
    before: LeftView
    after: LeftView


class ExplanationAnswer(View):
    """The providers and trees that remain after each constraint.

    `fleet` counts all providers and trees. `ends_at` is the index in `steps` of the first
    constraint that leaves no tree, or null if there are candidates.
    """

    fleet: LeftView
    steps: list[StepView]
    ends_at: int | None
