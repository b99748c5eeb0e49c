"""What a query for allocation candidates asks for, free of how it was written down."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

UNSUFFIXED: Final = ""
"""The suffix of the one group that several providers may give together."""


@dataclass(frozen=True, slots=True)
class CandidateGroup:
    """What is asked of one provider or, without a suffix, of several of one tree together.

    Args:
        suffix: its name in the query; empty for the unsuffixed group.
        amounts: by resource class, each at least 1 and in the unit of its class. Empty for a
            group that only names a provider (a resourceless group, which needs a suffix).
        required: for each of these sets, one trait of it must be there.
        forbidden: traits that no provider used may have.
        member_of: for each of these sets, the provider must be in an aggregate of it. For the
            unsuffixed group it is enough that the root of the tree is.
        outside_of: aggregates that the provider must not be in; for the unsuffixed group nor
            the root of the tree.
        in_tree: a provider in whose tree the group must be.
    """

    suffix: str = UNSUFFIXED
    amounts: Mapping[str, int] = field(default_factory=dict[str, int])
    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    outside_of: frozenset[str] = frozenset()
    in_tree: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no parser should let through.

        Raises:
            ValueError: an amount below 1, or an unsuffixed group that asks for nothing.
        """
        if any(amount < 1 for amount in self.amounts.values()):
            raise ValueError(f"group {self.suffix!r}: amounts must be at least 1")
        if not (self.amounts or self.suffix):
            raise ValueError("the unsuffixed group must ask for a resource class")


@dataclass(frozen=True, slots=True)
class CandidateQuery:
    """Groups, and what is asked of them together.

    Args:
        groups: in the order in which the query names them first; suffixes differ.
        isolates: groups with a suffix must all be on different providers.
        root_required: traits that the root of the tree must have.
        root_forbidden: traits that the root of the tree must not have.
        same_subtree: sets of suffixes; of the providers of these groups one must be an ancestor
            of all others, or the only one.
        limit: how many candidates are wanted at most, at least 1; None for all.
        is_nested_aware: False leaves out candidates with two providers of one tree, for clients
            older than trees.
    """

    groups: tuple[CandidateGroup, ...]
    isolates: bool = False
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtree: tuple[frozenset[str], ...] = ()
    limit: int | None = None
    is_nested_aware: bool = True

    def __post_init__(self) -> None:
        """Refuse what no parser should let through.

        Raises:
            ValueError: no group, two of one suffix, a subtree of unknown or unsuffixed groups,
                or a limit below 1.
        """
        suffixes = {group.suffix for group in self.groups}
        if not self.groups or len(suffixes) != len(self.groups):
            raise ValueError("a query has at least one group, and each suffix once")
        if not any(group.amounts for group in self.groups):
            raise ValueError("at least one group must ask for a resource class")
        known = suffixes - {UNSUFFIXED}
        if not all(together and together <= known for together in self.same_subtree):
            raise ValueError("same_subtree must name suffixes of this query")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit {self.limit} must be at least 1")
