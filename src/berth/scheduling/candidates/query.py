"""Queries for allocation candidates, independent of their syntax in a URL."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

UNSUFFIXED: Final = ""
"""The suffix of the only group that several providers may serve together."""


@dataclass(frozen=True, slots=True)
class CandidateGroup:
    """The requirements on one provider or, without a suffix, on several providers.

    Args:
        suffix: the name of the group in the query; empty for the unsuffixed group.
        amounts: the amount of each resource class, at least 1, in the unit of the class. Empty for
            a resourceless group, which takes nothing from its provider and needs a suffix.
        required: sets of traits; one trait of each set is required.
        forbidden: traits that no provider of the group may have.
        member_of: sets of aggregates; the provider must be in one aggregate of each set. For the
            unsuffixed group, it suffices that the root of its tree is in one of the set.
        outside_of: aggregates that must not contain the provider or, for the unsuffixed group, the
            root of the tree.
        in_tree: the uuid of a provider whose tree must contain the providers; None for any tree.
    """

    suffix: str = UNSUFFIXED
    amounts: Mapping[str, int] = field(default_factory=dict[str, int])
    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    outside_of: frozenset[str] = frozenset()
    in_tree: str | None = None

    def __post_init__(self) -> None:
        """Reject groups that no parser should produce.

        Raises:
            ValueError: an amount is below 1, or an unsuffixed group has no amounts.
        """
        if any(amount < 1 for amount in self.amounts.values()):
            raise ValueError(
                f"group {self.suffix!r}: each amount must be at least 1,"
                f" not {min(self.amounts.values())}"
            )
        if not (self.amounts or self.suffix):
            raise ValueError("the unsuffixed group must request a resource class")


@dataclass(frozen=True, slots=True)
class CandidateQuery:
    """A query: its groups, and the constraints that apply to several groups or to the root.

    Args:
        groups: the groups, with distinct suffixes, in the order in which the query first names
            them.
        isolates: whether suffixed groups must all be on different providers.
        root_required: traits that the root of the tree must have.
        root_forbidden: traits that the root of the tree must not have.
        same_subtree: sets of suffixes; of the providers of each set's groups, one must be the
            ancestor of all others, or the only one.
        limit: the maximum number of candidates to return, at least 1; None for all.
        is_nested_aware: False excludes candidates with two providers of one tree, for clients that
            use microversions without nested providers.
    """

    groups: tuple[CandidateGroup, ...]
    isolates: bool = False
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtree: tuple[frozenset[str], ...] = ()
    limit: int | None = None
    is_nested_aware: bool = True

    def __post_init__(self) -> None:
        """Reject queries that no parser should produce.

        Raises:
            ValueError: there is no group, a suffix occurs twice, no group requests a resource
                class, a set of `same_subtree` is empty or names an unknown or the unsuffixed group,
                or the limit is below 1.
        """
        suffixes = {group.suffix for group in self.groups}
        if not self.groups or len(suffixes) != len(self.groups):
            given = [group.suffix for group in self.groups]
            raise ValueError(f"groups: must be one or more with distinct suffixes, not {given}")
        if not any(group.amounts for group in self.groups):
            raise ValueError("at least one group must request a resource class")
        known = suffixes - {UNSUFFIXED}
        if not all(together and together <= known for together in self.same_subtree):
            sets = [sorted(together) for together in self.same_subtree]
            raise ValueError(
                f"same_subtree: each set must name one or more of {sorted(known)}, not {sets}"
            )
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit: must be at least 1, not {self.limit}")
